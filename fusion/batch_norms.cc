#include "fusion/batch_norms.h"

#include "fusion/passes/affine.h"

namespace fold8::fusion {

using graph::Graph;
using graph::kNoNode;
using graph::NodeId;
using graph::ValueId;

namespace {

constexpr int kLongestWalk = 16;

// The linear layer whose result v is, through data movement.
struct Front {
  NodeId layer = kNoNode;
  bool shared = false;  // something else reads a tensor on the way
};
Front in_front(const Graph& g, const Index& index, ValueId v) {
  Front f;
  for (int i = 0; i < kLongestWalk; ++i) {
    f.shared = f.shared || g.is_output(v) || index.consumers(v).size() > 1;
    const NodeId n = index.producer(v);
    if (n == kNoNode) return f;
    if (is_linear_layer(g.node(n).op)) {
      f.layer = n;
      return f;
    }
    if (!is_movement(g.node(n).op)) return f;
    v = g.node(n).inputs[0];
  }
  return f;
}
bool linear_before(const Graph& g, const Index& index, ValueId v) {
  return in_front(g, index, v).layer != kNoNode;
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

// An affine that was a BatchNorm, and is not a quantizer by now.
const graph::Affine* left_affine(const Graph& g, const graph::Node& n) {
  const auto* affine = std::get_if<graph::Affine>(&n.op);
  const bool left =
      affine != nullptr && affine->from_batch_norm && !is_quantizable(g.type(n.outputs[0]).dtype);
  return left ? affine : nullptr;
}

bool ends_in_activation(const graph::Op& op) {
  return std::visit(
      [](const auto& o) {
        if constexpr (requires { o.activation; }) return o.activation != Activation::none;
        return false;
      },
      op);
}

std::string change_of_model(const Graph& g, const Index& index, const graph::Node& n) {
  if (const auto* bn = std::get_if<graph::BatchNorm>(&n.op))
    return bn->training ? "export the network in evaluation mode (model.eval()): with stored "
                          "statistics it folds"
                        : "export its scale, bias, mean and variance as constants: then it folds";
  const Front front = in_front(g, index, n.inputs[0]);
  if (front.layer != kNoNode && front.shared)
    return "let nothing but the BatchNorm read '" + g.value(g.node(front.layer).outputs[0]).name +
           "', nor return it: give its other readers a copy of the layer, or what the BatchNorm "
           "gives";
  if (front.layer != kNoNode && ends_in_activation(g.node(front.layer).op))
    return "put it in front of the activation (layer, BatchNorm, activation) and train again: "
           "there it folds";
  if (front.layer != kNoNode)
    return "let it follow its layer directly, with the layer's channels as its own: there it folds";
  if (linear_behind(g, index, n.outputs[0], kLongestWalk))
    return "put it behind the layer that reads it and train again: there it always folds, in "
           "front of a layer only without padding and other readers";
  return "put it directly behind a convolution or matrix layer: there it folds";
}

// What folding said of this node: of itself, or of a layer behind it.
std::string why_declined(const graph::Node& n, const std::vector<Declined>& declined) {
  std::string why;
  const auto add = [&](const std::string& more) { why += (why.empty() ? "" : "; ") + more; };
  for (const Declined& d : declined)
    if (d.pass == "fold_batch_norm" && d.node == n.name) add(d.why);
  const std::string who = "'" + n.name + "' (", behind = " in front of it: ";
  for (const Declined& d : declined) {
    const auto at = d.why.find(behind);
    if (d.pass == "fold_batch_norm_forward" && d.why.rfind(who, 0) == 0 && at != std::string::npos)
      add("in front of '" + d.node + "': " + d.why.substr(at + behind.size()));
  }
  return why;
}

}  // namespace

std::vector<quant::UnfoldedNorm> unfolded_batch_norms(const Graph& g,
                                                      const std::vector<Declined>& declined) {
  const Index index(g);
  std::vector<quant::UnfoldedNorm> found;
  for (NodeId id = 0; id < g.node_count(); ++id) {
    const graph::Node& n = g.node(id);
    if (n.dead || (!std::holds_alternative<graph::BatchNorm>(n.op) && left_affine(g, n) == nullptr))
      continue;
    found.push_back({g.value(n.outputs[0]).name, n.name, why_declined(n, declined),
                     change_of_model(g, index, n)});
  }
  return found;
}

int batch_norms_left(const Graph& g) {
  const Index index(g);
  int left = 0;
  for (NodeId n = 0; n < g.node_count(); ++n) {
    const graph::Node& node = g.node(n);
    if (node.dead) continue;
    if (std::holds_alternative<graph::BatchNorm>(node.op)) ++left;
    const graph::Affine* affine = left_affine(g, node);
    if (affine == nullptr) continue;
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
