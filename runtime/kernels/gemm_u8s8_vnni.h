// The AVX-512 VNNI engine of the INT8 matrix product: vpdpbusd multiplies 4 neighbouring k of one
// row (broadcast) with 4 k of 16 columns (one load of a panel). Up to 24 accumulators: 6 rows x 4
// panels, 8 x 3, 12 x 2, 12 x 1. Include only from gemm_u8s8_simd.h.
#pragma once

#include <utility>

#include "runtime/kernels/gemm_u8s8_tile.h"

#ifdef __AVX512VNNI__
namespace fold8::kernels::simd {

namespace vnni {

// kHalf: at most 8 columns of the last panel are valid. Then one vector holds them for two rows,
// and its two halves are multiplied with the bytes of one row each.
template <class Arch, int kRows, int kPanels, bool kHalf = false>
[[gnu::noinline]] void tile(const TileU8S8& t) {
  // Few accumulators would wait for each other: then several groups of k get their own.
  constexpr int kUnroll = kRows * kPanels <= 4 ? 4 : kRows * kPanels <= 8 ? 2 : 1;
  constexpr int kBases = (kRows + 2) / 3;  // one pointer per 3 rows keeps addresses in registers
  __m512i acc[kUnroll][kRows][kPanels];
#pragma GCC unroll 4
  for (int v = 0; v < kPanels; ++v) {
    __m512i init = _mm512_load_si512(t.init + 16 * v);
    if (kHalf && v == kPanels - 1) init = _mm512_shuffle_i64x2(init, init, 0x44);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) acc[0][r][v] = init;
#pragma GCC unroll 4
    for (int u = 1; u < kUnroll; ++u)
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) acc[u][r][v] = _mm512_setzero_si512();
  }
  const std::uint8_t* x[kBases];
  const std::int8_t* w = t.w;
  const std::size_t stride = t.x_stride, panel = t.panel_bytes;

  const auto multiply = [&](int u, const std::int8_t* group, auto&& load)
      __attribute__((always_inline)) {
    constexpr int kWhole = kHalf ? kPanels - 1 : kPanels;
    __m512i b[kPanels], before = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int v = 0; v < kWhole; ++v) {
      b[v] = _mm512_load_si512(group + v * panel);
      if (kRows > 1) asm("" : "+v"(b[v]));  // one load, not one per row
    }
    if constexpr (kHalf)
      b[kWhole] = _mm512_broadcast_i64x4(
          _mm256_load_si256(reinterpret_cast<const __m256i*>(group + kWhole * panel)));
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512i a = _mm512_set1_epi32(load(x[r / 3] + (r % 3) * stride));
#pragma GCC unroll 4
      for (int v = 0; v < kWhole; ++v) acc[u][r][v] = _mm512_dpbusd_epi32(acc[u][r][v], a, b[v]);
      if (kHalf && (r % 2 == 1 || r == kRows - 1)) {
        const __m512i both = r % 2 == 1 ? _mm512_mask_blend_epi32(0xff00, before, a) : a;
        acc[u][r & ~1][kWhole] = _mm512_dpbusd_epi32(acc[u][r & ~1][kWhole], both, b[kWhole]);
      }
      before = a;
    }
  };
  const auto advance = [&](std::size_t groups) __attribute__((always_inline)) {
    w += 64 * groups;
#pragma GCC unroll 4
    for (int b = 0; b < kBases; ++b) x[b] += 4 * groups;
  };
  const std::size_t run_groups = t.k / 4, tail = t.k % 4;
  const std::ptrdiff_t* offset = t.run_offsets;
  for (std::size_t run = t.runs; run > 0; --run, ++offset) {
#pragma GCC unroll 4
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
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < kPanels; ++v) acc[0][r][v] = _mm512_add_epi32(acc[0][r][v], acc[u][r][v]);

  if constexpr (kHalf)
#pragma GCC unroll 6
    for (int r = 1; r < kRows; r += 2)
      acc[0][r][kPanels - 1] =
          _mm512_shuffle_i64x2(acc[0][r - 1][kPanels - 1], acc[0][r - 1][kPanels - 1], 0xee);
  if (t.fast != nullptr) {
    epilogue_u8_tile<kRows, kPanels>(*t.fast, t.m, t.n, acc[0], t.columns);
  } else {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < kPanels; ++v)
        _mm512_store_si512(t.acc + (r * kPanels + v) * 16, acc[0][r][v]);
  }
}

// Rows upon rows against one panel whose groups of k registers hold: kRuns runs of 4 * kGroups
// bytes.
inline constexpr std::size_t kColumnRows = 12;
template <class Arch, int kRuns, int kGroups>
[[gnu::noinline]] void column(const TileU8S8& tile, std::size_t rows) {
  constexpr int kRows = static_cast<int>(kColumnRows);
  if (tile.fast->residual != nullptr) __builtin_unreachable();
  const std::size_t stride = tile.x_stride;
  const std::uint8_t* at = tile.x;
  std::size_t m = tile.m;
  __m512i w[kRuns * kGroups];
#pragma GCC unroll 9
  for (int i = 0; i < kRuns * kGroups; ++i) {
    w[i] = _mm512_load_si512(tile.w + 64 * i);
    asm("" : "+v"(w[i]));  // one load, not one per tile
  }
  std::ptrdiff_t offset[kRuns];
  for (int run = 0; run < kRuns; ++run) offset[run] = tile.run_offsets[run];
  const __m512i init = _mm512_load_si512(tile.init);
  for (; rows >= kColumnRows; rows -= kColumnRows, m += kColumnRows, at += kColumnRows * stride) {
    __m512i acc[kRows][1];
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) acc[r][0] = init;
#pragma GCC unroll 3
    for (int run = 0; run < kRuns; ++run) {
      const std::uint8_t* x[kRows / 3];
#pragma GCC unroll 4
      for (int b = 0; b < kRows / 3; ++b) x[b] = at + offset[run] + 3 * b * stride;
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g)
#pragma GCC unroll 12
        for (int r = 0; r < kRows; ++r)
          acc[r][0] = _mm512_dpbusd_epi32(
              acc[r][0], _mm512_set1_epi32(load_group(x[r / 3] + (r % 3) * stride + 4 * g)),
              w[run * kGroups + g]);
    }
    epilogue_u8_tile<kRows, 1>(*tile.fast, m, tile.n, acc, tile.columns);
  }
}

// One panel or two: few layers are that narrow, and most of them have many rows. Tiles of 1, 2, 3
// and of whole fours are enough; the others would be code for nothing.
constexpr bool is_narrow(std::size_t panels) { return panels <= 2; }

template <class Arch, int kPanels, bool kHalf = false, int... kRows>
constexpr TileU8S8Fn* tile_at(std::size_t index, std::integer_sequence<int, kRows...>) {
  constexpr TileU8S8Fn* kTiles[] = {&tile<Arch, kRows, kPanels, kHalf>...};
  return kTiles[index];
}

template <class Arch, int kPanels, bool kHalf = false>
constexpr TileU8S8Fn* narrow_tile(std::size_t rows) {
  static_assert(is_narrow(kPanels));
  return tile_at<Arch, kPanels, kHalf>(rows < 4 ? rows - 1 : rows / 4 + 2,
                                       std::integer_sequence<int, 1, 2, 3, 4, 8, 12>{});
}

}  // namespace vnni

template <class Arch>
struct EngineVnni {
  static constexpr bool kWidened = false;
  static constexpr std::size_t kMaxPanels = 4;
  static constexpr std::size_t max_rows(std::size_t panels) {
    return panels == 4 ? 6 : panels == 3 ? 8 : 12;
  }
  // Rows that finish together.
  static constexpr std::size_t row_step(std::size_t panels) {
    return vnni::is_narrow(panels) ? 4 : 1;
  }
  // The highest tile there is for at most so many rows.
  static constexpr std::size_t height(std::size_t rows, std::size_t panels) {
    return vnni::is_narrow(panels) && rows > 4 ? rows / 4 * 4 : rows;
  }

  // For whole twelves of rows against one panel with the short epilogue, or null: kernels of 3 x 3
  // over 3 channels, and 16 channels.
  using ColumnFn = void(const TileU8S8&, std::size_t rows);
  static constexpr std::size_t kColumnRows = vnni::kColumnRows;
  static ColumnFn* column(std::size_t runs, std::size_t run_depth) {
    if (runs == 3 && run_depth == 12) return &vnni::column<Arch, 3, 3>;
    if (runs == 1 && run_depth == 16) return &vnni::column<Arch, 1, 4>;
    return nullptr;
  }

  // Of two panels, where the second one has at most 8 columns.
  static TileU8S8Fn* half_tile(std::size_t rows) { return vnni::narrow_tile<Arch, 2, true>(rows); }

  static TileU8S8Fn* tile(std::size_t rows, std::size_t panels) {
    switch (panels) {
      case 4:
        return vnni::tile_at<Arch, 4>(rows - 1, std::integer_sequence<int, 1, 2, 3, 4, 5, 6>{});
      case 3:
        return vnni::tile_at<Arch, 3>(rows - 1,
                                      std::integer_sequence<int, 1, 2, 3, 4, 5, 6, 7, 8>{});
      case 2:
        return vnni::narrow_tile<Arch, 2>(rows);
      default:
        return vnni::narrow_tile<Arch, 1>(rows);
    }
  }
};

}  // namespace fold8::kernels::simd
#endif
