// A factor behind an activation goes through it into the layer, if the activation is homogeneous or
// its parameter can make up for it:
//   affine(act(W x + b; a), s, t)  =>  affine(act(s W x + s b; a'), 1, t)      s, t one number each
//     hard_swish, silu: a' = a / s      clip: bounds times s (s > 0)      leaky_relu, relu: s > 0
// What is left, + t, is free where the result is rounded to u8 (fuse_quantize). PaddleOCR's
// networks have such a pair behind every convolution.
#include <cmath>
#include <optional>

#include "fusion/passes/affine.h"
#include "fusion/passes/fold_layer.h"
#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::Conv;
using graph::Graph;
using graph::NodeId;
using graph::ValueId;

namespace {

std::vector<Pattern> patterns() {
  return {op<graph::Affine>("", {op<Conv>("layer", {any("x"), constant("w")}).open(),
                                 constant("scale"), constant("shift")})};
}

// The layer's operator once everything before its activation is `s` times as large.
std::optional<Conv> scaled(Conv op, float s) {
  if (s == 0 || !std::isfinite(s)) return std::nullopt;
  switch (op.activation) {
    case Activation::hard_swish:
    case Activation::silu:
      op.a /= s;
      return std::isfinite(op.a) ? std::optional(op) : std::nullopt;
    case Activation::clip:
      op.a *= s;
      op.b *= s;
      return s > 0 ? std::optional(op) : std::nullopt;
    case Activation::leaky_relu:
      return s > 0 ? std::optional(op) : std::nullopt;
    default:
      return std::nullopt;
  }
}

bool all_are(std::span<const float> values, float v) {
  for (float x : values)
    if (x != v) return false;
  return !values.empty();
}

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  const auto& affine = std::get<graph::Affine>(g.node(m.root).op);
  const NodeId layer = m.node("layer");
  const graph::Node& node = g.node(layer);
  const TensorType& w = g.type(m["w"]);
  if (w.dtype != DType::f32 || g.type(node.outputs[0]).quant ||
      affine.activation != Activation::none || reads_more_than_bias(node))
    return Outcome{NotMine{}};
  const auto scale = g.constant<float>(m["scale"]), shift = g.constant<float>(m["shift"]);
  if (scale.empty() || !all_are(scale, scale[0]) || !all_are(shift, shift[0]) || scale[0] == 1)
    return Outcome{NotMine{}};
  const auto op = scaled(std::get<Conv>(node.op), scale[0]);
  if (!op) return Outcome{NotMine{}};
  const FoldResult folded = fold_behind(g, layer, {0, {double{scale[0]}}, {0.0}});
  const auto* weights = std::get_if<FoldedLayer>(&folded);
  if (weights == nullptr) return Outcome{NotMine{}};
  const graph::Node old = g.node(layer);
  const std::string name = g.value(g.node(m.root).outputs[0]).name;
  const ValueId y = g.add_value(g.fresh_name(name + "/" + old.name), g.type(old.outputs[0]));
  const NodeId added = g.add_node(*op, old.name, operands(old.inputs[0], *weights), {y});
  g.node(added).inside = old.inside;
  const std::vector<double> ones(scale.size(), 1.0);
  const ValueId one = add_floats(g, name + "_one", g.type(m["scale"]).shape, ones);
  return Outcome{Replace{affine, {y, one, m["shift"]}, g.node(m.root).name}};
}

}  // namespace

const Rewrite scale_into_activation{"scale_into_activation", patterns, apply, nullptr, true};

}  // namespace fold8::fusion
