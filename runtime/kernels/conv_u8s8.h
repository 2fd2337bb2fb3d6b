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
//   else: per group one packed matrix (pack_s8.h) of out_channels/groups columns, k in the order
//   (kd, kh, line), a line being (kw, c) followed by zero weights up to a multiple of 4: a line can
//   be read from a row of pixels wherever it starts;
//   transposed: the taps fall into stride[0]*stride[1]*stride[2] phases, o mod stride picks the
//   phase; per phase (last axis fastest), per group one packed matrix over the taps of that phase,
//   in the order in which they meet the input (u8s8_phase). Where the windows tile the last axis
//   (u8s8_spread), the phases along it are one: its matrix has kernel[2] * out_channels columns,
//   (kw, o), which lie in y as they do in a row of the product.
#pragma once

#include "runtime/kernels/conv_phase.h"
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

// How many neighbouring outputs of the last axis come from the same inputs and are computed as one
// row: kernel[2] of a transposed convolution whose windows lie side by side, else 1.
constexpr std::int64_t u8s8_spread(const ConvShape& s) {
  const bool tiles = s.transposed && s.groups == 1 && s.kernel[2] == s.stride[2] &&
                     s.dilation[2] == 1 && s.pad_begin[2] == 0;
  return tiles ? s.kernel[2] : 1;
}

// Phase `index` of the shape, the taps of each axis in the order of ascending input positions. Of
// windows side by side, the first tap stands for all.
std::int64_t u8s8_phases(const ConvShape& shape);
ConvPhase u8s8_phase(const ConvShape& shape, std::int64_t index);

// Columns of one group's matrix.
constexpr std::size_t u8s8_columns(const ConvShape& s) {
  return static_cast<std::size_t>(s.out_channels / s.groups * u8s8_spread(s));
}

// k of one line of taps and of a whole phase, zero weights included.
constexpr std::size_t u8s8_line_depth(const ConvShape& s, const ConvPhase& p) {
  return s8_groups(static_cast<std::size_t>(p.axis[2].taps * (s.in_channels / s.groups))) *
         kGroupDepth;
}
constexpr std::size_t u8s8_depth(const ConvShape& s, const ConvPhase& p) {
  return static_cast<std::size_t>(p.axis[0].taps * p.axis[1].taps) * u8s8_line_depth(s, p);
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
// The inverse for a convolution that is neither depthwise nor transposed.
void unpack_conv_s8(const ConvShape& shape, const std::int8_t* packed, std::int8_t* w);

// Scratch of one call of conv_u8s8 or, for depthwise shapes, of depthwise_u8s8. The same for every
// target.
std::size_t conv_u8s8_scratch_bytes(const ConvShape& shape);

// The first part of it, where u8s8_spread > 1: multipliers, offsets and weight zero points of all
// columns.
std::size_t conv_spread_bytes(const ConvShape& shape);
// The part of it that holds a gathered block of rows of depth k, padded to whole groups.
std::size_t conv_gather_bytes(std::size_t k);
// From row to row of it: the runs of a row are copied in whole vectors, the last one into the
// slack.
constexpr std::size_t conv_gather_row_bytes(std::size_t k) {
  return s8_groups(k) * kGroupDepth + 64;
}

}  // namespace fold8::kernels
