// INT8 convolutions, plain, grouped and transposed, in 1 to 3 dimensions, over channels-last u8
// tensors.
//
//   acc[row, o] = sum over taps t, channels c of o's group  (x[i(row, t), c] - x_zero_point) *
//   (w[o, t, c] - w_zero_points[o]) y[row, o]   = epilogue(acc[row, o])
//
// where i(row, t) is given by conv_shape.h and positions in the padding contribute 0 (they hold
// x_zero_point). acc is exact, as in gemm_u8s8.h; its depth k is taps * in_channels / groups. The
// epilogue sees a matrix of conv_rows(shape) rows and out_channels columns, except that row_scale,
// if given, has one entry per sample (shape.batch of them). A call computes output rows [row_begin,
// row_end), so that the caller can split the work; the result is the same for any split.
//
// How weights are laid out depends on the shape's attributes only (not on batch and extents) and is
// made by pack_conv_s8:
//   depthwise (conv_is_depthwise): depthwise_u8s8.h, the other kernel;
//   else: per group one packed matrix (pack_s8.h) of out_channels/groups x k, k in the order (kd,
//   kh, kw, c); transposed: the taps fall into stride[0]*stride[1]*stride[2] phases, o mod stride
//   picks the phase; per phase (last axis fastest), per group one packed matrix over the taps of
//   that phase, in the same order.
#pragma once

#include "runtime/kernels/conv_shape.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/pack_s8.h"

namespace fold8::kernels {

struct ConvU8S8Args {
  ConvShape shape;
  const std::uint8_t* x = nullptr;              // [batch, in..., in_channels], dense
  std::int32_t x_zero_point = 0;                // 0..255
  const std::int8_t* w = nullptr;               // made by pack_conv_s8
  const std::int32_t* w_zero_points = nullptr;  // [out_channels], each -128..127, or null
  Epilogue epilogue;
  void* scratch =
      nullptr;  // conv_u8s8_scratch_bytes(shape), 64-byte aligned, one per concurrent call
  std::int64_t row_begin = 0, row_end = 0;
};

using conv_u8s8_fn = void(const ConvU8S8Args&);
namespace reference {
conv_u8s8_fn conv_u8s8;
}

// True if the layer belongs to depthwise_u8s8 (one input and one output channel per group, not
// transposed): the weights are then packed for that kernel and conv_u8s8 must not be called with
// them.
bool conv_is_depthwise(const ConvShape& shape);

// Packed size, and packing from w [out_channels, kd, kh, kw, in_channels/groups] (dense; for
// transposed convolutions too, where ONNX stores [in_channels, out_channels/groups, k...]:
// transpose first, taps are not flipped).
std::size_t conv_s8_packed_bytes(const ConvShape& shape);
void pack_conv_s8(const ConvShape& shape, const std::int8_t* w, std::int8_t* packed);

// Scratch of one call of conv_u8s8 or, for depthwise shapes, of depthwise_u8s8. The same for every
// target.
std::size_t conv_u8s8_scratch_bytes(const ConvShape& shape);

// The part of it that holds a gathered block of rows of depth k, padded to whole groups.
std::size_t conv_gather_bytes(std::size_t k);
// From row to row of it: the runs of a row are copied in whole vectors, the last one into the
// slack.
constexpr std::size_t conv_gather_row_bytes(std::size_t k) {
  return s8_groups(k) * kGroupDepth + 64;
}

}  // namespace fold8::kernels
