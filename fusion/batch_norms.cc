#include "fusion/batch_norms.h"

#include "fusion/passes/affine.h"

namespace fold8::fusion {

using graph::Graph;
using graph::kNoNode;
using graph::NodeId;
using graph::ValueId;

namespace {

constexpr int kLongestWalk = 16;

bool linear_before(const Graph& g, const Index& index, ValueId v) {
  for (int i = 0; i < kLongestWalk; ++i) {
    const NodeId n = index.producer(v);
    if (n == kNoNode) return false;
    if (is_linear_layer(g.node(n).op)) return true;
    if (!is_movement(g.node(n).op)) return false;
    v = g.node(n).inputs[0];
  }
  return false;
}

bool linear_behind(const Graph& g, const Index& index, ValueId v, int steps) {
  for (const NodeId n : index.consumers(v)) {
    const graph::Node& node = g.node(n);
    if (node.inputs[0] != v) continue;  // a residual or a weight is no place to fold into
    if (is_linear_layer(node.op)) return true;
    if (steps > 0 && is_movement(node.op) && linear_behind(g, index, node.outputs[0], steps - 1))
      return true;
  }
  return false;
}

}  // namespace

int batch_norms_left(const Graph& g) {
  const Index index(g);
  int left = 0;
  for (NodeId n = 0; n < g.node_count(); ++n) {
    const graph::Node& node = g.node(n);
    if (node.dead) continue;
    if (std::holds_alternative<graph::BatchNorm>(node.op)) ++left;
    const auto* affine = std::get_if<graph::Affine>(&node.op);
    if (affine == nullptr || !affine->from_batch_norm) continue;
    if (is_quantizable(g.type(node.outputs[0]).dtype)) continue;  // it has become a quantizer
    const bool behind = affine->activation == Activation::none &&
                        linear_behind(g, index, node.outputs[0], kLongestWalk);
    if (behind || linear_before(g, index, node.inputs[0])) ++left;
  }
  return left;
}

std::vector<InputAffine> input_affines(const Graph& g) {
  const Index index(g);
  std::vector<InputAffine> found;
  for (const ValueId input : g.inputs) {
    const auto& readers = index.consumers(input);
    if (readers.size() != 1 || g.is_output(input)) continue;
    const NodeId n = readers.front();
    const auto reading = read_affine(g, n);
    if (!reading.ok() || !reading->node || reading->node->x != input) continue;
    const ChannelAffine& a = reading->node->affine;
    found.push_back({n, input, g.node(n).outputs[0], a.axis, a.scale, a.shift});
  }
  return found;
}

}  // namespace fold8::fusion
