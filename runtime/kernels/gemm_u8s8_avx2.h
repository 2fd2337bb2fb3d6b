// The AVX2 engine of the INT8 matrix product: exact, by vpmaddwd on 16-bit numbers. Up to 6 rows x
// 1 panel. Rows of x are widened to 16 bits in scratch, in one of two orders:
//   few rows:   a group b0 b1 b2 b3 becomes the pairs (b0, b2) and (b1, b3): the same pairs of
//               weights come out of a panel as it lies by one or two shifts;
//   many rows:  as they lie. A panel is expanded once into scratch, to the pairs (b0, b1), (b2,
//   b3).
// Include only from gemm_u8s8_simd.h.
#pragma once

#include <cstring>
#include <utility>

#include "runtime/kernels/gemm_u8s8_tile.h"

namespace fold8::kernels::simd {

namespace avx2_engine {

// n bytes at x to 16 bits each, in their order.
template <class Arch>
void widen(const std::uint8_t* x, std::size_t n, std::uint8_t* out) {
  const auto step = [&](std::size_t i) __attribute__((always_inline)) {
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(out + 2 * i),
        _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  };
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) step(i);
  if (i == n) return;
  if (n >= 16) return step(n - 16);
  for (; i < n; ++i) out[2 * i] = x[i], out[2 * i + 1] = 0;
}

// Groups of x in pairs: k bytes at x, the missing ones of the last group become 0. out: 8 bytes a
// group.
template <class Arch>
void widen_pairs(const std::uint8_t* x, std::size_t k, std::uint8_t* out) {
  const __m256i low_bytes = _mm256_set1_epi16(0x00ff);
  const auto widen = [&](__m256i v, __m256i * to) __attribute__((always_inline)) {
    const __m256i even = _mm256_and_si256(v, low_bytes), odd = _mm256_srli_epi16(v, 8);
    const __m256i a = _mm256_unpacklo_epi32(even, odd), b = _mm256_unpackhi_epi32(even, odd);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(a, b, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(a, b, 0x31));
  };
  std::size_t i = 0;
  for (; i + 32 <= k; i += 32)
    widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i)),
          reinterpret_cast<__m256i*>(out + 2 * i));
  if (i < k) {
    alignas(32) std::uint8_t last[32] = {};
    alignas(32) std::uint8_t wide[64];
    std::memcpy(last, x + i, k - i);
    widen(_mm256_load_si256(reinterpret_cast<const __m256i*>(last)),
          reinterpret_cast<__m256i*>(wide));
    std::memcpy(out + 2 * i, wide, s8_groups(k - i) * 8);
  }
}

// 128 bytes a group: pairs (b0, b2) of columns 0..7, 8..15, then pairs (b1, b3). For depthwise.
template <class Arch>
void expand_panel(const std::int8_t* w, std::size_t groups, std::int8_t* out) {
  for (; groups > 0; --groups, w += 64, out += 128) {
    const __m256i a = _mm256_load_si256(reinterpret_cast<const __m256i*>(w));
    const __m256i b = _mm256_load_si256(reinterpret_cast<const __m256i*>(w + 32));
    __m256i* to = reinterpret_cast<__m256i*>(out);
    _mm256_store_si256(to, _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8));
    _mm256_store_si256(to + 1, _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
    _mm256_store_si256(to + 2, _mm256_srai_epi16(a, 8));
    _mm256_store_si256(to + 3, _mm256_srai_epi16(b, 8));
  }
}

// 128 bytes a group: pairs (b0, b1) of columns 0..7, 8..15, then pairs (b2, b3).
template <class Arch>
void expand_in_order(const std::int8_t* w, std::size_t groups, std::int8_t* out) {
  const __m256i low = _mm256_set1_epi32(0x01800080),  // bytes 0 and 1 of a group, each on top
      lanes = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808,
                                0x0c0c0c0c);
  const __m256i first =
                    _mm256_or_si256(low, _mm256_and_si256(lanes, _mm256_set1_epi32(0x0f000f00))),
                second = _mm256_add_epi8(first, _mm256_set1_epi32(0x02000200));
  const auto spread = [](__m256i v, __m256i order) __attribute__((always_inline)) {
    return _mm256_srai_epi16(_mm256_shuffle_epi8(v, order), 8);
  };
  for (; groups > 0; --groups, w += 64, out += 128) {
    const __m256i a = _mm256_load_si256(reinterpret_cast<const __m256i*>(w));
    const __m256i b = _mm256_load_si256(reinterpret_cast<const __m256i*>(w + 32));
    __m256i* to = reinterpret_cast<__m256i*>(out);
    _mm256_store_si256(to, spread(a, first));
    _mm256_store_si256(to + 1, spread(b, first));
    _mm256_store_si256(to + 2, spread(a, second));
    _mm256_store_si256(to + 3, spread(b, second));
  }
}

// kHalf: at most 8 columns are valid; the sums of the others are never made.
template <class Arch, int kRows, bool kExpanded, bool kHalf = false>
[[gnu::noinline]] void tile(const TileU8S8& t) {
  constexpr int kBases = (kRows + 2) / 3;
  __m256i acc[kRows][2];
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    const __m256i init = _mm256_load_si256(reinterpret_cast<const __m256i*>(t.init + 8 * h));
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) acc[r][h] = init;
  }
  const std::uint8_t* x[kBases];
  const std::size_t stride = t.x_stride, run_groups = s8_groups(t.k);
  const std::int8_t* w = t.w;

  const auto multiply = [&](__m256i w0, __m256i w1, int offset) __attribute__((always_inline)) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      std::int32_t pair;
      std::memcpy(&pair, x[r / 3] + (r % 3) * stride + offset, 4);
      const __m256i a = _mm256_set1_epi32(pair);
      acc[r][0] = _mm256_add_epi32(acc[r][0], _mm256_madd_epi16(a, w0));
      if constexpr (kHalf) continue;
      acc[r][1] = _mm256_add_epi32(acc[r][1], _mm256_madd_epi16(a, w1));
      asm(""
          : "+x"(acc[r][0]),
            "+x"(acc[r][1]));  // else g++ adds the products of two steps first, and spills them
    }
  };
  const auto load = [](const std::int8_t* p) __attribute__((always_inline)) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
  };
  const std::ptrdiff_t* offset = t.run_offsets;
  for (std::size_t run = t.runs; run > 0; --run, ++offset) {
#pragma GCC unroll 2
    for (int b = 0; b < kBases; ++b) x[b] = t.x + *offset + 3 * b * stride;
    for (std::size_t groups = run_groups; groups > 0; --groups) {
      if constexpr (kExpanded) {
        multiply(load(w), load(w + 32), 0);
        multiply(load(w + 64), load(w + 96), 4);
        w += 128;
      } else {
        multiply(_mm256_srai_epi16(_mm256_slli_epi16(load(w), 8), 8),
                 _mm256_srai_epi16(_mm256_slli_epi16(load(w + 32), 8), 8), 0);
        asm("" : "+r"(w));  // load again rather than keep: all 16 registers are taken
        multiply(_mm256_srai_epi16(load(w), 8), _mm256_srai_epi16(load(w + 32), 8), 4);
        w += 64;
      }
#pragma GCC unroll 2
      for (int b = 0; b < kBases; ++b) x[b] += 8;
    }
  }

  if (t.fast != nullptr) {
    epilogue_u8_tile<kRows>(*t.fast, t.m, t.n, acc, t.columns);
  } else {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h)
        _mm256_store_si256(reinterpret_cast<__m256i*>(t.acc + 16 * r + 8 * h), acc[r][h]);
  }
}

template <class Arch, bool kExpanded, bool kHalf = false, int... kRowsMinusOne>
constexpr TileU8S8Fn* tile_for(std::size_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
  constexpr TileU8S8Fn* kTiles[] = {&tile<Arch, kRowsMinusOne + 1, kExpanded, kHalf>...};
  return kTiles[rows - 1];
}

}  // namespace avx2_engine

template <class Arch>
struct EngineAvx2 {
  static constexpr bool kWidened = true;
  static constexpr std::size_t kMaxPanels = 1;
  static constexpr std::size_t kExpandFrom = 18;  // rows from which expanding a panel pays
  static constexpr std::size_t max_rows(std::size_t) { return 6; }
  static constexpr std::size_t row_step(std::size_t) { return 1; }
  static constexpr std::size_t height(std::size_t rows, std::size_t) { return rows; }

  // Of an expanded panel with at most 8 columns.
  static TileU8S8Fn* half_tile(std::size_t rows) {
    return avx2_engine::tile_for<Arch, true, true>(rows, std::make_integer_sequence<int, 6>{});
  }

  static TileU8S8Fn* tile(std::size_t rows, bool expanded) {
    constexpr auto kRows = std::make_integer_sequence<int, 6>{};
    return expanded ? avx2_engine::tile_for<Arch, true>(rows, kRows)
                    : avx2_engine::tile_for<Arch, false>(rows, kRows);
  }
};

}  // namespace fold8::kernels::simd
