// Small transposes in registers, in AVX2 instructions on every vector target. Include only from
// *_simd.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/vec16_simd.h"

namespace fold8::kernels::simd {

// y[j * y_stride + i] = x[i * x_stride + j] for i, j in 0 .. 7; strides in floats. xsimd has no
// word for the shuffles.
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

// y[j * y_stride + i] = x[i * x_stride + j] for i, j in 0 .. kSide-1, by element size.
template <class Arch, class T>
struct TransposeTile;

template <class Arch>
struct TransposeTile<Arch, std::uint32_t> {
  static constexpr std::size_t kSide = 8;
  static void run(const std::uint32_t* x, std::size_t x_stride, std::uint32_t* y,
                  std::size_t y_stride) {
    transpose_8x8<Arch>(reinterpret_cast<const float*>(x), x_stride, reinterpret_cast<float*>(y),
                        y_stride);
  }
};

template <class Arch>
struct TransposeTile<Arch, std::uint64_t> {
  static constexpr std::size_t kSide = 4;
  static void run(const std::uint64_t* x, std::size_t x_stride, std::uint64_t* y,
                  std::size_t y_stride) {
    __m256i row[4];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i)
      row[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i * x_stride));
    const __m256i a = _mm256_unpacklo_epi64(row[0], row[1]),
                  b = _mm256_unpackhi_epi64(row[0], row[1]);
    const __m256i c = _mm256_unpacklo_epi64(row[2], row[3]),
                  d = _mm256_unpackhi_epi64(row[2], row[3]);
    const auto store = [&](std::size_t j, __m256i v) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + j * y_stride), v);
    };
    store(0, _mm256_permute2x128_si256(a, c, 0x20));
    store(1, _mm256_permute2x128_si256(b, d, 0x20));
    store(2, _mm256_permute2x128_si256(a, c, 0x31));
    store(3, _mm256_permute2x128_si256(b, d, 0x31));
  }
};

// Rounds of interleaving row i with row i + half: after log2(rows) of them the bytes stand in
// columns.
template <class Arch, class T, std::size_t kRows>
struct TransposeByInterleaving {
  static constexpr std::size_t kSide = kRows;
  static void run(const T* x, std::size_t x_stride, T* y, std::size_t y_stride) {
    __m128i a[kRows];
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kRows; ++i)
      a[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i * x_stride));
    rounds(a);
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kRows; ++i)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i * y_stride), a[i]);
  }
  // i < cols, j < rows only.
  static void run_part(const T* x, std::size_t x_stride, T* y, std::size_t y_stride,
                       std::size_t rows, std::size_t cols) {
    using M = Memory16<Arch>;
    constexpr int kSize = static_cast<int>(sizeof(T));
    __m128i a[kRows];
    for (std::size_t i = 0; i < kRows; ++i)
      a[i] = i >= cols       ? _mm_setzero_si128()
             : rows == kRows ? M::load_bytes(x + i * x_stride)
                             : M::load_bytes(x + i * x_stride, static_cast<int>(rows) * kSize);
    rounds(a);
    for (std::size_t i = 0; i < rows; ++i) {
      if (cols == kRows)
        M::store_bytes(y + i * y_stride, a[i]);
      else
        M::store_bytes(y + i * y_stride, static_cast<int>(cols) * kSize, a[i]);
    }
  }

 private:
  [[gnu::always_inline]] static void rounds(__m128i (&a)[kRows]) {
    __m128i b[kRows];
#pragma GCC unroll 4
    for (std::size_t round = 1; round < kRows; round *= 2) {
#pragma GCC unroll 16
      for (std::size_t i = 0; i < kRows / 2; ++i) {
        b[2 * i] = low(a[i], a[i + kRows / 2]);
        b[2 * i + 1] = high(a[i], a[i + kRows / 2]);
      }
#pragma GCC unroll 16
      for (std::size_t i = 0; i < kRows; ++i) a[i] = b[i];
    }
  }
  static __m128i low(__m128i a, __m128i b) {
    return sizeof(T) == 1 ? _mm_unpacklo_epi8(a, b) : _mm_unpacklo_epi16(a, b);
  }
  static __m128i high(__m128i a, __m128i b) {
    return sizeof(T) == 1 ? _mm_unpackhi_epi8(a, b) : _mm_unpackhi_epi16(a, b);
  }
};

template <class Arch>
struct TransposeTile<Arch, std::uint8_t> : TransposeByInterleaving<Arch, std::uint8_t, 16> {};
template <class Arch>
struct TransposeTile<Arch, std::uint16_t> : TransposeByInterleaving<Arch, std::uint16_t, 8> {};

}  // namespace fold8::kernels::simd
