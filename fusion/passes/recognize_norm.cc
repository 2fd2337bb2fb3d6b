// LayerNorm and RMSNorm as exporters write them.
//   mean = reduce_mean(x), d = x - mean, v = reduce_mean(d^2)
//   d / sqrt(v + eps) and its spellings                        =>  layer_norm(x)
//   x*(r*gamma) + (beta - mean*(r*gamma)), r = 1/sqrt(v+eps)   =>  layer_norm(x, gamma, beta)
//   x / sqrt(reduce_mean(x^2) + eps) and its spellings         =>  rms_norm(x)
// gamma and beta behind it are absorb_norm_scale's. All reductions must be over the same last axes.
#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::Graph;
using graph::NodeId;
using graph::Norm;
using graph::NormKind;
using graph::Reduce;
using graph::ReduceKind;
using graph::UnaryKind;
using graph::ValueId;

namespace {

Pattern mean(Pattern x) {
  return op<Reduce>("", {std::move(x)},
                    [](const Reduce& r) { return r.kind == ReduceKind::mean && r.keep_dims; })
      .open();
}
Pattern squared(const Pattern& x) {
  return either({x * x, pow(x, scalar(2)), unary(UnaryKind::square, x)});
}

// d * 1/sqrt(v), in all its spellings; `d` and `v` are patterns.
std::vector<Pattern> over_root(const Pattern& d, const Pattern& v) {
  const auto root = either({unary(UnaryKind::sqrt, v), pow(v, scalar(0.5))});
  const auto inverse =
      either({scalar(1) / root, unary(UnaryKind::reciprocal, root), pow(v, scalar(-0.5))});
  return {d / root, d * inverse};
}

std::vector<Pattern> layer_norm_patterns() {
  const auto x = any("x");
  const auto mu = mean(x);
  const auto d = x - mu;
  const auto v = mean(squared(d)) + scalar("epsilon");
  std::vector<Pattern> all = over_root(d, v);
  const auto root = either({unary(UnaryKind::sqrt, v), pow(v, scalar(0.5))});
  const auto inverse =
      either({scalar(1) / root, unary(UnaryKind::reciprocal, root), pow(v, scalar(-0.5))});
  const auto scale = either({inverse * constant("gamma"), constant("gamma") / root});
  all.push_back(x * scale + (constant("beta") - mu * scale));
  all.push_back(d * scale + constant("beta"));
  all.push_back(d * scale);
  return all;
}

std::vector<Pattern> rms_norm_patterns() {
  const auto x = any("x");
  const auto v = mean(squared(x)) + scalar("epsilon");
  std::vector<Pattern> all = over_root(x, v);
  const auto root = either({unary(UnaryKind::sqrt, v), pow(v, scalar(0.5))});
  const auto inverse =
      either({scalar(1) / root, unary(UnaryKind::reciprocal, root), pow(v, scalar(-0.5))});
  all.push_back(x * either({inverse * constant("gamma"), constant("gamma") / root}));
  return all;
}

// The first normalized axis if every reduction of the match is over x's last axes; or why not.
std::variant<int, std::string> normalized_axis(const Match& m, const Graph& g) {
  const int rank = g.type(m["x"]).shape.rank();
  int first = -1;
  for (const NodeId n : m.nodes) {
    const auto* reduce = std::get_if<Reduce>(&g.node(n).op);
    if (reduce == nullptr) continue;
    graph::Ints axes = reduce->axes;
    if (axes.empty() && g.node(n).inputs.size() > 1) {
      const auto given = integers(g, g.node(n).inputs[1]);
      if (!given) return "the axes of '" + g.node(n).name + "' are not constant";
      axes = *given;
    }
    if (axes.empty() && reduce->noop_with_empty_axes) return std::string("a mean over no axis");
    unsigned mask = 0;
    for (const std::int64_t a : axes) {
      const auto axis = normalize_axis(a, rank);
      if (!axis) return "an axis of '" + g.node(n).name + "' is out of range";
      mask |= 1u << *axis;
    }
    if (axes.empty()) mask = (1u << rank) - 1;
    int begin = 0;
    while (begin < rank && (mask >> begin & 1u) == 0) ++begin;
    if (begin == rank || mask >> begin != (1u << (rank - begin)) - 1)
      return "'" + g.node(n).name + "' does not reduce the last axes";
    if (first >= 0 && begin != first)
      return std::string("mean and variance are over different axes");
    first = begin;
  }
  return first;
}

// gamma or beta as Norm wants it: the normalized axes of x; kNoValue if it does not fit.
ValueId row_constant(Graph& g, ValueId c, const Shape& x, int axis) {
  const int rank = x.rank() - axis;
  Shape wanted;
  std::int64_t count = 1;
  for (int i = axis; i < x.rank(); ++i) {
    if (!x[i].known()) return graph::kNoValue;
    wanted.push_back(x[i]);
    count *= x.extent(i);
  }
  const Shape& shape = g.type(c).shape;
  if (same_shape(shape, wanted)) return c;
  const auto values = doubles(g, c);
  if (!values || shape.rank() > x.rank()) return graph::kNoValue;
  for (int i = 0; i < shape.rank() - rank; ++i)
    if (!same(shape[i], Dim(1))) return graph::kNoValue;
  if (values->size() == 1)
    return add_floats(g, g.value(c).name, wanted,
                      std::vector<double>(static_cast<std::size_t>(count), values->front()));
  if (static_cast<std::int64_t>(values->size()) != count || shape.rank() < rank)
    return graph::kNoValue;
  return add_floats(g, g.value(c).name, wanted, *values);
}

Result<Outcome> recognize(const Match& m, Graph& g, NormKind kind) {
  const TensorType& type = g.type(m["x"]);
  if (type.dtype != DType::f32 || type.quant || g.is_constant(m["x"])) return Outcome{NotMine{}};
  const Shape x = type.shape;  // constants are added below, which moves the values
  const auto axis = normalized_axis(m, g);
  if (const auto* why = std::get_if<std::string>(&axis)) return Outcome{Decline{*why}};
  const int first = std::get<int>(axis);
  Norm norm{kind};
  norm.axis = first == x.rank() - 1 ? -1 : first;
  norm.epsilon = static_cast<float>(*scalar_value(g, m["epsilon"]));
  if (!(norm.epsilon >= 0)) return Outcome{Decline{"its epsilon is negative"}};
  std::vector<ValueId> inputs{m["x"]};
  for (const char* name : {"gamma", "beta"}) {
    if (!m.has(name)) continue;
    const ValueId c = row_constant(g, m[name], x, first);
    if (c == graph::kNoValue)
      return Outcome{Decline{"'" + g.value(m[name]).name +
                             "' does not have the shape of the normalized axes"}};
    inputs.push_back(c);
  }
  return Outcome{Replace{norm, inputs, {}}};
}

Result<Outcome> layer_norm_apply(const Match& m, Graph& g, const Context&) {
  return recognize(m, g, NormKind::layer);
}
Result<Outcome> rms_norm_apply(const Match& m, Graph& g, const Context&) {
  return recognize(m, g, NormKind::rms);
}

// ----------------------------------------------------------------------------------------------
// gamma and beta

std::vector<Pattern> absorb_patterns() {
  const auto norm =
      op<Norm>("norm", {any("x"), constant_or_absent("gamma"), constant_or_absent("beta")});
  return {binary(graph::BinaryKind::mul, norm, constant("c"), "scale"),
          binary(graph::BinaryKind::add, norm, constant("c"), "shift")};
}

// The constant as gamma or beta of this norm: over the normalized axes, or one number per channel.
ValueId fitted(Graph& g, const Norm& norm, ValueId c, const Shape& x) {
  if (norm.kind == NormKind::layer || norm.kind == NormKind::rms) {
    const auto axis = normalize_axis(norm.axis, x.rank());
    return axis ? row_constant(g, c, x, *axis) : graph::kNoValue;
  }
  if (x.rank() < 2 || !x[1].known()) return graph::kNoValue;
  const auto channels = per_channel(g, c, x);
  if (!channels || (channels->values.size() > 1 && channels->axis != 1)) return graph::kNoValue;
  std::vector<double> values = channels->values;
  values.resize(static_cast<std::size_t>(x.extent(1)), values.front());
  return add_floats(g, g.value(c).name, Shape({x[1]}), values);
}

Result<Outcome> absorb_apply(const Match& m, Graph& g, const Context&) {
  const Norm norm = std::get<Norm>(g.node(m.node("norm")).op);
  const bool scale = m.node("scale") != graph::kNoNode;
  const Shape x = g.type(m["x"]).shape;
  if (norm.affine_per_group && (m.has("gamma") || m.has("beta"))) return Outcome{NotMine{}};
  if (scale ? m.has("gamma") || m.has("beta") : m.has("beta") || norm.kind == NormKind::rms)
    return Outcome{NotMine{}};
  const ValueId c = fitted(g, norm, m["c"], x);
  if (c == graph::kNoValue) return Outcome{NotMine{}};
  Norm result = norm;
  result.affine_per_group = false;
  if (scale) return Outcome{Replace{result, {m["x"], c}, g.node(m.node("norm")).name}};
  return Outcome{Replace{result, {m["x"], m["gamma"], c}, g.node(m.node("norm")).name}};
}

// ----------------------------------------------------------------------------------------------
// GroupNorm

// reshape(instance_norm(reshape(x, [N, G, -1]), gamma, beta), shape of x)  =>  group_norm(x), gamma
// and beta per group
std::vector<Pattern> group_norm_patterns() {
  const auto folded = op<graph::Reshape>("", {any("x"), any("")});
  const auto norm =
      op<Norm>("norm", {folded, constant_or_absent("gamma"), constant_or_absent("beta")},
               [](const Norm& n) { return n.kind == NormKind::instance; });
  return {op<graph::Reshape>("", {norm, any("")})};
}

bool all_are(const Graph& g, ValueId v, double x) {
  if (v == graph::kNoValue) return true;
  const auto values = doubles(g, v);
  if (!values) return false;
  for (const double y : *values)
    if (y != x) return false;
  return true;
}

Result<Outcome> group_norm_apply(const Match& m, Graph& g, const Context&) {
  const NodeId inner = m.node("norm");
  const Shape x = g.type(m["x"]).shape, folded = g.type(g.node(inner).inputs[0]).shape;
  const Shape out = g.type(g.node(m.root).outputs[0]).shape;
  if (x.rank() < 3 || folded.rank() != 3 || !folded[1].known() || !x[1].known() ||
      folded.extent(1) == 0)
    return Outcome{NotMine{}};
  if (!same_shape_given_count(x, out))
    return Outcome{Decline{"the result does not have x's shape again"}};
  if (!same(x[0], folded[0]) || x.extent(1) % folded.extent(1) != 0)
    return Outcome{Decline{"the groups do not divide the channels"}};
  Norm norm{NormKind::group};
  norm.epsilon = std::get<Norm>(g.node(inner).op).epsilon;
  norm.groups = folded.extent(1);
  if (all_are(g, m["gamma"], 1) && all_are(g, m["beta"], 0))
    return Outcome{Replace{norm, {m["x"]}, g.node(inner).name}};
  norm.affine_per_group = true;
  return Outcome{Replace{norm, {m["x"], m["gamma"], m["beta"]}, g.node(inner).name}};
}

}  // namespace

const Rewrite recognize_layer_norm{"recognize_layer_norm", layer_norm_patterns, layer_norm_apply};
const Rewrite recognize_rms_norm{"recognize_rms_norm", rms_norm_patterns, rms_norm_apply};
const Rewrite absorb_norm_scale{"absorb_norm_scale", absorb_patterns, absorb_apply, nullptr, true};
const Rewrite recognize_group_norm{"recognize_group_norm", group_norm_patterns, group_norm_apply};

}  // namespace fold8::fusion
