// What is left of a BatchNorm without a linear neighbour becomes one multiply-add per channel;
// multiply-adds in a row become one.
//   batch_norm(x)          =>  affine(x, s, t)
//   affine2(affine1(x))    =>  affine(x, s2*s1, s2*t1+t2)
#include <algorithm>

#include "fusion/passes/affine.h"
#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

namespace {

// y = affine(x) as a node's operator and operands.
Outcome as_affine(Graph& g, NodeId n, ValueId x, const ChannelAffine& a, bool from_batch_norm) {
  if (!all_finite_as_float(a.scale) || !all_finite_as_float(a.shift))
    return Decline{"as one multiply-add its numbers would leave the range of float"};
  const std::string stem = g.node(n).name;
  const Shape shape({Dim(static_cast<std::int64_t>(a.scale.size()))});
  const ValueId scale = add_floats(g, stem + "_scale", shape, a.scale);
  const ValueId shift = add_floats(g, stem + "_shift", shape, a.shift);
  graph::Affine op;
  op.axis = a.axis;
  op.from_batch_norm = from_batch_norm;
  return Replace{op, {x, scale, shift}, {}};
}

std::vector<Pattern> batch_norm_patterns() { return {op<graph::BatchNorm>("", {any("x")}).open()}; }

Result<Outcome> batch_norm_to_affine_apply(const Match& m, Graph& g, const Context&) {
  FOLD8_TRY(const AffineReading reading, read_affine(g, m.root));
  if (!reading.node) return Outcome{Decline{reading.why}};
  const TensorType& x = g.type(m["x"]);
  if (x.dtype != DType::f32 || x.quant)
    return Outcome{Decline{"its input is " + std::string(name(x.dtype)) + ", not f32"}};
  return Outcome{as_affine(g, m.root, m["x"], reading.node->affine, true)};
}

std::vector<Pattern> pair_patterns() {
  const auto first = either({op_if("first", may_be_affine, {any("")}).open(),
                             op_if("first", may_be_affine, {constant(""), any("")})});
  return {op_if("second", may_be_affine, {first}).open(),
          op_if("second", may_be_affine, {constant(""), first})};
}

Result<Outcome> merge_apply(const Match& m, Graph& g, const Context&) {
  const NodeId first = m.node("first");
  FOLD8_TRY(const AffineReading a, read_affine(g, first));
  FOLD8_TRY(const AffineReading b, read_affine(g, m.root));
  if (!a.node || !b.node || b.node->x != g.node(first).outputs[0]) return Outcome{NotMine{}};
  const ChannelAffine &inner = a.node->affine, &outer = b.node->affine;
  // Two plain numbers: no channels to speak of.
  if ((inner.uniform() && outer.uniform()) ||
      (!inner.uniform() && !outer.uniform() && inner.axis != outer.axis))
    return Outcome{NotMine{}};
  ChannelAffine merged;
  merged.axis = inner.uniform() ? outer.axis : inner.axis;
  const std::size_t channels = std::max(inner.scale.size(), outer.scale.size());
  for (std::size_t c = 0; c < channels; ++c) {
    const std::size_t i = inner.uniform() ? 0 : c, o = outer.uniform() ? 0 : c;
    merged.scale.push_back(outer.scale[o] * inner.scale[i]);
    merged.shift.push_back(outer.scale[o] * inner.shift[i] + outer.shift[o]);
  }
  return Outcome{
      as_affine(g, m.root, a.node->x, merged, a.node->from_batch_norm || b.node->from_batch_norm)};
}

}  // namespace

const Rewrite batch_norm_to_affine{"batch_norm_to_affine", batch_norm_patterns,
                                   batch_norm_to_affine_apply};
const Rewrite merge_affines{"merge_affines", pair_patterns, merge_apply, nullptr, true};

}  // namespace fold8::fusion
