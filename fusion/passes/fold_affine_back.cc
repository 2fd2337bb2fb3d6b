// A constant per-channel affine behind a linear layer goes into its weights (SPEC: BatchNorm
// folding):
//   affine(movement(layer(x, W, b)))  =>  movement(layer(x, W', b'))
// `movement` is any chain of Transpose, Reshape, Flatten, Squeeze and Unsqueeze that maps the
// channels to the layer's output channels.
#include "fusion/passes/affine.h"
#include "fusion/passes/fold_layer.h"
#include "fusion/passes/passes.h"

namespace fold8::fusion {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

namespace {

// A BatchNorm, or what one has become: the user expects it to go.
bool is_batch_norm(const graph::Op& op) {
  const auto* affine = std::get_if<graph::Affine>(&op);
  return std::holds_alternative<graph::BatchNorm>(op) ||
         (affine != nullptr && affine->from_batch_norm && may_be_affine(op));
}
bool is_other_affine(const graph::Op& op) {
  return std::holds_alternative<graph::Affine>(op) && may_be_affine(op) && !is_batch_norm(op);
}
bool is_binary_affine(const graph::Op& op) {
  return may_be_affine(op) && std::holds_alternative<graph::Binary>(op);
}

Pattern layer_behind_movement() {
  return through(is_movement, op_if("layer", is_linear_layer, {any("")}).open());
}

std::vector<Pattern> norm_patterns() {
  return {op_if("", is_batch_norm, {layer_behind_movement()}).open(),
          op_if("", is_batch_norm, {any("")}).open()};
}
std::vector<Pattern> other_patterns() {
  return {op_if("", is_other_affine, {layer_behind_movement()}).open(),
          op_if("", is_binary_affine, {layer_behind_movement(), constant("")}),
          op_if("", is_binary_affine, {constant(""), layer_behind_movement()})};
}

bool has_activation(const graph::Op& op) {
  if (const auto* l = std::get_if<graph::Linear>(&op)) return l->activation != Activation::none;
  return std::get<graph::Conv>(op).activation != Activation::none;
}

// Why the layer cannot take an affine behind it; empty if it can.
std::string layer_obstacle(const Graph& g, NodeId layer) {
  const graph::Node& node = g.node(layer);
  if (has_activation(node.op)) return "an activation is already part of the layer";
  if (reads_more_than_bias(node)) return "a residual is already part of the layer";
  if (g.type(node.outputs[0]).dtype != DType::f32 || g.type(node.outputs[0]).quant)
    return "the layer's output is already quantized";
  return {};
}

// The pattern with the layer did not match, or the driver refused it and has said why.
Outcome no_layer(const Graph& g, const Match& m, const AffineNode& affine) {
  if (!affine.from_batch_norm) return NotMine{};
  ValueId x = affine.x;
  NodeId maker = m.index->producer(x);
  while (maker != graph::kNoNode && is_movement(g.node(maker).op)) {
    x = g.node(maker).inputs[0];
    maker = m.index->producer(x);
  }
  if (maker == graph::kNoNode)
    return Decline{"its input '" + g.value(x).name + "' is not computed by a linear layer"};
  if (is_linear_layer(g.node(maker).op)) return NotMine{};
  return Decline{describe(g, maker) + " stands in front of it, which is no linear layer"};
}

// The folded layer and the movement behind it; the last of them takes the root's place.
Replace rebuild(Graph& g, const Match& m, NodeId layer, const FoldedLayer& folded) {
  const graph::Node old = g.node(layer);
  const std::string result = g.value(g.node(m.root).outputs[0]).name;
  const std::vector<ValueId> inputs = operands(old.inputs[0], folded);
  if (m.path.empty()) return {old.op, inputs, old.name};
  ValueId v = g.add_value(g.fresh_name(result + "/" + old.name), g.type(old.outputs[0]));
  const NodeId added = g.add_node(old.op, old.name, inputs, {v});
  g.node(added).inside = old.inside;
  g.node(added).inside.push_back(g.node(m.root).name);
  for (std::size_t i = m.path.size() - 1; i > 0; --i) {
    const graph::Node step = g.node(m.path[i]);
    std::vector<ValueId> moved = step.inputs;
    moved[0] = v;
    v = g.add_value(g.fresh_name(result + "/" + step.name), g.type(step.outputs[0]));
    g.add_node(step.op, step.name, moved, {v});
  }
  const graph::Node& last = g.node(m.path[0]);
  std::vector<ValueId> moved = last.inputs;
  moved[0] = v;
  return {last.op, moved, last.name};
}

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  FOLD8_TRY(const AffineReading reading, read_affine(g, m.root));
  if (!reading.node) {
    if (reading.why.empty()) return Outcome{NotMine{}};
    return Outcome{Decline{reading.why}};
  }
  const NodeId layer = m.node("layer");
  if (layer == graph::kNoNode) return Outcome{no_layer(g, m, *reading.node)};
  if (std::string why = layer_obstacle(g, layer); !why.empty())
    return Outcome{Decline{std::move(why)}};
  ChannelAffine affine = reading.node->affine;
  for (const NodeId step : m.path) {
    const graph::Node& node = g.node(step);
    const auto carried =
        carry(node.op, g.type(node.inputs[0]).shape, g.type(node.outputs[0]).shape, affine, false);
    if (!carried)
      return Outcome{Decline{"its channels do not stay on one axis through " + describe(g, step)}};
    affine = *carried;
  }
  const Shape& out = g.type(g.node(layer).outputs[0]).shape;
  const int channel_axis =
      std::holds_alternative<graph::Conv>(g.node(layer).op) ? 1 : out.rank() - 1;
  if (!affine.uniform() && affine.axis != channel_axis)
    return Outcome{Decline{"its channels are axis " + std::to_string(affine.axis) +
                           " of the output of " + describe(g, layer) + ", whose own are axis " +
                           std::to_string(channel_axis)}};
  const FoldResult folded = fold_behind(g, layer, affine);
  if (const auto* why = std::get_if<std::string>(&folded)) return Outcome{Decline{*why}};
  return Outcome{rebuild(g, m, layer, std::get<FoldedLayer>(folded))};
}

std::vector<Pattern> bias_patterns() {
  const auto layer = op_if("layer", is_linear_layer, {any("")}).open();
  return {layer + constant(""), binary(graph::BinaryKind::sub, layer, constant(""))};
}

}  // namespace

const Rewrite fold_batch_norm{"fold_batch_norm", norm_patterns, apply};
const Rewrite fold_scale_back{"fold_scale_back", other_patterns, apply, nullptr, true};
const Rewrite fold_bias{"fold_bias", bias_patterns, apply, nullptr, true};

}  // namespace fold8::fusion
