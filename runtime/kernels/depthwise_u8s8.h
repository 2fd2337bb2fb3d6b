// INT8 depthwise convolution: groups == in_channels == out_channels, any kernel, stride and
// dilation, channels-last. Same equation, arguments and epilogue as conv_u8s8.h with one input
// channel per output channel.
//
// Weights (pack_conv_s8 makes them) are a packed matrix (pack_s8.h) of channels x depth whose k
// runs over taps, so that one group of 4 is a piece of a column of the kernel, or of its row if it
// has no height:
//   kernel[1] >= 2:  (kd, kw, kh), kh padded with zero weights to a multiple of 4
//   kernel[1] == 1:  (kd, kw), kw padded likewise
#pragma once

#include "runtime/kernels/conv_u8s8.h"

namespace fold8::kernels {

// One output sums steps * 4 products: plane by plane and piece by piece of a column, `reach` steps
// side by side.
struct DepthwiseSteps {
  bool columns;           // 4 taps of a column; else of a row
  std::int64_t planes;    // kernel[0]
  std::int64_t pieces;    // groups of 4 in a column
  std::int64_t reach;     // columns, or groups of 4 in a row
  std::int64_t distance;  // input positions between neighbouring steps

  constexpr std::int64_t count() const { return planes * pieces * reach; }
  // The group of 4 in the packed matrix.
  constexpr std::int64_t group(std::int64_t plane, std::int64_t piece, std::int64_t i) const {
    return (plane * reach + i) * pieces + piece;
  }
};

constexpr DepthwiseSteps depthwise_steps(const ConvShape& s) {
  if (s.kernel[1] >= 2)
    return {true, s.kernel[0], (s.kernel[1] + 3) / 4, s.kernel[2], s.dilation[2]};
  return {false, s.kernel[0], 1, (s.kernel[2] + 3) / 4, 4 * s.dilation[2]};
}

// The depth of the packed matrix, and the k of one tap.
constexpr std::size_t depthwise_depth(const ConvShape& s) {
  return static_cast<std::size_t>(depthwise_steps(s).count()) * kGroupDepth;
}
constexpr std::size_t depthwise_at(const ConvShape& s, std::int64_t d, std::int64_t y,
                                   std::int64_t x) {
  const DepthwiseSteps steps = depthwise_steps(s);
  const std::int64_t group = steps.columns ? steps.group(d, y / 4, x) : steps.group(d, 0, x / 4);
  return static_cast<std::size_t>(group * 4 + (steps.columns ? y % 4 : x % 4));
}

// Parts of the scratch of one call: the weights of every block of channels as a target wants them,
// then the inputs of kDepthwiseChunk outputs side by side.
inline constexpr std::int64_t kDepthwiseChunk = 16;
std::size_t depthwise_weights_bytes(const ConvShape& shape);
std::size_t depthwise_u8s8_scratch_bytes(const ConvShape& shape);

// Common layers take another way on the vector targets (depthwise_strip.h).
inline constexpr std::size_t kDepthwiseStripBytes = 32768;
constexpr bool depthwise_in_strips(const ConvShape& s) {
  return s.kernel[0] == 1 && s.in[0] == 1 && s.out[0] == 1 && s.pad_begin[0] == 0 &&
         s.kernel[1] >= 2 && s.kernel[1] <= 7 && (s.kernel[2] - 1) * s.dilation[2] < 16 &&
         s.stride[2] <= 8;
}
// Its scratch: weights (16-bit ones at most) of all channels, three start values of each, and the
// entries.
constexpr std::size_t depthwise_strip_scratch_bytes(const ConvShape& s) {
  const std::size_t pairs = static_cast<std::size_t>(s.kernel[1] + 2) / 2;
  return s8_panels(static_cast<std::size_t>(s.out_channels)) *
             (static_cast<std::size_t>(s.kernel[2]) * pairs * 2 * 64 + 3 * 64) +
         kDepthwiseStripBytes;
}

using depthwise_u8s8_fn = void(const ConvU8S8Args&);
namespace reference {
depthwise_u8s8_fn depthwise_u8s8;
}

}  // namespace fold8::kernels
