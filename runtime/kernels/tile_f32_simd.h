// The f32 register tile under gemm_f32, matmul_f32 and conv_f32: R rows by kCols vectors of
// columns, of panels of 16 columns; one FMA chain each. Include only from *_simd.h.
#pragma once

#include <cstddef>

#include "runtime/kernels/gemm_f32_block.h"
#include "runtime/kernels/lanes_simd.h"
#include "runtime/kernels/pack_f32.h"
#include "runtime/kernels/store_f32_simd.h"

namespace fold8::kernels::simd {

// What a tile sums over: `taps` runs of `depth` products. Run t reads depth floats of row r from
// rows[t * R + r] + offset, or from rows[t] + r * row_step + offset if the rows are `even`ly apart,
// and weights  w + w_offsets[t] + k * w_step + p * panel_stride + (0 .. 15).
struct TileF32 {
  std::size_t taps = 1, depth = 0;
  bool even = true;
  const float* const* rows = nullptr;  // even ? [taps] : [taps][R]
  std::size_t offset = 0, row_step = 0;
  const float* w = nullptr;
  const std::size_t* w_offsets = nullptr;  // [taps]
  std::size_t w_step = kPanelF32, panel_stride = 0;
  float* acc = nullptr;  // [R][acc_stride], 64-byte aligned rows; scratch where `store` is set
  std::size_t acc_stride = 0;
  bool first = true;                // start from +0 instead of acc
  const StoreF32* store = nullptr;  // the chains end here
};
using tile_f32_fn = void(const TileF32& t);

// The rows of a tile as the loop over k reads them: a pointer each, ...
template <int R, bool kBases>
struct RowsF32 {
  const float* x[R];
  [[gnu::always_inline]] RowsF32(const TileF32& t, std::size_t tap) {
    if (t.even) {
      const float* row = t.rows[tap] + t.offset;
#pragma GCC unroll 24
      for (int r = 0; r < R; ++r) x[r] = row + static_cast<std::size_t>(r) * t.row_step;
    } else {
#pragma GCC unroll 24
      for (int r = 0; r < R; ++r) x[r] = t.rows[tap * R + r] + t.offset;
    }
  }
  [[gnu::always_inline]] float at(int r, std::size_t k) const { return x[r][k]; }
  [[gnu::always_inline]] void next() {}
};
// ... or one for three rows that are evenly apart, else a tall tile runs out of registers.
template <int R>
struct RowsF32<R, true> {
  static constexpr int kCount = (R + 2) / 3;
  const float* x[kCount];
  std::size_t step;
  [[gnu::always_inline]] RowsF32(const TileF32& t, std::size_t tap) : step(t.row_step) {
#pragma GCC unroll 24
    for (int i = 0; i < kCount; ++i)
      x[i] = t.rows[tap] + t.offset + static_cast<std::size_t>(3 * i) * step;
  }
  [[gnu::always_inline]] float at(int r, std::size_t) const {
    return x[r / 3][static_cast<std::size_t>(r % 3) * step];
  }
  [[gnu::always_inline]] void next() {
#pragma GCC unroll 24
    for (int i = 0; i < kCount; ++i) {
      ++x[i];
      asm("" : "+r"(x[i]));  // keeps the compiler from making a pointer per row of it again
    }
  }
};

// kBases: even rows only.
template <class Arch, int R, int kCols, bool kBases>
void tile_f32(const TileF32& t) {
  using batch = typename Arch::f32;
  constexpr int kWidth = static_cast<int>(batch::size);
  constexpr int kPerPanel = static_cast<int>(kPanelF32) / kWidth;
  batch c[R][kCols];
  each_register<R, kCols>([&](int r, int j) __attribute__((always_inline)) {
    c[r][j] = t.first ? batch(0.0f) : batch::load_aligned(t.acc + r * t.acc_stride + j * kWidth);
  });
  const std::size_t step = t.w_step, panel = t.panel_stride;
  for (std::size_t tap = 0; tap < t.taps; ++tap) {
    RowsF32<R, kBases> x(t, tap);
    const float* w = t.w + t.w_offsets[tap];
    const std::size_t depth = t.depth;
    for (std::size_t k = 0; k < depth; ++k, w += step, x.next()) {
      asm("" : "+r"(w));  // in a register here, not in memory as the compiler may prefer
      batch b[kCols];
#pragma GCC unroll 24
      for (int j = 0; j < kCols; ++j)
        b[j] = batch::load_unaligned(w + (j / kPerPanel) * panel + (j % kPerPanel) * kWidth);
#pragma GCC unroll 24
      for (int r = 0; r < R; ++r) {
        const batch a(x.at(r, k));
#pragma GCC unroll 24
        for (int j = 0; j < kCols; ++j) c[r][j] = Lanes<batch>::fma(a, b[j], c[r][j]);
      }
    }
  }
  if (t.store && store_tile_f32<Arch, R, kCols>(*t.store, c)) return;
  each_register<R, kCols>([&](int r, int j) __attribute__((always_inline)) {
    c[r][j].store_aligned(t.acc + r * t.acc_stride + j * kWidth);
  });
  if (t.store) store_memory_f32<Arch>(*t.store, t.acc, t.acc_stride, R);
}

// The tile shapes a target has: 24 (AVX-512) or 12 (AVX2) accumulators hide the FMA latency and
// leave registers for the operands; a single row streams several panels for the same reason.
template <class Arch>
struct TileShapes {
  static constexpr bool kWide = Arch::f32::size == 16;
  static constexpr std::size_t kMaxVectors = 8;
  static constexpr std::size_t kMaxRows = kWide ? 24 : 12;

  // How many vectors of a tile `columns` of at most 8 panels need. With AVX2 the right half of a
  // panel is left out only if it is the only one.
  static constexpr std::size_t vectors(std::size_t columns) {
    const std::size_t panels = (columns + kPanelF32 - 1) / kPanelF32;
    return kWide ? panels : columns <= 8 ? 1 : 2 * panels;
  }
  static constexpr std::size_t max_rows(std::size_t vectors) {
    if (kWide)
      return vectors == 1 ? 24 : vectors == 2 ? 12 : vectors == 3 ? 8 : vectors == 4 ? 6 : 1;
    return vectors == 1 ? 12 : vectors == 2 ? 6 : vectors <= 4 ? 3 : vectors <= 6 ? 2 : 1;
  }
  // Of rows that are not evenly apart: tall tiles run out of registers for their pointers.
  static constexpr std::size_t max_loose_rows(std::size_t vectors) {
    return max_rows(vectors) > 6 ? 6 : max_rows(vectors);
  }
  // Up to so many rows matmul_f32 reads its right side unpacked.
  static constexpr std::size_t kInPlaceRows = 6;

  // How many panels to take at once for so many rows, at most.
  static constexpr std::size_t panels_for(std::size_t rows) {
    if (kWide) return rows == 1 ? 8 : 4;
    return rows == 1 ? 4 : rows == 2 ? 3 : rows == 3 ? 2 : 1;
  }
  // The tile of `rows` <= max_rows(vectors), if loose <= max_loose_rows(vectors).
  static tile_f32_fn* pick(std::size_t rows, std::size_t vectors) {
    return kTiles.at[vectors - 1][rows - 1];
  }

 private:
  struct Table {
    tile_f32_fn* at[kMaxVectors][kMaxRows];
  };
  template <int kCols, int R>
  static constexpr void fill(Table& t) {
    t.at[kCols - 1][R - 1] = &tile_f32<Arch, R, kCols, (R > 6)>;
    if constexpr (R < static_cast<int>(max_rows(kCols)))
      fill<kCols, R + 1>(t);
    else if constexpr (kCols < static_cast<int>(kMaxVectors))
      fill<(kWide || kCols == 1 ? kCols + 1 : kCols + 2), 1>(t);
  }
  static constexpr Table table() {
    Table t{};
    fill<1, 1>(t);
    return t;
  }
  static constexpr Table kTiles = table();
};

}  // namespace fold8::kernels::simd
