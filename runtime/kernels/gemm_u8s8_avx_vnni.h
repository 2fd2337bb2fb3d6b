// The AVX-VNNI engine of the INT8 matrix product: gemm_u8s8_vnni.h with 16 registers of 8 sums. A
// panel is two vectors; up to 6 rows x 1 panel. Include only from gemm_u8s8_simd.h.
#pragma once

#include <utility>

#include "runtime/kernels/gemm_u8s8_tile.h"

#ifdef __AVXVNNI__
namespace fold8::kernels::simd {

namespace avx_vnni {

template <class Arch, int kRows>
[[gnu::noinline]] void tile(const TileU8S8& t) {
  // Few accumulators would wait for each other: then several groups of k get their own.
  constexpr int kUnroll = kRows == 1 ? 4 : kRows <= 3 ? 2 : 1;
  constexpr int kBases = (kRows + 2) / 3;  // one pointer per 3 rows keeps addresses in registers
  const auto vector = [](const void* p) __attribute__((always_inline)) {
    return _mm256_load_si256(static_cast<const __m256i*>(p));
  };
  __m256i acc[kUnroll][kRows][2];
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    const __m256i init = vector(t.init + 8 * h);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) acc[0][r][h] = init;
#pragma GCC unroll 4
    for (int u = 1; u < kUnroll; ++u)
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) acc[u][r][h] = _mm256_setzero_si256();
  }
  const std::uint8_t* x[kBases];
  const std::int8_t* w = t.w;
  const std::size_t stride = t.x_stride;

  const auto multiply = [&](int u, const std::int8_t* group, auto&& load)
      __attribute__((always_inline)) {
    const __m256i w0 = vector(group), w1 = vector(group + 32);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m256i a = _mm256_set1_epi32(load(x[r / 3] + (r % 3) * stride));
      acc[u][r][0] = _mm256_dpbusd_avx_epi32(acc[u][r][0], a, w0);
      acc[u][r][1] = _mm256_dpbusd_avx_epi32(acc[u][r][1], a, w1);
    }
  };
  const auto advance = [&](std::size_t groups) __attribute__((always_inline)) {
    w += 64 * groups;
#pragma GCC unroll 2
    for (int b = 0; b < kBases; ++b) x[b] += 4 * groups;
  };
  const std::size_t run_groups = t.k / 4, tail = t.k % 4;
  const std::ptrdiff_t* offset = t.run_offsets;
  for (std::size_t run = t.runs; run > 0; --run, ++offset) {
#pragma GCC unroll 2
    for (int b = 0; b < kBases; ++b) x[b] = t.x + *offset + 3 * b * stride;
    std::size_t groups = run_groups;
    for (; groups >= kUnroll; groups -= kUnroll) {
#pragma GCC unroll 4
      for (int u = 0; u < kUnroll; ++u)
        multiply(u, w + 64 * u, [u](const std::uint8_t* p) { return load_group(p + 4 * u); });
      advance(kUnroll);
    }
    for (; kUnroll > 1 && groups > 0; --groups) {
      multiply(0, w, load_group);
      advance(1);
    }
    if (tail != 0) {
      multiply(0, w, [tail](const std::uint8_t* p) { return load_tail(p, tail); });
      w += 64;
    }
  }

#pragma GCC unroll 4
  for (int u = 1; u < kUnroll; ++u)
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) acc[0][r][h] = _mm256_add_epi32(acc[0][r][h], acc[u][r][h]);

  if (t.fast != nullptr) {
    epilogue_u8_tile<kRows>(*t.fast, t.m, t.n, acc[0], t.columns);
  } else {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h)
        _mm256_store_si256(reinterpret_cast<__m256i*>(t.acc + 16 * r + 8 * h), acc[0][r][h]);
  }
}

template <class Arch, int... kRowsMinusOne>
constexpr TileU8S8Fn* tile_for(std::size_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
  constexpr TileU8S8Fn* kTiles[] = {&tile<Arch, kRowsMinusOne + 1>...};
  return kTiles[rows - 1];
}

}  // namespace avx_vnni

template <class Arch>
struct EngineAvxVnni {
  static constexpr bool kWidened = false;
  static constexpr std::size_t kMaxPanels = 1;
  static constexpr std::size_t max_rows(std::size_t) { return 6; }
  static constexpr std::size_t row_step(std::size_t) { return 1; }
  static constexpr std::size_t height(std::size_t rows, std::size_t) { return rows; }

  static TileU8S8Fn* tile(std::size_t rows, std::size_t) {
    return avx_vnni::tile_for<Arch>(rows, std::make_integer_sequence<int, 6>{});
  }
};

}  // namespace fold8::kernels::simd
#endif
