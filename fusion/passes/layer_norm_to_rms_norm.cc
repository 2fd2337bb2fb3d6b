// LayerNorm(x) = RMSNorm(x) where the rows of x have mean zero. In a pre-norm network every row of
// the residual stream is a sum of what layers add to it: with the mean over the features taken out
// of each of these producers (rows of weights, biases, embedding tables), the stream has mean zero
// and every LayerNorm on it becomes an RMSNorm, exactly. Its beta goes into the layers behind.
// Refused where something else reads the stream, or a norm writes it (post-norm).
#include <algorithm>
#include <set>
#include <vector>

#include "fusion/passes/affine.h"
#include "fusion/passes/channel_ids.h"
#include "fusion/passes/fold_layer.h"
#include "fusion/passes/movement.h"
#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"
#include "fusion/rewrite/index.h"

namespace fold8::fusion {

using graph::Graph;
using graph::kNoNode;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

constexpr std::size_t kResidual = 3;

bool is_layer_norm(const Graph& g, const Node& n) {
  const auto* norm = std::get_if<graph::Norm>(&n.op);
  if (n.dead || norm == nullptr || norm->kind != graph::NormKind::layer) return false;
  const int rank = g.type(n.inputs[0]).shape.rank();
  const bool plain = n.inputs.size() <= 3 && n.outputs.size() == 1;
  return plain && (norm->axis == -1 || norm->axis == rank - 1) &&
         g.type(n.inputs[0]).shape.back().known();
}

bool is_plain_add(const Node& n) {
  const auto* b = std::get_if<graph::Binary>(&n.op);
  return b != nullptr && b->kind == graph::BinaryKind::add && b->activation == Activation::none;
}

ValueId residual(const Node& n) {
  return std::holds_alternative<graph::Linear>(n.op) && n.inputs.size() > kResidual
             ? n.inputs[kResidual]
             : kNoValue;
}

bool reads_only_the_shape(const Node& n) { return std::holds_alternative<graph::ShapeOf>(n.op); }

// Takes a layer's results apart by rows only: features stay side by side.
bool keeps_features(const Graph& g, const Node& n) {
  const Shape &from = g.type(n.inputs[0]).shape, &to = g.type(n.outputs[0]).shape;
  if (from.rank() < 1 || to.rank() < 1 || !same(from.back(), to.back())) return false;
  if (const auto* t = std::get_if<graph::Transpose>(&n.op))
    return !t->perm.empty() && t->perm.back() == from.rank() - 1;
  if (const auto* c = std::get_if<graph::Concat>(&n.op)) return c->axis != from.rank() - 1;
  if (const auto* c = std::get_if<graph::Gather>(&n.op)) return c->axis != from.rank() - 1;
  return is_view(n.op) || std::holds_alternative<graph::Expand>(n.op) ||
         std::holds_alternative<graph::Slice>(n.op);
}

// The stream that a norm reads, all of it.
class Stream {
 public:
  Stream(const Graph& g, const Index& index) : g_(g), index_(index) {}

  // Empty, or why it cannot be centred.
  std::string find(ValueId start) {
    std::vector<ValueId> open{start};
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (g_.is_constant(v)) {
        constants.insert(v);
        continue;
      }
      if (!values.insert(v).second) continue;
      if (std::string why = producer(v, open); !why.empty()) return why;
      if (std::string why = readers(v, open); !why.empty()) return why;
    }
    return "";
  }

  std::set<ValueId> values, constants, moved;  // of the stream; added to it; on the way to a layer
  std::set<NodeId> norms, layers, tables;      // that read it; that add to it

 private:
  std::string readers(ValueId v, std::vector<ValueId>& open) {
    if (g_.is_output(v))
      return "the graph returns the residual stream ('" + g_.value(v).name + "')";
    for (const NodeId r : index_.consumers(v)) {
      const Node& n = g_.node(r);
      if (reads_only_the_shape(n)) continue;
      if (is_layer_norm(g_, n) && n.inputs[0] == v)
        norms.insert(r);
      else if (is_plain_add(n) || residual(n) == v || keeps_features(g_, n))
        open.push_back(n.outputs[0]);
      else
        return describe(g_, r) + " reads the residual stream itself";
      if (std::holds_alternative<graph::Linear>(n.op) && n.inputs[0] == v)
        return describe(g_, r) + " reads the residual stream itself";
    }
    return "";
  }

  std::string producer(ValueId v, std::vector<ValueId>& open) {
    const NodeId p = index_.producer(v);
    if (p == kNoNode) return "'" + g_.value(v).name + "' is an input of the graph";
    const Node& n = g_.node(p);
    const std::string who = describe(g_, p);
    if (std::holds_alternative<graph::Norm>(n.op))
      return who + " writes the residual stream: a post-norm network";
    if (is_plain_add(n)) {
      open.insert(open.end(), {n.inputs[0], n.inputs[1]});
      return "";
    }
    if (std::holds_alternative<graph::Concat>(n.op) && keeps_features(g_, n)) {
      open.insert(open.end(), n.inputs.begin(), n.inputs.end());
      return "";
    }
    if (const auto* gather = std::get_if<graph::Gather>(&n.op);
        gather != nullptr && g_.is_constant(n.inputs[0]) && keeps_features(g_, n)) {
      tables.insert(p);
      return "";
    }
    if (std::holds_alternative<graph::Linear>(n.op)) {
      if (residual(n) != kNoValue) open.push_back(residual(n));
      return layer(p);
    }
    if (keeps_features(g_, n)) {
      open.push_back(n.inputs[0]);
      return "";
    }
    return from_convolution(v);
  }

  std::string layer(NodeId p) {
    const Node& n = g_.node(p);
    const bool plain = std::visit(
        [](const auto& o) {
          if constexpr (requires { o.activation; })
            return o.activation == Activation::none;
          else
            return false;
        },
        n.op);
    if (!plain || g_.type(n.inputs[1]).shape.rank() < 2 || !takes_factors(g_, p))
      return describe(g_, p) + " is not a linear layer with constant weights";
    layers.insert(p);
    return "";
  }

  // Patches of a picture: their features are the channels of a convolution, moved to the end.
  std::string from_convolution(ValueId v) {
    const Shape& shape = g_.type(v).shape;
    ChannelClasses classes(static_cast<std::size_t>(shape.back().value()));
    ChannelIds ids = ids_of_last_axis(shape.rank(), shape.back().value());
    for (NodeId p = index_.producer(v); p != kNoNode; p = index_.producer(v)) {
      const Node& n = g_.node(p);
      if (std::holds_alternative<graph::Conv>(n.op)) {
        if (ids.axis() != 1 || reads_more_than_bias(n) || std::get<graph::Conv>(n.op).transposed)
          break;
        return layer(p);
      }
      auto before = is_movement(n.op) ? ids_before(g_, n, 0, ids, classes) : std::nullopt;
      if (!before || !is_only_reader(p, n.inputs[0])) break;
      ids = *std::move(before);
      v = n.inputs[0];
      moved.insert(v);
    }
    const NodeId p = index_.producer(v);
    return p == kNoNode
               ? "'" + g_.value(v).name + "' is an input of the graph"
               : describe(g_, p) + " writes the residual stream, and has no mean to take out";
  }

  bool is_only_reader(NodeId reader, ValueId v) const {
    const auto readers = index_.consumers(v);
    return !g_.is_output(v) && std::all_of(readers.begin(), readers.end(), [&](NodeId r) {
      return r == reader || reads_only_the_shape(g_.node(r));
    });
  }

  const Graph& g_;
  const Index& index_;
};

// [rows, width] in either order: minus the mean over the axis of `width`.
std::vector<double> centred(std::vector<double> v, std::size_t width, bool features_first) {
  const std::size_t rows = v.size() / width;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto at = [&](std::size_t f) -> double& {
      return v[features_first ? f * rows + r : r * width + f];
    };
    double mean = 0;
    for (std::size_t f = 0; f < width; ++f) mean += at(f);
    mean /= static_cast<double>(width);
    for (std::size_t f = 0; f < width; ++f) at(f) -= mean;
  }
  return v;
}

class Pass {
 public:
  explicit Pass(Graph& g) : g_(g) {}

  Result<Tally> run() {
    std::set<NodeId> seen;
    for (NodeId n = 0, end = g_.node_count(); n < end; ++n) {
      if (!is_layer_norm(g_, g_.node(n)) || seen.count(n) != 0) continue;
      const Index index(g_);
      std::vector<Fold> folds;
      if (std::string why = move_beta(n, index, folds); !why.empty()) {
        decline(n, why + "; it stays a LayerNorm");
        continue;
      }
      Stream stream(g_, index);
      std::string why = stream.find(g_.node(n).inputs[0]);
      seen.insert(n);
      if (!why.empty()) {
        decline(n, why);
        continue;
      }
      centre(stream);
      for (const NodeId norm : stream.norms) convert(norm, index);
    }
    FOLD8_CHECK_OK(g_.compact());
    return std::move(tally_);
  }

 private:
  void decline(NodeId n, std::string why) {
    tally_.declined.push_back({"layer_norm_to_rms_norm", g_.node(n).name, std::move(why)});
  }

  ValueId centred_copy(ValueId v, std::size_t width, bool features_first) {
    const Shape shape = g_.type(v).shape;
    return add_floats(g_, g_.value(v).name + "_centred", shape,
                      centred(*doubles(g_, v), width, features_first));
  }

  void centre(const Stream& s) {
    for (const NodeId id : s.layers) {
      const ValueId w = g_.node(id).inputs[1];
      const ValueId b = g_.node(id).inputs.size() > 2 ? g_.node(id).inputs[2] : kNoValue;
      // Linear [N, K] and Conv [M, ..]: features are the outermost axis.
      const auto width = static_cast<std::size_t>(g_.type(w).shape.extent(0));
      const ValueId weight = centred_copy(w, width, true);
      const ValueId bias = b == kNoValue ? kNoValue : centred_copy(b, width, true);
      g_.node(id).inputs[1] = weight;
      if (b != kNoValue) g_.node(id).inputs[2] = bias;
    }
    for (const NodeId id : s.tables) {
      const ValueId table = g_.node(id).inputs[0];
      const auto width = static_cast<std::size_t>(g_.type(table).shape.back().value());
      const ValueId copy = centred_copy(table, width, false);
      g_.node(id).inputs[0] = copy;
    }
    for (const ValueId c : s.constants) {
      const Shape& shape = g_.type(c).shape;
      const auto width = static_cast<std::size_t>(shape.rank() < 1 ? 1 : shape.back().value());
      const ValueId copy = centred_copy(c, width, false);
      for (NodeId n = 0; n < g_.node_count(); ++n)
        for (ValueId& v : g_.node(n).inputs)
          if (v == c && !g_.node(n).dead && !g_.node(n).outputs.empty() &&
              s.values.count(g_.node(n).outputs[0]) != 0)
            v = copy;
    }
    // A name stands for the float value, which these no longer are.
    for (const auto* values : {&s.values, &s.moved})
      for (const ValueId v : *values)
        g_.value(v).name = g_.fresh_name(g_.value(v).name + "_centred");
  }

  // On a centred stream. A norm whose beta is needed stays (run() says why).
  void convert(NodeId id, const Index& index) {
    std::vector<Fold> folds;
    if (!move_beta(id, index, folds).empty()) return;
    for (const auto& [reader, layer] : folds) put(layer, g_.node(reader).inputs);
    Node& n = g_.node(id);
    if (n.inputs.size() > 2) {
      n.inputs.resize(2);
      g_.value(n.outputs[0]).name = g_.fresh_name(g_.value(n.outputs[0]).name + "_without_beta");
    }
    std::get<graph::Norm>(g_.node(id).op).kind = graph::NormKind::rms;
    ++tally_.applied;
  }

  using Fold = std::pair<NodeId, FoldedLayer>;

  // W(y + beta) + b = Wy + (W beta + b) for every reader: what becomes of them, or why not.
  std::string move_beta(NodeId id, const Index& index, std::vector<Fold>& folds) const {
    const ValueId y = g_.node(id).outputs[0];
    const ValueId beta = g_.node(id).inputs.size() > 2 ? g_.node(id).inputs[2] : kNoValue;
    if (beta == kNoValue) return "";
    const auto shift = doubles(g_, beta);
    if (!shift) return "its beta is computed";
    if (g_.is_output(y)) return "the graph returns its result, which needs its beta";
    const ChannelAffine affine{g_.type(y).shape.rank() - 1, std::vector<double>(shift->size(), 1.0),
                               *shift};
    for (const NodeId r : index.consumers(y)) {
      const Node& n = g_.node(r);
      if (reads_only_the_shape(n)) continue;
      if (!std::holds_alternative<graph::Linear>(n.op) || n.inputs[0] != y ||
          std::count(n.inputs.begin(), n.inputs.end(), y) != 1)
        return describe(g_, r) + " needs its beta";
      const FoldResult result = fold_in_front(g_, r, affine);
      if (const auto* why = std::get_if<std::string>(&result)) return *why;
      folds.emplace_back(r, std::get<FoldedLayer>(result));
    }
    return "";
  }

  Graph& g_;
  Tally tally_;
};

Result<Tally> run_pass(Graph& g, const Context&) { return Pass(g).run(); }

}  // namespace

constinit const GraphPass layer_norm_to_rms_norm{"layer_norm_to_rms_norm", run_pass};

}  // namespace fold8::fusion
