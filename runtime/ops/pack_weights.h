// Weights of Linear and Conv in the order the kernels read: made once at convert time, or in
// prepare() for plain ones.
#pragma once

#include <memory>

#include "runtime/core/tensor.h"
#include "runtime/kernels/conv_shape.h"
#include "runtime/ops/conv_geometry.h"

namespace fold8::ops {

struct PackedWeight {
  TensorType type;  // logical shape kept, layout changed; u8 weights have become s8
  std::shared_ptr<const Buffer> data;  // 64-byte aligned
};

// w: operand 1 of a Linear or Conv, plain, constant: f32, s8 or u8. Matrices of a batched Linear
// follow each other; weights with scales per group along K are one packed matrix per group. Errors:
// an operator without weights, a weight that is already packed, more than 2^31 elements a matrix.
Result<PackedWeight> pack_weight(const graph::Op& op, const TensorType& w, const void* data);

// Bytes of a weight in the layout its type says (plain: the elements).
Result<std::size_t> weight_bytes(const graph::Op& op, const TensorType& w);

// The same for a convolution whose geometry is known; pack_weight() leaves a weight plain if its
// order depends on the extents (packing_depends_on_extents()), and prepare() then calls this.
Result<PackedWeight> pack_conv_weight(const kernels::ConvShape& s, const TensorType& w,
                                      const void* data);

// Scale and zero point of every output column: column i has scales[i % scales.size()], seen in w's
// own params; zero_points is empty if all are 0. No params: scale 1. Not for per-group.
struct ColumnParams {
  std::span<const float> scales;
  std::vector<std::int32_t> zero_points;
};
// channel_axis: the axis of w that output columns lie along; `columns`: their number (a multiple of
// that extent).
Result<ColumnParams> column_params(const TensorType& w, int channel_axis, std::size_t columns);

// Weight-only INT8 of a Linear whose weight the kernel reads as bytes: s8 [N, K], zero points 0,
// scales of any granularity.
bool may_stay_int8(const TensorType& w);

// f32 weights of other weight-only INT8: dequantized, in plain order. w: plain or packed s8.
Result<std::vector<float>> dequantize_weight(const graph::Op& op, const TensorType& w,
                                             const void* data);

// Blocks along K that share a scale: K split at multiples of the group; one block without per-group
// scales.
struct KBlocks {
  std::size_t k = 0, block = 0, count = 1;
  std::size_t depth(std::size_t g) const { return std::min(block, k - g * block); }
};
KBlocks k_blocks(const TensorType& w);
// Scales per group of a weight [n, K] of a matrix: they lie along K, and every group of every
// output has one.
Status expect_group_scales(const TensorType& w, std::size_t n);

}  // namespace fold8::ops
