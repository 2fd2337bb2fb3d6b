// What plans and passes ask about operators.
#include "runtime/ops/common.h"
#include "runtime/ops/reduce_axes.h"

namespace fold8::ops {
namespace {

template <class... Os>
bool is_one_of(const graph::Op& op) {
  return (std::holds_alternative<Os>(op) || ...);
}

// Elements stay where they are but for axes of extent 1.
bool only_unit_axes_move(const graph::Transpose& op, const Shape& x) {
  int last = -1;
  for (int i = 0; i < x.rank(); ++i) {
    const auto axis =
        op.perm.empty() ? x.rank() - 1 - i : static_cast<int>(op.perm[static_cast<std::size_t>(i)]);
    if (axis < 0 || axis >= x.rank()) return false;
    if (x.extent(axis) == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

bool spatial(const TensorType* t) { return t != nullptr && t->shape.rank() >= 3; }

}  // namespace

bool needs_known_ints(const graph::Op& op, std::size_t operand) {
  using namespace graph;
  if (is_one_of<Reshape, Expand, Tile, TopK, OneHot, Split, Reduce>(op)) return operand == 1;
  if (is_one_of<Slice>(op)) return operand >= 1 && operand <= 4;
  if (is_one_of<Pad>(op)) return operand == 1 || operand == 3;
  if (is_one_of<Resize>(op)) return operand >= 1 && operand <= 3;
  if (is_one_of<ConstantOfShape>(op)) return operand == 0;
  if (is_one_of<Range>(op)) return operand <= 2;
  return false;
}

bool is_view(const graph::Op& op, const TensorType& in, const TensorType& out) {
  using namespace graph;
  if (!is_one_of<Reshape, Flatten, Squeeze, Unsqueeze, Identity, Relayout, Cast, Transpose, Expand>(
          op))
    return false;
  if (in.dtype != out.dtype || !in.shape.known() || !out.shape.known() ||
      in.shape.count() != out.shape.count())
    return false;
  const bool in_plain = same_order(in.shape, in.layout, Layout::plain),
             out_plain = same_order(out.shape, out.layout, Layout::plain);
  if (is_one_of<Reshape, Flatten, Squeeze, Unsqueeze>(op))
    return (in_plain && out_plain) || (in.shape == out.shape && in.layout == out.layout);
  if (is_one_of<Identity, Relayout, Cast>(op)) return same_order(in.shape, in.layout, out.layout);
  if (const auto* t = std::get_if<Transpose>(&op))
    return in_plain && out_plain && only_unit_axes_move(*t, in.shape);
  if (is_one_of<Expand>(op)) return in_plain && out_plain;
  return false;
}

bool may_run_in_place(const graph::Op& op, std::size_t input, const TensorType& in,
                      const TensorType& out) {
  using namespace graph;
  if (!(in.shape == out.shape) || in.layout != out.layout ||
      size_of(in.dtype) != size_of(out.dtype))
    return false;
  // s8 with params is converted in scratch around u8 kernels, which leaves operands alone until
  // they are read.
  if (is_one_of<Unary, Affine, Identity, Lookup, Trilu, ScatterElements, ScatterND, Softmax>(op))
    return input == 0;
  if (is_one_of<BatchNorm>(op)) return input == 0 && !std::get<BatchNorm>(op).training;
  if (is_one_of<Binary>(op)) return input <= 1;
  if (is_one_of<Where>(op)) return input == 1 || input == 2;
  if (const auto* n = std::get_if<Norm>(&op))
    return input == 0 && (n->kind == NormKind::layer || n->kind == NormKind::rms) &&
           in.dtype == DType::f32;
  if (is_one_of<Linear, Conv>(op)) return input == 3;
  return false;
}

bool accepts_channels_last(const graph::Op& op, std::span<const TensorType* const> inputs,
                           std::span<const TensorType* const> outputs) {
  using namespace graph;
  if (inputs.empty() || outputs.empty() || !spatial(outputs[0])) return false;
  if (is_one_of<Binary, Where>(op)) {
    // Operands of lower rank must not need the plain order: one element, or one a channel, which
    // strides handle anyway.
    return std::all_of(inputs.begin(), inputs.end(), [&](const TensorType* t) {
      return t == nullptr || t->shape.rank() <= outputs[0]->shape.rank();
    });
  }
  if (!spatial(inputs[0])) return false;
  if (is_one_of<Conv, Unary, Affine, BatchNorm, Cast, Identity, Quantize, Dequantize, Lookup,
                Resize, Pad, Slice, Concat, Split, DepthToSpace, SpaceToDepth>(op))
    return true;
  if (const auto* p = std::get_if<Pool>(&op))
    return outputs.size() < 2 || outputs[1] == nullptr || p->kind != PoolKind::max;
  if (const auto* n = std::get_if<Norm>(&op))
    return n->kind == NormKind::group || n->kind == NormKind::instance;
  if (const auto* r = std::get_if<Reduce>(&op)) {
    if (inputs.size() > 1 && inputs[1] != nullptr) return false;
    const int rank = inputs[0]->shape.rank();
    const auto axes = reduced_axes(*r, std::nullopt, false, rank);
    return r->keep_dims && axes.ok() && *axes && is_spatial_reduction(**axes, rank);
  }
  return false;
}

}  // namespace fold8::ops
