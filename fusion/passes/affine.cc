#include "fusion/passes/affine.h"

#include <cmath>

#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::BinaryKind;
using graph::Graph;
using graph::NodeId;
using graph::ValueId;

bool may_be_affine(const graph::Op& op) {
  if (std::holds_alternative<graph::BatchNorm>(op)) return true;
  if (const auto* a = std::get_if<graph::Affine>(&op)) return a->activation == Activation::none;
  const auto* b = std::get_if<graph::Binary>(&op);
  return b != nullptr && b->activation == Activation::none &&
         (b->kind == BinaryKind::mul || b->kind == BinaryKind::add || b->kind == BinaryKind::sub ||
          b->kind == BinaryKind::div);
}

bool is_linear_layer(const graph::Op& op) {
  return std::holds_alternative<graph::Linear>(op) || std::holds_alternative<graph::Conv>(op);
}

std::string describe(const Graph& g, NodeId n) {
  return "'" + g.node(n).name + "' (" + graph::display_name(g.node(n).op) + ")";
}

namespace {

bool is_plain_f32(const Graph& g, ValueId v) {
  const TensorType& t = g.type(v);
  return g.value(v).has_type && t.dtype == DType::f32 && !t.quant;
}

AffineReading not_affine(std::string why = {}) { return {std::nullopt, std::move(why)}; }

// s = gamma / sqrt(var + epsilon), shift = beta - s * mean
Result<AffineReading> read_batch_norm(const Graph& g, const graph::Node& node,
                                      const graph::BatchNorm& bn) {
  if (bn.training)
    return not_affine(
        "training_mode=1: it normalizes with the statistics of the batch, not with stored ones");
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != graph::kNoValue) return not_affine("it also returns updated statistics");
  constexpr const char* kRole[] = {"x", "scale", "bias", "mean", "variance"};
  std::optional<std::vector<double>> p[5];
  for (std::size_t i = 1; i < 5; ++i) {
    p[i] = doubles(g, node.inputs[i]);
    if (!p[i])
      return not_affine(std::string("its ") + kRole[i] + " '" + g.value(node.inputs[i]).name +
                        "' is not a constant");
  }
  const std::size_t channels = p[1]->size();
  if (p[2]->size() != channels || p[3]->size() != channels || p[4]->size() != channels)
    return invalid_model("node '" + node.name +
                         "': scale, bias, mean and variance have different lengths");
  AffineNode result{node.inputs[0], {1, {}, {}}, true};
  for (std::size_t c = 0; c < channels; ++c) {
    const double v = (*p[4])[c] + static_cast<double>(bn.epsilon);
    if (!(v > 0))
      return invalid_model(
          "node '" + node.name + "': variance + epsilon is " + std::to_string(v) + " in channel " +
          std::to_string(c) +
          ", so the float model itself divides by zero; retrain or set an epsilon > 0");
    const double s = (*p[1])[c] / __builtin_sqrt(v);
    result.affine.scale.push_back(s);
    result.affine.shift.push_back((*p[2])[c] - s * (*p[3])[c]);
  }
  return AffineReading{std::move(result), {}};
}

AffineReading read_affine_op(const Graph& g, const graph::Node& node, const graph::Affine& op) {
  auto scale = doubles(g, node.inputs[1]), shift = doubles(g, node.inputs[2]);
  if (!scale || !shift || scale->size() != shift->size()) return not_affine();
  return {AffineNode{node.inputs[0],
                     {static_cast<int>(op.axis), std::move(*scale), std::move(*shift)},
                     op.from_batch_norm},
          {}};
}

AffineReading read_binary(const Graph& g, const graph::Node& node, BinaryKind kind) {
  const bool left = g.is_constant(node.inputs[0]);
  if (left == g.is_constant(node.inputs[1])) return not_affine();
  if (left && kind == BinaryKind::div) return not_affine();
  const ValueId x = node.inputs[left ? 1 : 0], c = node.inputs[left ? 0 : 1];
  if (!is_plain_f32(g, x) || g.type(c).dtype != DType::f32) return not_affine();
  auto values = per_channel(g, c, g.type(x).shape);
  if (!values) return not_affine();
  AffineNode result{x, {values->axis, {}, {}}, false};
  for (const double v : values->values) {
    double scale = 1, shift = 0;
    switch (kind) {
      case BinaryKind::mul:
        scale = v;
        break;
      case BinaryKind::div:
        scale = 1 / v;
        break;
      case BinaryKind::add:
        shift = v;
        break;
      case BinaryKind::sub:
        scale = left ? -1 : 1;
        shift = left ? v : -v;
        break;
      default:
        return not_affine();
    }
    if (!std::isfinite(scale) || !std::isfinite(shift)) return not_affine();
    result.affine.scale.push_back(scale);
    result.affine.shift.push_back(shift);
  }
  return {std::move(result), {}};
}

}  // namespace

Result<AffineReading> read_affine(const Graph& g, NodeId n) {
  const graph::Node& node = g.node(n);
  if (!may_be_affine(node.op)) return not_affine();
  if (const auto* bn = std::get_if<graph::BatchNorm>(&node.op))
    return read_batch_norm(g, node, *bn);
  if (const auto* a = std::get_if<graph::Affine>(&node.op)) return read_affine_op(g, node, *a);
  return read_binary(g, node, std::get<graph::Binary>(node.op).kind);
}

}  // namespace fold8::fusion
