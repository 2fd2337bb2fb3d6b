// The AVX2 engine of depthwise_u8s8: 16 channels of one output; four inputs of a channel become the
// 16-bit pairs (0, 2) and (1, 3), as do the weights (gemm_u8s8_avx2.h). Include only from
// depthwise_u8s8_simd.h.
#pragma once

#include "runtime/kernels/depthwise_block.h"
#include "runtime/kernels/gemm_u8s8_avx2.h"

namespace fold8::kernels::simd {

template <class Arch>
struct DepthwiseAvx2 {
  static constexpr std::size_t kLanes = 16, kEntryBytes = 128;
  static constexpr bool kPacksOutputs = false, kShortEpilogue = false;

  // Channels keep their order; a block is a panel.
  static std::size_t lane_of(std::size_t slot) { return slot; }
  struct Places {};
  template <class Offset>
  static Places places(const DepthwiseBlock&, Offset&&) {
    return {};
  }
  static void set_weights(const Places&, const std::int8_t* group, std::uint8_t* to) {
    avx2_engine::expand_panel<Arch>(group, 1, reinterpret_cast<std::int8_t*>(to));
  }

  // 16 bytes of which `width` count; the others may be anything.
  [[gnu::always_inline]] static __m128i load(const std::uint8_t* from, std::size_t width,
                                             const std::uint8_t* end) {
    if (width == 16 || from + 16 <= end)
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    alignas(16) std::uint8_t bytes[16] = {};
    for (std::size_t i = 0; i < width; ++i) bytes[i] = from[i];
    return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
  }

  template <class Load>
  [[gnu::always_inline]] static void interleave(Load&& load, std::uint8_t* to) {
    __m256i* out = reinterpret_cast<__m256i*>(to);
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; ++odd) {
      const __m128i v = load(odd), u = load(odd + 2);
      _mm256_store_si256(out + 2 * odd, _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(v, u)));
      _mm256_store_si256(out + 2 * odd + 1, _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(v, u)));
    }
  }
  // `count` entries `distance` positions apart from `at` on, whose sources all lie inside the line.
  static void inner_entries(const DepthwiseBlock& b, const DepthwiseSources& s, std::int64_t at,
                            std::int64_t distance, std::int64_t count, std::uint8_t* to) {
    const std::size_t width = b.width;  // copies that stores through `to` cannot touch
    const std::uint8_t* const end = s.end;
    const std::uint8_t* from[4];
    std::int64_t step[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      from[r] = s.from[r] + ((at * s.channels) & s.inside[r]);
      step[r] = (distance * s.channels) & s.inside[r];
    }
    for (; count > 0; --count, to += kEntryBytes) {
      interleave(
          [&](int r) __attribute__((always_inline)) { return load(from[r], width, end); }, to);
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) from[r] += step[r];
    }
  }
  // One entry that may reach into the padding.
  [[gnu::noinline]] static void edge_entry(const DepthwiseBlock& b, const DepthwiseSources& s,
                                           std::int64_t at, std::uint8_t* to) {
    const auto source = [&](int r) {
      const std::int64_t p = at + r * s.apart;
      if (s.inside[r] == 0 || p < 0 || p >= s.in) return _mm_set1_epi8(static_cast<char>(s.fill));
      return load(s.from[r] + at * s.channels, b.width, s.end);
    };
    interleave(source, to);
  }

  using Vectors = __m256i[2];

  template <int kGroups>
  [[gnu::always_inline]] static void sums(const DepthwiseChunk& c, const std::uint8_t* weights,
                                          const std::int32_t* init, std::size_t first,
                                          Vectors (&acc)[kGroups]) {
    const auto vector = [](const void* p) {
      return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
    };
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h)
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) acc[g][h] = vector(init + 8 * h);
    const std::uint8_t* row = c.entries + first * c.group_step * kEntryBytes;
    for (std::size_t p = 0; p < c.rows; ++p, row += c.row_entries * kEntryBytes) {
      const std::uint8_t* at = row;
      for (std::size_t t = 0; t < c.reach;
           ++t, at += c.reach_step * kEntryBytes, weights += kEntryBytes) {
#pragma GCC unroll 4
        for (int part = 0; part < 4; ++part) {
          const __m256i w = vector(weights + 32 * part);
#pragma GCC unroll 4
          for (int g = 0; g < kGroups; ++g) {
            const __m256i x =
                vector(at + static_cast<std::size_t>(g) * c.group_step * kEntryBytes + 32 * part);
            acc[g][part % 2] = _mm256_add_epi32(acc[g][part % 2], _mm256_madd_epi16(x, w));
          }
        }
      }
    }
  }

  [[gnu::always_inline]] static void store(const Vectors& v, std::int32_t* acc) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(acc), v[0]);
    _mm256_store_si256(reinterpret_cast<__m256i*>(acc + 8), v[1]);
  }
};

}  // namespace fold8::kernels::simd
