// Operators that do nothing: Identity (also Dropout at inference), casts to the same type, reshapes
// to the same shape, transposes in order, whole slices, empty pads, expands and tiles to the same
// shape, concats of one tensor, x*1, x/1, x+0, x-0, x^1.   noop(x)  =>  x
#include <algorithm>

#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::BinaryKind;
using graph::Graph;
using graph::ValueId;

namespace {

bool may_be_noop(const graph::Op& op) {
  return std::holds_alternative<graph::Identity>(op) || std::holds_alternative<graph::Cast>(op) ||
         std::holds_alternative<graph::Reshape>(op) || std::holds_alternative<graph::Flatten>(op) ||
         std::holds_alternative<graph::Squeeze>(op) ||
         std::holds_alternative<graph::Unsqueeze>(op) ||
         std::holds_alternative<graph::Transpose>(op) || std::holds_alternative<graph::Slice>(op) ||
         std::holds_alternative<graph::Pad>(op) || std::holds_alternative<graph::Expand>(op) ||
         std::holds_alternative<graph::Tile>(op) || std::holds_alternative<graph::Concat>(op) ||
         std::holds_alternative<graph::Binary>(op);
}

std::vector<Pattern> patterns() { return {op_if("", may_be_noop, {any("x")}).open().shared()}; }

bool all_equal(const Graph& g, ValueId v, std::int64_t x) {
  const auto ints = integers(g, v);
  return ints && std::all_of(ints->begin(), ints->end(), [x](std::int64_t i) { return i == x; });
}

// The constant operand leaves x as it is.
bool neutral(const Graph& g, ValueId c, const Shape& x, double value) {
  const auto constant = per_channel(g, c, x);
  return constant && std::all_of(constant->values.begin(), constant->values.end(),
                                 [value](double v) { return v == value; });
}

// The operand that survives a Binary without effect; kNoValue if it has one.
ValueId binary_noop(const Graph& g, const graph::Node& node, const graph::Binary& op) {
  if (op.activation != Activation::none) return graph::kNoValue;
  const ValueId a = node.inputs[0], b = node.inputs[1];
  const bool additive = op.kind == BinaryKind::add || op.kind == BinaryKind::sub;
  const bool multiplicative =
      op.kind == BinaryKind::mul || op.kind == BinaryKind::div || op.kind == BinaryKind::pow;
  if (!additive && !multiplicative) return graph::kNoValue;
  const double value = additive ? 0 : 1;
  if (g.value(a).has_type && !g.is_constant(a) && g.type(a).dtype == DType::f32 &&
      neutral(g, b, g.type(a).shape, value))
    return a;
  const bool commutes = op.kind == BinaryKind::add || op.kind == BinaryKind::mul;
  if (commutes && g.value(b).has_type && !g.is_constant(b) && g.type(b).dtype == DType::f32 &&
      neutral(g, a, g.type(b).shape, value))
    return b;
  return graph::kNoValue;
}

bool does_nothing(const Graph& g, const graph::Node& node) {
  const TensorType &in = g.type(node.inputs[0]), &out = g.type(node.outputs[0]);
  const bool same_type = in.dtype == out.dtype && in.quant == out.quant && in.layout == out.layout;
  const bool same_dims = same_shape(in.shape, out.shape);
  const auto operand = [&](std::size_t i) {
    return i < node.inputs.size() ? node.inputs[i] : graph::kNoValue;
  };
  if (!same_type) return false;
  if (std::holds_alternative<graph::Identity>(node.op)) return true;
  if (const auto* cast = std::get_if<graph::Cast>(&node.op)) return cast->to == in.dtype;
  if (const auto* transpose = std::get_if<graph::Transpose>(&node.op)) {
    for (std::size_t i = 0; i < transpose->perm.size(); ++i)
      if (transpose->perm[i] != static_cast<std::int64_t>(i)) return false;
    return !transpose->perm.empty() || in.shape.rank() <= 1;
  }
  if (std::holds_alternative<graph::Concat>(node.op)) return node.inputs.size() == 1;
  if (std::holds_alternative<graph::Pad>(node.op)) return all_equal(g, operand(1), 0);
  if (std::holds_alternative<graph::Slice>(node.op))
    return same_dims && (operand(4) == graph::kNoValue || all_equal(g, operand(4), 1));
  if (std::holds_alternative<graph::Tile>(node.op)) return all_equal(g, operand(1), 1);
  return same_dims;  // views and Expand
}

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  const graph::Node& node = g.node(m.root);
  if (!g.value(node.outputs[0]).has_type || !g.value(node.inputs[0]).has_type)
    return Outcome{NotMine{}};
  if (const auto* binary = std::get_if<graph::Binary>(&node.op)) {
    const ValueId kept = binary_noop(g, node, *binary);
    if (kept == graph::kNoValue) return Outcome{NotMine{}};
    return Outcome{Forward{kept}};
  }
  if (!does_nothing(g, node)) return Outcome{NotMine{}};
  return Outcome{Forward{node.inputs[0]}};
}

}  // namespace

const Rewrite drop_noop{"drop_noop", patterns, apply};

}  // namespace fold8::fusion
