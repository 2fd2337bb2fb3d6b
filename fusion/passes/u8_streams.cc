#include "fusion/passes/u8_streams.h"

#include "fusion/passes/affine.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {
namespace {

using graph::Binary;
using graph::BinaryKind;
using graph::Conv;
using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::Pool;
using graph::ValueId;

constexpr std::size_t kResidual = 3;  // operand of Linear and Conv

bool is_computed_f32(const Graph& g, ValueId v) {
  return v != kNoValue && !g.is_constant(v) && g.type(v).dtype == DType::f32 && !g.type(v).quant;
}

// A gate per sample and channel of a map that layouts know (rank 3 to 5).
bool is_channel_gate(const Shape& gate, const Shape& map) {
  return is_gate(gate, map) && map.rank() <= 5 && same(gate[1], map[1]);
}

std::vector<std::size_t> of_binary(const Graph& g, const Node& n, const Binary& b) {
  const ValueId x = n.inputs[0], y = n.inputs[1];
  if (!is_computed_f32(g, x) || !is_computed_f32(g, y)) return {};
  const Shape &sx = g.type(x).shape, &sy = g.type(y).shape;
  if (b.kind == BinaryKind::add && same_shape(sx, sy)) return {0, 1};
  if (b.kind == BinaryKind::mul && is_channel_gate(sy, sx)) return {0};
  if (b.kind == BinaryKind::mul && is_channel_gate(sx, sy)) return {1};
  return {};
}

}  // namespace

bool only_moves_values(const Node& n) {
  if (const auto* p = std::get_if<graph::Pool>(&n.op))
    return p->kind == graph::PoolKind::max && n.outputs.size() == 1;
  if (const auto* r = std::get_if<graph::Resize>(&n.op))
    return r->mode == graph::ResizeMode::nearest &&
           r->coordinates != graph::Coordinates::tf_crop_and_resize;
  return std::holds_alternative<graph::Reshape>(n.op) ||
         std::holds_alternative<graph::Flatten>(n.op) ||
         std::holds_alternative<graph::Squeeze>(n.op) ||
         std::holds_alternative<graph::Unsqueeze>(n.op) ||
         std::holds_alternative<graph::Transpose>(n.op) ||
         std::holds_alternative<graph::Slice>(n.op) ||
         std::holds_alternative<graph::Identity>(n.op) ||
         std::holds_alternative<graph::Concat>(n.op) ||
         std::holds_alternative<graph::DepthToSpace>(n.op) ||
         std::holds_alternative<graph::SpaceToDepth>(n.op);
}

std::size_t data_operands(const Node& n) {
  return std::holds_alternative<graph::Concat>(n.op) ? n.inputs.size() : 1;
}

std::vector<std::size_t> u8_operands(const Graph& g, const Node& n) {
  if (is_linear_layer(n.op))
    return n.inputs.size() > kResidual && is_computed_f32(g, n.inputs[kResidual])
               ? std::vector<std::size_t>{kResidual}
               : std::vector<std::size_t>{};
  if (const auto* b = std::get_if<Binary>(&n.op)) return of_binary(g, n, *b);
  if (const auto* p = std::get_if<Pool>(&n.op))
    if (p->kind == graph::PoolKind::average && is_computed_f32(g, n.inputs[0])) return {0};
  if (!only_moves_values(n)) return {};
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < data_operands(n); ++i) {
    if (!is_computed_f32(g, n.inputs[i])) return {};
    all.push_back(i);
  }
  return all;
}

bool only_joins(const Node& n) {
  const auto* p = std::get_if<Pool>(&n.op);
  return p != nullptr && p->global;
}

std::vector<ValueId> u8_streams(const Graph& g, const std::vector<NodeId>& topological_order,
                                const std::function<bool(const Node&)>& becomes_int8) {
  std::vector<bool> carried(static_cast<std::size_t>(g.value_count()));
  std::vector<ValueId> streams;
  for (std::size_t i = topological_order.size(); i-- > 0;) {
    const Node& n = g.node(topological_order[i]);
    const bool layer = is_linear_layer(n.op) && becomes_int8(n);
    if (layer) carried[static_cast<std::size_t>(n.inputs[0])] = true;
    if (!layer && (is_linear_layer(n.op) || n.outputs.empty() || n.outputs[0] == kNoValue ||
                   !carried[static_cast<std::size_t>(n.outputs[0])]))
      continue;
    if (only_joins(n)) continue;
    for (std::size_t o : u8_operands(g, n)) {
      const auto v = static_cast<std::size_t>(n.inputs[o]);
      if (!carried[v]) streams.push_back(n.inputs[o]);
      carried[v] = true;
    }
  }
  return streams;
}

}  // namespace fold8::fusion
