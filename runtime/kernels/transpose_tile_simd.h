// Small transposes in registers, in AVX2 instructions on every vector target. Include only from *_simd.h.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "runtime/kernels/arch.h"

namespace fold8::kernels::simd {

// y[j * y_stride + i] = x[i * x_stride + j] for i, j in 0 .. 7; strides in floats. xsimd has no word for the shuffles.
template <class Arch>
inline void transpose_8x8(const float* x, std::size_t x_stride, float* y, std::size_t y_stride) {
  __m256 half[8], pair[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {  // rows i and i+4 side by side: lanes hold columns 0-3 and 4-7
    const __m256 lo = _mm256_loadu_ps(x + i * x_stride);
    const __m256 hi = _mm256_loadu_ps(x + (i + 4) * x_stride);
    half[i] = _mm256_permute2f128_ps(lo, hi, 0x20);
    half[i + 4] = _mm256_permute2f128_ps(lo, hi, 0x31);
  }
#pragma GCC unroll 2
  for (int h = 0; h < 8; h += 4) {
    pair[h] = _mm256_unpacklo_ps(half[h], half[h + 1]);
    pair[h + 1] = _mm256_unpackhi_ps(half[h], half[h + 1]);
    pair[h + 2] = _mm256_unpacklo_ps(half[h + 2], half[h + 3]);
    pair[h + 3] = _mm256_unpackhi_ps(half[h + 2], half[h + 3]);
    _mm256_storeu_ps(y + (h + 0) * y_stride, _mm256_shuffle_ps(pair[h], pair[h + 2], 0x44));
    _mm256_storeu_ps(y + (h + 1) * y_stride, _mm256_shuffle_ps(pair[h], pair[h + 2], 0xEE));
    _mm256_storeu_ps(y + (h + 2) * y_stride, _mm256_shuffle_ps(pair[h + 1], pair[h + 3], 0x44));
    _mm256_storeu_ps(y + (h + 3) * y_stride, _mm256_shuffle_ps(pair[h + 1], pair[h + 3], 0xEE));
  }
}

}  // namespace fold8::kernels::simd
