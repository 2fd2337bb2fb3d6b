// The AVX-512 engine of the INT8 matrix product, for CPUs without VNNI: gemm_u8s8_avx2.h with one
// vector for the 16 columns of a panel, and the same two orders of x and w. Up to 12 rows x 1
// panel. Include only from gemm_u8s8_simd.h.
#pragma once

#include <cstring>
#include <utility>

#include "runtime/kernels/gemm_u8s8_tile.h"

#ifdef __AVX512F__
namespace fold8::kernels::simd {

namespace avx512_engine {

template <class Arch, int kRows, bool kExpanded>
[[gnu::noinline]] void tile(const TileU8S8& t) {
  constexpr int kBases = (kRows + 2) / 3;  // one pointer per 3 rows keeps addresses in registers
  __m512i acc[kRows][1];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) acc[r][0] = _mm512_load_si512(t.init);
  const std::uint8_t* x[kBases];
  const std::size_t stride = t.x_stride, run_groups = s8_groups(t.k);
  const std::int8_t* w = t.w;

  const auto multiply = [&](__m512i pairs, int offset) __attribute__((always_inline)) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      std::int32_t pair;
      std::memcpy(&pair, x[r / 3] + (r % 3) * stride + offset, 4);
      acc[r][0] = _mm512_add_epi32(acc[r][0], _mm512_madd_epi16(_mm512_set1_epi32(pair), pairs));
      asm("" : "+v"(acc[r][0]));  // else g++ adds the products of two steps first, and spills them
    }
  };
  const std::ptrdiff_t* offset = t.run_offsets;
  for (std::size_t run = t.runs; run > 0; --run, ++offset) {
#pragma GCC unroll 4
    for (int b = 0; b < kBases; ++b) x[b] = t.x + *offset + 3 * b * stride;
    for (std::size_t groups = run_groups; groups > 0; --groups) {
      if constexpr (kExpanded) {
        multiply(_mm512_load_si512(w), 0);
        multiply(_mm512_load_si512(w + 64), 4);
        w += 128;
      } else {
        const __m512i v = _mm512_load_si512(w);
        multiply(_mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8), 0);
        multiply(_mm512_srai_epi16(v, 8), 4);
        w += 64;
      }
#pragma GCC unroll 4
      for (int b = 0; b < kBases; ++b) x[b] += 8;
    }
  }

  if (t.fast != nullptr) {
    epilogue_u8_tile<kRows, 1>(*t.fast, t.m, t.n, acc, t.columns);
  } else {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) _mm512_store_si512(t.acc + 16 * r, acc[r][0]);
  }
}

template <class Arch, bool kExpanded, int... kRows>
constexpr TileU8S8Fn* tile_at(std::size_t index, std::integer_sequence<int, kRows...>) {
  constexpr TileU8S8Fn* kTiles[] = {&tile<Arch, kRows, kExpanded>...};
  return kTiles[index];
}

}  // namespace avx512_engine

template <class Arch>
struct EngineAvx512 {
  static constexpr bool kWidened = true;
  static constexpr std::size_t kMaxPanels = 1;
  static constexpr std::size_t kExpandFrom = 36;  // rows from which expanding a panel pays
  static constexpr std::size_t max_rows(std::size_t) { return 12; }
  // Tiles of 1, 3 and of whole pairs of rows.
  static constexpr std::size_t row_step(std::size_t) { return 2; }
  static constexpr std::size_t height(std::size_t rows, std::size_t) {
    return rows > 3 ? rows / 2 * 2 : rows;
  }

  static TileU8S8Fn* tile(std::size_t rows, bool expanded) {
    constexpr std::integer_sequence<int, 1, 2, 3, 4, 6, 8, 10, 12> kRows{};
    const std::size_t index = rows < 4 ? rows - 1 : rows / 2 + 1;
    return expanded ? avx512_engine::tile_at<Arch, true>(index, kRows)
                    : avx512_engine::tile_at<Arch, false>(index, kRows);
  }
};

}  // namespace fold8::kernels::simd
#endif
