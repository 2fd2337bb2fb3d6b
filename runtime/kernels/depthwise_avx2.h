// The AVX2 engine of depthwise_u8s8: 16 channels of one output; four inputs of a channel become the 16-bit pairs (0, 2)
// and (1, 3), as do the weights (gemm_u8s8_avx2.h). Include only from depthwise_u8s8_simd.h.
#pragma once

#include "runtime/kernels/depthwise_block.h"

namespace fold8::kernels::simd {

template <class Arch>
struct DepthwiseAvx2 {
  static constexpr std::size_t kLanes = 16, kEntryBytes = 128;
  static constexpr bool kPacksOutputs = false;

  static std::size_t slot(std::size_t lane) { return lane; }
  static void set_weights(std::uint8_t* step, std::size_t lane, const std::int8_t* four) {
    const std::int16_t even[2] = {four[0], four[2]}, odd[2] = {four[1], four[3]};
    std::memcpy(step + 4 * lane, even, 4);
    std::memcpy(step + 64 + 4 * lane, odd, 4);
  }

  [[gnu::always_inline]] static __m128i load(const DepthwiseBlock& b, const DepthwiseLine& line, std::int64_t x) {
    if (line.x == nullptr || x < 0 || x >= line.in) return _mm_set1_epi8(static_cast<char>(line.fill));
    const std::uint8_t* from = line.x + x * line.channels + b.first_channel;
    if (b.width == 16) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    alignas(16) std::uint8_t bytes[16] = {};
    for (std::size_t i = 0; i < b.width; ++i) bytes[i] = from[i];
    return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
  }

  [[gnu::always_inline]] static void entry(const DepthwiseBlock& b, const DepthwiseLine* lines, const std::int64_t* x,
                                           std::uint8_t* to) {
    __m256i* out = reinterpret_cast<__m256i*>(to);
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; ++odd) {
      const __m128i v = load(b, lines[odd], x[odd]), u = load(b, lines[odd + 2], x[odd + 2]);
      _mm256_store_si256(out + 2 * odd, _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(v, u)));
      _mm256_store_si256(out + 2 * odd + 1, _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(v, u)));
    }
  }

  template <int kGroups>
  struct Sums {
    __m256i v[kGroups][2];
  };

  template <int kGroups>
  [[gnu::always_inline]] static Sums<kGroups> sums(const DepthwiseChunk& c, const std::uint8_t* weights,
                                                   const std::int32_t* init, std::size_t first) {
    const auto vector = [](const void* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); };
    Sums<kGroups> acc;
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h)
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) acc.v[g][h] = vector(init + 8 * h);
    const std::uint8_t* row = c.entries + first * c.group_step * kEntryBytes;
    for (std::size_t p = 0; p < c.rows; ++p, row += c.row_entries * kEntryBytes) {
      const std::uint8_t* at = row;
      for (std::size_t t = 0; t < c.reach; ++t, at += c.reach_step * kEntryBytes, weights += kEntryBytes) {
#pragma GCC unroll 4
        for (int part = 0; part < 4; ++part) {
          const __m256i w = vector(weights + 32 * part);
#pragma GCC unroll 4
          for (int g = 0; g < kGroups; ++g) {
            const __m256i x = vector(at + static_cast<std::size_t>(g) * c.group_step * kEntryBytes + 32 * part);
            acc.v[g][part % 2] = _mm256_add_epi32(acc.v[g][part % 2], _mm256_madd_epi16(x, w));
          }
        }
      }
    }
    return acc;
  }

  [[gnu::always_inline]] static void store(const __m256i (&v)[2], std::int32_t* acc) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(acc), v[0]);
    _mm256_store_si256(reinterpret_cast<__m256i*>(acc + 8), v[1]);
  }

  [[gnu::always_inline]] static void finish(const EpilogueU8& e, const DepthwiseBlock& b, std::size_t m, std::size_t,
                                            const __m256i (&v)[2]) {
    epilogue_u8_row(e, m, b.first_channel, v[0], v[1], b.width);
  }
};

}  // namespace fold8::kernels::simd
