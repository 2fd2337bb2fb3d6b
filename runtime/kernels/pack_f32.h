// f32 weights as every target reads them: panels of 16 outputs, [groups][ceil(N/16)][K][16],
// outputs beyond N are +0.
//   packed[g][p][k][j] = w[g*N + 16p + j][k]          N, K: outputs and products of one group
// For convolutions K runs over (kd, kh, kw, c of the group). Packed once at convert, 64-byte
// aligned, used as it lies. Depthwise weights are [taps][round_up(C, 16)].
#pragma once

#include <cstddef>

namespace fold8::kernels {

inline constexpr std::size_t kPanelF32 = 16;

// Sizes in floats.
std::size_t packed_f32_size(std::size_t n, std::size_t k, std::size_t groups = 1);
std::size_t packed_depthwise_f32_size(std::size_t channels, std::size_t taps);

// w: [groups * n, k] row-major.
void pack_f32(const float* w, std::size_t n, std::size_t k, std::size_t groups, float* packed);

// Where the weights of a convolution lie: strides in floats of the four meanings of an ONNX
// weight's axes.
//   Conv           [groups*N, C, taps]:  out = C*taps, in = taps, group = N*C*taps
//   ConvTranspose  [groups*C, N, taps]:  out = taps, in = N*taps, group = C*N*taps
struct ConvWeights {
  const float* w = nullptr;
  std::size_t n = 0;     // outputs of one group
  std::size_t c = 0;     // inputs of one group
  std::size_t taps = 0;  // kd*kh*kw, contiguous
  std::size_t groups = 1;
  std::size_t group_stride = 0, out_stride = 0, in_stride = 0;
};
ConvWeights conv_weights(const float* w, std::size_t n, std::size_t c, std::size_t taps,
                         std::size_t groups);
ConvWeights conv_transpose_weights(const float* w, std::size_t n, std::size_t c, std::size_t taps,
                                   std::size_t groups);

// Into the layout above with k = tap * c + channel.
void pack_conv_f32(const ConvWeights& weights, float* packed);

// w: [channels, taps].
void pack_depthwise_f32(const float* w, std::size_t channels, std::size_t taps, float* packed);

}  // namespace fold8::kernels
