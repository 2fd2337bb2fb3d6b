#include "runtime/kernels/pack_f32.h"

namespace fold8::kernels {
namespace {

constexpr std::size_t panels_of(std::size_t n) { return (n + kPanelF32 - 1) / kPanelF32; }

}  // namespace

std::size_t packed_f32_size(std::size_t n, std::size_t k, std::size_t groups) {
  return groups * panels_of(n) * k * kPanelF32;
}

std::size_t packed_depthwise_f32_size(std::size_t channels, std::size_t taps) {
  return taps * panels_of(channels) * kPanelF32;
}

void pack_f32(const float* w, std::size_t n, std::size_t k, std::size_t groups, float* packed) {
  for (std::size_t g = 0; g < groups; ++g, w += n * k)
    for (std::size_t p = 0; p < panels_of(n); ++p)
      for (std::size_t i = 0; i < k; ++i)
        for (std::size_t j = 0; j < kPanelF32; ++j) {
          const std::size_t row = p * kPanelF32 + j;
          *packed++ = row < n ? w[row * k + i] : 0.0f;
        }
}

ConvWeights conv_weights(const float* w, std::size_t n, std::size_t c, std::size_t taps,
                         std::size_t groups) {
  return {w, n, c, taps, groups, n * c * taps, c * taps, taps};
}

ConvWeights conv_transpose_weights(const float* w, std::size_t n, std::size_t c, std::size_t taps,
                                   std::size_t groups) {
  return {w, n, c, taps, groups, c * n * taps, taps, n * taps};
}

void pack_conv_f32(const ConvWeights& v, float* packed) {
  for (std::size_t g = 0; g < v.groups; ++g)
    for (std::size_t p = 0; p < panels_of(v.n); ++p)
      for (std::size_t t = 0; t < v.taps; ++t)
        for (std::size_t c = 0; c < v.c; ++c)
          for (std::size_t j = 0; j < kPanelF32; ++j) {
            const std::size_t o = p * kPanelF32 + j;
            *packed++ =
                o < v.n ? v.w[g * v.group_stride + o * v.out_stride + c * v.in_stride + t] : 0.0f;
          }
}

void pack_depthwise_f32(const float* w, std::size_t channels, std::size_t taps, float* packed) {
  const std::size_t stride = panels_of(channels) * kPanelF32;
  for (std::size_t t = 0; t < taps; ++t)
    for (std::size_t c = 0; c < stride; ++c)
      packed[t * stride + c] = c < channels ? w[c * taps + t] : 0.0f;
}

}  // namespace fold8::kernels
