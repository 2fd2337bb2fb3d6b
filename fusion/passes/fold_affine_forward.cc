// A constant per-channel affine in front of linear layers goes into their weights:
//   layer(movement(affine(x)), W, b)  =>  layer(movement(x), W', b')
// Exact for Linear and for convolutions without padding; with zero padding only if the shift is
// zero. Every layer that reads the affine gets its own copy; readers of any other kind keep the
// affine, so nothing is folded then.
#include "fusion/passes/affine.h"
#include "fusion/passes/fold_layer.h"
#include "fusion/passes/passes.h"

namespace fold8::fusion {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

namespace {

bool is_binary(const graph::Op& op) {
  return std::holds_alternative<graph::Binary>(op) && may_be_affine(op);
}
// A BatchNorm, or what one has become: the user expects it to go.
bool is_batch_norm(const graph::Op& op) {
  const auto* affine = std::get_if<graph::Affine>(&op);
  return std::holds_alternative<graph::BatchNorm>(op) ||
         (affine != nullptr && affine->from_batch_norm && may_be_affine(op));
}
bool is_other_affine(const graph::Op& op) {
  return std::holds_alternative<graph::Affine>(op) && may_be_affine(op) && !is_batch_norm(op);
}

std::vector<Pattern> norm_patterns() {
  return {op_if("layer", is_linear_layer,
                {through(is_movement, op_if("affine", is_batch_norm, {any("")}).open())})
              .open()};
}
std::vector<Pattern> other_patterns() {
  const auto affine = either({op_if("affine", is_other_affine, {any("")}).open(),
                              op_if("affine", is_binary, {any(""), constant("")}),
                              op_if("affine", is_binary, {constant(""), any("")})});
  return {op_if("layer", is_linear_layer, {through(is_movement, affine)}).open()};
}

// The movement again, over x instead of the affine's result.
ValueId move_again(Graph& g, const Match& m, ValueId x) {
  for (auto it = m.path.rbegin(); it != m.path.rend(); ++it) {
    const graph::Node step = g.node(*it);
    std::vector<ValueId> operands = step.inputs;
    operands[0] = x;
    x = g.add_value(g.fresh_name(g.value(x).name + "/" + step.name), g.type(step.outputs[0]));
    g.add_node(step.op, step.name, operands, {x});
  }
  return x;
}

// x is a graph input, or made of one by affines alone.
bool comes_from_input(const Graph& g, const Index& index, ValueId x) {
  while (!g.is_input(x)) {
    const NodeId maker = index.producer(x);
    if (maker == graph::kNoNode) return false;
    const auto reading = read_affine(g, maker);
    if (!reading.ok() || !reading->node) return false;
    x = reading->node->x;
  }
  return true;
}

Result<Outcome> apply(const Match& m, Graph& g, const Context& context) {
  const NodeId source = m.node("affine");
  FOLD8_TRY(const AffineReading reading, read_affine(g, source));
  if (!reading.node) return Outcome{NotMine{}};  // fold_batch_norm says why
  const std::string who = describe(g, source) + " in front of it: ";
  if (context.keep_input_affine && comes_from_input(g, *m.index, reading.node->x))
    return Outcome{Decline{who + "standardises a graph input and is left for the input quantizer"}};
  ChannelAffine affine = reading.node->affine;
  for (auto it = m.path.rbegin(); it != m.path.rend(); ++it) {
    const graph::Node& step = g.node(*it);
    const auto carried =
        carry(step.op, g.type(step.inputs[0]).shape, g.type(step.outputs[0]).shape, affine, true);
    if (!carried)
      return Outcome{
          Decline{who + "its channels do not stay on one axis through " + describe(g, *it)}};
    affine = *carried;
  }
  const graph::Node layer = g.node(m.root);
  const bool conv = std::holds_alternative<graph::Conv>(layer.op);
  const int channel_axis = conv ? 1 : g.type(layer.inputs[0]).shape.rank() - 1;
  if (!affine.uniform() && affine.axis != channel_axis)
    return Outcome{Decline{who + "its channels are axis " + std::to_string(affine.axis) +
                           ", the layer's input channels are axis " +
                           std::to_string(channel_axis)}};
  const FoldResult folded = fold_in_front(g, m.root, affine);
  if (const auto* why = std::get_if<std::string>(&folded)) return Outcome{Decline{who + *why}};
  std::vector<ValueId> inputs = layer.inputs;
  inputs[0] = move_again(g, m, reading.node->x);
  put(std::get<FoldedLayer>(folded), inputs);
  return Outcome{Replace{layer.op, inputs, {}}};
}

}  // namespace

const Rewrite fold_batch_norm_forward{"fold_batch_norm_forward", norm_patterns, apply,
                                      is_linear_layer};
const Rewrite fold_scale_forward{"fold_scale_forward", other_patterns, apply, is_linear_layer,
                                 true};

}  // namespace fold8::fusion
