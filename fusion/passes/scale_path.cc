#include "fusion/passes/scale_path.h"

#include <algorithm>
#include <cmath>

#include "fusion/passes/affine.h"
#include "fusion/passes/fold_layer.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::kNoNode;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr int kLongest = 24;  // operators of a path

bool is_relu(const graph::Unary& u) {
  return u.kind == graph::UnaryKind::relu || u.kind == graph::UnaryKind::leaky_relu ||
         (u.kind == graph::UnaryKind::clip && u.a == 0 && std::isinf(u.b));
}

bool rows_are_last_axis(const Graph& g, const Node& n, const graph::Norm& norm) {
  const int rank = g.type(n.outputs[0]).shape.rank();
  return (norm.kind == graph::NormKind::layer || norm.kind == graph::NormKind::rms) &&
         (norm.axis == -1 || norm.axis == rank - 1);
}

bool constant_or_absent(const Graph& g, const Node& n, std::size_t operand) {
  return n.inputs.size() <= operand || n.inputs[operand] == kNoValue ||
         (g.is_constant(n.inputs[operand]) && g.type(n.inputs[operand]).dtype == DType::f32);
}

class Finder {
 public:
  Finder(const Graph& g, const Index& index, std::size_t channels)
      : g_(g), index_(index), path_{kNoNode, {}, kNoValue, {}, ChannelClasses(channels)} {}

  ScalePathResult from(ValueId x, ChannelIds ids, const std::set<NodeId>& readers) {
    std::string why = other_reader(x, ids, readers);
    if (why.empty()) why = walk(x, std::move(ids), 0);
    if (!why.empty()) return why;
    return std::move(path_);
  }

 private:
  std::string other_reader(ValueId v, const ChannelIds& ids, const std::set<NodeId>& mine) const {
    if (g_.is_output(v)) return "the graph returns '" + g_.value(v).name + "'";
    for (const NodeId r : index_.consumers(v))
      if (mine.count(r) == 0 &&
          !(g_.node(r).inputs[0] == v && reads_no_channel(g_, g_.node(r), ids)))
        return describe(g_, r) + " reads '" + g_.value(v).name + "' too";
    return "";
  }

  // v, all of whose readers are known, shall be scaled.
  std::string walk(ValueId v, ChannelIds ids, int depth) {
    const NodeId p = index_.producer(v);
    if (p == kNoNode) return "'" + g_.value(v).name + "' is an input of the graph";
    if (depth > kLongest) return "what produces it is too far away";
    path_.between.push_back({v, ids});
    const Node& n = g_.node(p);
    const auto output = static_cast<std::size_t>(std::find(n.outputs.begin(), n.outputs.end(), v) -
                                                 n.outputs.begin());
    std::string why = ends_in(p, v, output, ids);
    if (why.empty()) return why;
    if (const auto* mul = std::get_if<graph::Binary>(&n.op);
        mul != nullptr && mul->kind == graph::BinaryKind::mul &&
        commutes_with_scaling(mul->activation, mul->a, mul->b))
      return through_mul(p, ids, depth);
    if (const auto* m = std::get_if<graph::MatMul>(&n.op)) return through_matmul(p, *m, ids, depth);
    if (const auto* a = std::get_if<graph::Attention>(&n.op))
      return output == 0 ? through_attention(p, *a, ids, depth) : why;
    if (const auto* u = std::get_if<graph::Unary>(&n.op); u != nullptr && is_relu(*u))
      return on(n.inputs[0], ids, p, depth);
    if (auto before = ids_before(g_, n, output, ids, path_.classes))
      return on(n.inputs[0], *std::move(before), p, depth);
    return why;
  }

  // Empty: the node takes the factors. Else why it cannot.
  std::string ends_in(NodeId p, ValueId v, std::size_t output, const ChannelIds& ids) {
    const Node& n = g_.node(p);
    const std::string who = describe(g_, p);
    const bool last = ids.axis() == ids.rank() - 1;
    if (const auto* norm = std::get_if<graph::Norm>(&n.op)) {
      if (output != 0 || !last || !rows_are_last_axis(g_, n, *norm))
        return who + " normalizes other axes";
      if (!constant_or_absent(g_, n, 1) || !constant_or_absent(g_, n, 2))
        return "gamma and beta of " + who + " are computed";
    } else if (is_linear_layer(n.op)) {
      const bool conv = std::holds_alternative<graph::Conv>(n.op);
      if (ids.axis() != (conv ? 1 : ids.rank() - 1)) return who + " has its channels elsewhere";
      if (reads_more_than_bias(n)) return who + " adds another tensor";
      if (!commutes(n.op)) return "the activation of " + who + " does not commute with scaling";
      if (!takes_factors(g_, p)) return "the weights of " + who + " are not f32 constants";
    } else if (const auto* affine = std::get_if<graph::Affine>(&n.op)) {
      if (ids.axis() != affine->axis || !commutes(n.op) || !constant_or_absent(g_, n, 1) ||
          !constant_or_absent(g_, n, 2))
        return who + " does not take factors of these channels";
    } else {
      return who + " does not commute with a factor per channel";
    }
    (void)v;
    path_.into = p;
    path_.ids = ids;
    return "";
  }

  static bool commutes(const graph::Op& op) {
    return std::visit(
        [](const auto& o) {
          if constexpr (requires { o.activation; })
            return commutes_with_scaling(o.activation, o.a, o.b);
          else
            return false;
        },
        op);
  }

  // On to an operand that only `reader` may read.
  std::string on(ValueId v, ChannelIds ids, NodeId reader, int depth) {
    if (g_.is_constant(v)) return "'" + g_.value(v).name + "' is a constant";
    if (std::string why = other_reader(v, ids, {reader}); !why.empty()) return why;
    return walk(v, std::move(ids), depth + 1);
  }

  std::string through_mul(NodeId p, const ChannelIds& ids, int depth) {
    const Node& n = g_.node(p);
    std::string why;
    for (const std::size_t side : {0u, 1u}) {
      if (n.inputs[0] == n.inputs[1]) return describe(g_, p) + " squares what it reads";
      const ValueId v = n.inputs[side];
      ChannelClasses classes = path_.classes;
      const auto there = ids_of_operand(g_.type(v).shape, ids, classes);
      // A factor that does not vary along the channels would make them all share one.
      if (!there || there->axis() < 0 || reduced(*there).ids.size() != ids.ids.size()) continue;
      const std::size_t kept = path_.between.size();
      if (g_.is_constant(v)) {
        if (g_.type(v).dtype != DType::f32 || g_.type(v).quant) continue;
        path_.into = p;
        path_.ids = *there;
        path_.constant = v;
        return "";
      }
      std::string obstacle = on(v, *there, p, depth);
      if (obstacle.empty()) return "";
      path_.between.resize(kept);
      path_.classes = std::move(classes);
      why += (why.empty() ? "" : "; ") + obstacle;
    }
    return why.empty() ? describe(g_, p) + " has no factor of these channels" : why;
  }

  std::string through_matmul(NodeId p, const graph::MatMul& m, const ChannelIds& ids, int depth) {
    const Node& n = g_.node(p);
    const Shape& right = g_.type(n.inputs[1]).shape;
    if (ids.rank() < 2 || right.rank() < 2 || ids.rank() < right.rank() ||
        ids.extents[static_cast<std::size_t>(ids.rank() - 2)] != 1)
      return describe(g_, p) + " does not keep these channels";
    // As if the right side were an operand of [.., 1, N].
    Shape columns = right;
    const int rank = right.rank();
    columns[rank - 1] = right[m.transpose_b ? rank - 2 : rank - 1];
    columns[rank - 2] = Dim(1);
    auto there = ids_of_operand(columns, ids, path_.classes);
    if (!there) return describe(g_, p) + " does not keep these channels";
    if (m.transpose_b)
      std::swap(there->extents[static_cast<std::size_t>(rank - 1)],
                there->extents[static_cast<std::size_t>(rank - 2)]);
    return on(n.inputs[1], reduced(*there), p, depth);
  }

  // Every head of the result has the channels of the head of V it reads.
  std::string through_attention(NodeId p, const graph::Attention& a, const ChannelIds& ids,
                                int depth) {
    const Node& n = g_.node(p);
    const ValueId v = n.inputs[2];
    const std::string no = describe(g_, p) + " does not keep these channels";
    const bool keeps_state = (n.inputs.size() > 5 && n.inputs[5] != kNoValue) ||
                             (n.outputs.size() > 2 && n.outputs[2] != kNoValue);
    const Shape& shape = g_.type(v).shape;
    if (keeps_state || a.kv_heads < 1 || a.heads % a.kv_heads != 0 || !shape.back().known() ||
        shape.rank() != (a.v_rows ? 3 : 4))
      return no;
    const auto last = ids.extents.back();
    const bool fits = a.y_rows ? ids.axis() == ids.rank() - 1 && last == a.heads * a.value_depth
                               : ids.rank() == 4 && ids.extents[0] == 1 && ids.extents[2] == 1;
    if (!fits) return no;
    const auto id_of = [&](std::int64_t head, std::int64_t d) {
      const std::int64_t i = a.y_rows
                                 ? head * a.value_depth + d
                                 : (ids.extents[1] == 1 ? 0 : head) * last + (last == 1 ? 0 : d);
      return ids.ids[static_cast<std::size_t>(i)];
    };
    const std::int64_t width = a.v_rows ? shape.extent(2) : a.kv_heads * a.value_depth;
    ChannelIds there;
    there.extents = a.v_rows ? std::vector<std::int64_t>{1, 1, width}
                             : std::vector<std::int64_t>{1, a.kv_heads, 1, a.value_depth};
    there.ids.assign(static_cast<std::size_t>(width), -1);
    const std::int64_t begin = a.v_rows ? a.v_offset : 0, shared = a.heads / a.kv_heads;
    for (std::int64_t head = 0; head < a.heads; ++head)
      for (std::int64_t d = 0; d < a.value_depth; ++d) {
        int& id = there.ids[static_cast<std::size_t>(begin + head / shared * a.value_depth + d)];
        const int other = id_of(head, d);
        if (id >= 0 && other >= 0) path_.classes.join(id, other);
        if (id < 0) id = other;
      }
    // Q and K may be parts of the same tensor: other parts.
    const auto touches = [&](ValueId operand, std::int64_t offset, std::int64_t count) {
      if (operand != v) return false;
      for (std::int64_t i = a.v_rows ? offset : 0; i < (a.v_rows ? offset + count : width); ++i)
        if (there.ids[static_cast<std::size_t>(i)] >= 0) return true;
      return false;
    };
    if (touches(n.inputs[0], a.q_offset, a.heads * a.depth) ||
        touches(n.inputs[1], a.k_offset, a.kv_heads * a.depth))
      return describe(g_, p) + " reads '" + g_.value(v).name + "' for more than its values";
    return on(v, reduced(there), p, depth);
  }

  const Graph& g_;
  const Index& index_;
  ScalePath path_;
};

std::vector<double> factors_along(const ChannelIds& ids, std::span<const double> factor) {
  std::vector<double> f;
  for (const int id : ids.ids) f.push_back(id < 0 ? 1.0 : factor[static_cast<std::size_t>(id)]);
  return f;
}

// A constant operand of `count` elements (absent: `otherwise` everywhere) times f.
std::vector<double> scaled(const Graph& g, ValueId v, double otherwise, std::span<const double> f) {
  std::vector<double> r(f.begin(), f.end());
  const auto values = v == kNoValue ? std::optional<std::vector<double>>() : doubles(g, v);
  for (std::size_t i = 0; i < r.size(); ++i)
    r[i] *= !values ? otherwise : (*values)[values->size() == 1 ? 0 : i];
  return r;
}

std::string stem(const Graph& g, ValueId v, const Node& n, const char* what) {
  return v == kNoValue ? n.name + what : g.value(v).name + "_smoothed";
}

// gamma and beta, or scale and shift: operands 1 and 2.
std::string scale_two_operands(Graph& g, NodeId id, std::span<const double> f) {
  const ValueId one = g.node(id).inputs.size() > 1 ? g.node(id).inputs[1] : kNoValue,
                two = g.node(id).inputs.size() > 2 ? g.node(id).inputs[2] : kNoValue;
  const std::vector<double> a = scaled(g, one, 1, f), b = scaled(g, two, 0, f);
  if (!all_finite_as_float(a) || !all_finite_as_float(b))
    return "the scaled constants would leave the range of float";
  const Shape shape{static_cast<std::int64_t>(f.size())};
  const ValueId scale = add_floats(g, stem(g, one, g.node(id), "_gamma"), shape, a);
  const ValueId shift =
      two == kNoValue ? kNoValue : add_floats(g, stem(g, two, g.node(id), "_beta"), shape, b);
  Node& n = g.node(id);
  n.inputs.resize(std::max<std::size_t>(n.inputs.size(), 2), kNoValue);
  n.inputs[1] = scale;
  if (two != kNoValue) n.inputs[2] = shift;
  return "";
}

std::string scale_constant(Graph& g, const ScalePath& path, std::span<const double> factor) {
  const Shape shape = g.type(path.constant).shape;
  const auto values = doubles(g, path.constant);
  std::vector<double> scaled_values(values->begin(), values->end());
  const int axis = path.ids.axis();
  const auto inner = static_cast<std::size_t>(shape.count(axis + 1, shape.rank()));
  for (std::size_t i = 0; i < scaled_values.size(); ++i) {
    const int c = path.ids.ids[i / inner % path.ids.ids.size()];
    if (c >= 0) scaled_values[i] *= factor[static_cast<std::size_t>(c)];
  }
  if (!all_finite_as_float(scaled_values))
    return "the scaled constants would leave the range of float";
  const ValueId replaced =
      add_floats(g, g.value(path.constant).name + "_smoothed", shape, scaled_values);
  for (ValueId& v : g.node(path.into).inputs)
    if (v == path.constant) v = replaced;
  return "";
}

std::string scale_node(Graph& g, const ScalePath& path, std::span<const double> factor) {
  if (path.constant != kNoValue) return scale_constant(g, path, factor);
  const std::vector<double> f = factors_along(path.ids, factor);
  if (!is_linear_layer(g.node(path.into).op)) return scale_two_operands(g, path.into, f);
  const std::vector<double> none(f.size(), 0.0);
  const FoldResult folded = fold_behind(g, path.into, {path.ids.axis(), f, none});
  if (const auto* why = std::get_if<std::string>(&folded)) return *why;
  put(std::get<FoldedLayer>(folded), g.node(path.into).inputs);
  return "";
}

}  // namespace

bool commutes_with_scaling(Activation activation, float a, float b) {
  return activation == Activation::none || activation == Activation::leaky_relu ||
         (activation == Activation::clip && a == 0 && std::isinf(b));
}

ScalePathResult find_scale_path(const Graph& g, const Index& index, ValueId x,
                                const std::set<NodeId>& readers) {
  const Shape& shape = g.type(x).shape;
  if (shape.rank() < 1 || !shape.back().known()) return std::string("its channels are not known");
  const std::int64_t channels = shape.back().value();
  return Finder(g, index, static_cast<std::size_t>(channels))
      .from(x, ids_of_last_axis(shape.rank(), channels), readers);
}

void remember_rescale(graph::Value& value, int axis, std::span<const double> factor) {
  if (value.rescale.empty()) value.rescale.assign(factor.size(), 1.0f);
  value.rescale_axis = axis;
  for (std::size_t c = 0; c < factor.size(); ++c)
    value.rescale[c] = static_cast<float>(double{value.rescale[c]} / factor[c]);
}

std::string apply_scale(Graph& g, const ScalePath& path, std::span<const double> factor) {
  if (std::string why = scale_node(g, path, factor); !why.empty()) return why;
  for (const ScalePath::Rescaled& r : path.between) {
    graph::Value& value = g.value(r.value);
    const int axis = r.ids.axis();
    const std::vector<double> f = factors_along(r.ids, factor);
    const bool fits =
        axis >= 0 &&
        (value.rescale.empty() || (value.rescale_axis == axis && value.rescale.size() == f.size()));
    if (fits) {
      remember_rescale(value, axis, f);
    } else {
      value.name = g.fresh_name(value.name + "_smoothed");
      value.rescale.clear();
      value.rescale_axis = -1;
    }
  }
  return "";
}

}  // namespace fold8::fusion
