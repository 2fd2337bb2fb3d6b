// What is left of a BatchNorm without a linear neighbour becomes one multiply-add per channel;
// multiply-adds in a row become one.
//   batch_norm(x)          =>  affine(x, s, t)
//   affine2(affine1(x))    =>  affine(x, s2*s1, s2*t1+t2)
//   transpose(affine(transpose(x)))  =>  affine(x) on another axis, if the transposes cancel
//   (BatchNorm in Transformers)
#include <algorithm>

#include "fusion/passes/affine.h"
#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

namespace {

// Two plain multiply-adds are not worth a long list of equal numbers.
constexpr std::size_t kMostUniformChannels = 4096;

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
  if (!inner.uniform() && !outer.uniform() && inner.axis != outer.axis) return Outcome{NotMine{}};
  ChannelAffine merged;
  merged.axis = inner.uniform() ? outer.axis : inner.axis;
  std::size_t channels = inner.uniform() ? outer.scale.size() : inner.scale.size();
  if (channels == 0) return Outcome{NotMine{}};  // statistics over no channels
  if (inner.uniform() && outer.uniform()) {
    // Two plain numbers each: an Affine wants them per channel.
    const Shape& x = g.type(a.node->x).shape;
    merged.axis = x.rank() > 1 ? 1 : 0;
    if (x.rank() == 0 || !x[merged.axis].known()) return Outcome{NotMine{}};
    channels = static_cast<std::size_t>(x.extent(merged.axis));
    if (channels == 0 || channels > kMostUniformChannels) return Outcome{NotMine{}};
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const std::size_t i = inner.uniform() ? 0 : c, o = outer.uniform() ? 0 : c;
    merged.scale.push_back(outer.scale[o] * inner.scale[i]);
    merged.shift.push_back(outer.scale[o] * inner.shift[i] + outer.shift[o]);
  }
  return Outcome{
      as_affine(g, m.root, a.node->x, merged, a.node->from_batch_norm || b.node->from_batch_norm)};
}

std::vector<Pattern> transposed_patterns() {
  const auto first = op<graph::Transpose>("first", {any("x")});
  return {
      op<graph::Transpose>("", {op<graph::Affine>("affine", {first, any("scale"), any("shift")})})};
}

Result<Outcome> affine_out_of_transposes_apply(const Match& m, Graph& g, const Context&) {
  const NodeId affine = m.node("affine");
  const graph::Ints& before = std::get<graph::Transpose>(g.node(m.node("first")).op).perm;
  const graph::Ints& after = std::get<graph::Transpose>(g.node(m.root).op).perm;
  if (before.empty() || before.size() != after.size()) return Outcome{NotMine{}};
  for (std::size_t i = 0; i < after.size(); ++i)
    if (before[static_cast<std::size_t>(after[i])] != static_cast<std::int64_t>(i))
      return Outcome{NotMine{}};
  graph::Affine op = std::get<graph::Affine>(g.node(affine).op);
  op.axis = before[static_cast<std::size_t>(op.axis)];
  return Outcome{Replace{op, {m["x"], m["scale"], m["shift"]}, g.node(affine).name}};
}

}  // namespace

const Rewrite affine_out_of_transposes{"affine_out_of_transposes", transposed_patterns,
                                       affine_out_of_transposes_apply, nullptr, true};
const Rewrite batch_norm_to_affine{"batch_norm_to_affine", batch_norm_patterns,
                                   batch_norm_to_affine_apply};
// Whoever else reads the first one keeps it: that costs nothing and spares the second a read.
const Rewrite merge_affines{"merge_affines", pair_patterns, merge_apply,
                            [](const graph::Op&) { return true; }, true};

}  // namespace fold8::fusion
