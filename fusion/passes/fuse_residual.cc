// The Add of a residual becomes the last term of the layer that is computed later:
//   add(layer(x, W, b), other)  =>  layer(x, W, b, residual = other)
// Same shape, no broadcasting. Before fuse_activation, since the activation comes after the
// residual.
#include "fusion/passes/affine.h"
#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::BinaryKind;
using graph::Graph;
using graph::NodeId;
using graph::ValueId;

namespace {

constexpr std::size_t kResidual = 3;  // operand of Linear and Conv

std::vector<Pattern> patterns() {
  const auto layer = op_if("layer", is_linear_layer, {any("")}).open();
  const auto is_add = [](const graph::Op& op) {
    const auto* b = std::get_if<graph::Binary>(&op);
    return b != nullptr && b->kind == BinaryKind::add;
  };
  return {op_if("", is_add, {layer, any("other")}), op_if("", is_add, {any("other"), layer})};
}

Activation activation(const graph::Op& op) {
  return std::visit(
      [](const auto& o) {
        if constexpr (requires { o.activation; })
          return o.activation;
        else
          return Activation::none;
      },
      op);
}

bool takes_residual(const Graph& g, NodeId n) {
  if (n == graph::kNoNode || !is_linear_layer(g.node(n).op)) return false;
  const graph::Node& node = g.node(n);
  return activation(node.op) == Activation::none &&
         (node.inputs.size() <= kResidual || node.inputs[kResidual] == graph::kNoValue);
}

bool plain_f32(const TensorType& t) { return t.dtype == DType::f32 && !t.quant; }

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  const NodeId layer = m.node("layer");
  const ValueId other = m["other"], sum = g.node(layer).outputs[0];
  if (!takes_residual(g, layer))
    return Outcome{Decline{describe(g, layer) + " already ends in an activation or a residual"}};
  const TensorType &a = g.type(sum), &b = g.type(other);
  if (!plain_f32(a))
    return Outcome{Decline{"'" + g.value(sum).name + "' is rounded before the sum"}};
  if (!plain_f32(b) && !(b.dtype == DType::u8 && b.quant && b.quant->is_per_tensor()))
    return Outcome{Decline{"'" + g.value(other).name + "' is neither f32 nor u8 per tensor"}};
  if (!same_shape(a.shape, b.shape))
    return Outcome{Decline{"'" + g.value(other).name + "' is broadcast to the shape of '" +
                           g.value(sum).name + "'"}};
  // Nodes are numbered in topological order. The earlier of two layers is the residual of the later
  // one.
  const NodeId rival = m.index->producer(other);
  if (takes_residual(g, rival) && rival > layer && m.index->consumers(other).size() == 1 &&
      !g.is_output(other))
    return Outcome{NotMine{}};
  const graph::Binary& add = std::get<graph::Binary>(g.node(m.root).op);
  graph::Op op = g.node(layer).op;
  std::visit(
      [&](auto& o) {
        if constexpr (requires {
                        o.activation;
                        o.a;
                        o.b;
                      }) {
          o.activation = add.activation;
          o.a = add.a;
          o.b = add.b;
        }
      },
      op);
  std::vector<ValueId> inputs = g.node(layer).inputs;
  inputs.resize(std::max(inputs.size(), kResidual + 1), graph::kNoValue);
  inputs[kResidual] = other;
  return Outcome{Replace{std::move(op), inputs, g.node(layer).name}};
}

}  // namespace

const Rewrite fuse_residual{"fuse_residual", patterns, apply, nullptr, true};

}  // namespace fold8::fusion
