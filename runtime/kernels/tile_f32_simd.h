// The f32 register tile under gemm_f32, matmul_f32 and conv_f32: R rows by P panels of 16 columns,
// one FMA chain each. Include only from *_simd.h.
#pragma once

#include <cstddef>

#include "runtime/kernels/activation_generic.h"
#include "runtime/kernels/lanes_simd.h"
#include "runtime/kernels/pack_f32.h"
#include "runtime/kernels/vector_io_simd.h"

namespace fold8::kernels::simd {

// The usual epilogue (f32 out, f32 residual or none, a cheap activation or none), applied to the
// registers.
struct StoreF32 {
  float* y = nullptr;  // at the tile's first column
  std::size_t y_stride = 0;
  const float* residual = nullptr;  // likewise, or null
  std::size_t residual_stride = 0;
  float residual_scale = 1;
  const float* offset = nullptr;    // likewise, or null
  std::size_t cols = 0;             // columns from there on; a tile may reach beyond them
  std::size_t m = 0;                // row of the tile's first row, the others follow it ...
  const std::size_t* ms = nullptr;  // ... unless they are listed here
  Activation activation = Activation::none;  // none, clip or hard_swish
  bool scaled = false;
  float a = 0, b = 0, alpha = 1;  // alpha: only if scaled
};

// What a tile sums over: `taps` runs of `depth` products. Run t reads depth floats of each row from
// rows[t * R + r] + offset, and weights  w + w_offsets[t] + k * w_step + p * panel_stride + (0 ..
// 15).
struct TileF32 {
  std::size_t taps = 1, depth = 0;
  const float* const* rows = nullptr;  // [taps][R]
  std::size_t offset = 0;
  const float* w = nullptr;
  const std::size_t* w_offsets = nullptr;  // [taps]
  std::size_t w_step = kPanelF32, panel_stride = 0;
  float* acc = nullptr;  // [R][acc_stride], 64-byte aligned rows
  std::size_t acc_stride = 0;
  bool first = true;                // start from +0 instead of acc
  const StoreF32* store = nullptr;  // the chains end here: do this instead of writing acc
};
using tile_f32_fn = void(const TileF32& t);

// f on each of R x kCols registers.
template <int R, int kCols, class F>
[[gnu::always_inline]] inline void each_register(F&& f) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int j = 0; j < kCols; ++j) f(r, j);
}

// c: R rows of kCols vectors, from column n0 of the store on. One branch per kind of operation,
// none per vector. kFull: all columns are there.
template <class Arch, int R, int kCols, bool kFull>
[[gnu::always_inline]] inline void store_columns_f32(const StoreF32& s,
                                                     typename Arch::f32 (&c)[R][kCols],
                                                     std::size_t n0) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  const auto at = [n0](int j) __attribute__((always_inline)) {
    return n0 + static_cast<std::size_t>(j) * batch::size;
  };
  const auto left = [&](int j) __attribute__((always_inline)) {
    return s.cols > at(j) ? s.cols - at(j) : 0;
  };
  const auto load = [&](const float* p, int j) __attribute__((always_inline)) {
    return kFull ? batch::load_unaligned(p + at(j)) : batch(Io::load(p + at(j), left(j)));
  };
  const auto row = [&](int r) __attribute__((always_inline)) {
    return s.ms ? s.ms[r] : s.m + static_cast<std::size_t>(r);
  };
  if (s.scaled)
    each_register<R, kCols>([&](int r, int j) __attribute__((always_inline)) {
      c[r][j] = c[r][j] * batch(s.alpha);
    });
#pragma GCC unroll 16
  for (int j = 0; j < kCols; ++j) {
    const batch offset = s.offset ? load(s.offset, j) : batch(0.0f);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) c[r][j] = c[r][j] + offset;
  }
  if (s.residual)
    each_register<R, kCols>([&](int r, int j) __attribute__((always_inline)) {
      c[r][j] = Lanes<batch>::fma(load(s.residual + row(r) * s.residual_stride, j),
                                  batch(s.residual_scale), c[r][j]);
    });
  if (s.activation == Activation::clip)
    each_register<R, kCols>([&](int r, int j) __attribute__((always_inline)) {
      c[r][j] = generic::clip(c[r][j], batch(s.a), batch(s.b));
    });
  else if (s.activation == Activation::hard_swish)
    each_register<R, kCols>([&](int r, int j) __attribute__((always_inline)) {
      c[r][j] = generic::activate<Activation::hard_swish>(c[r][j], batch(s.a), batch(s.b));
    });
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    float* y = s.y + row(r) * s.y_stride;
#pragma GCC unroll 16
    for (int j = 0; j < kCols; ++j) {
      if constexpr (kFull)
        c[r][j].store_unaligned(y + at(j));
      else if (left(j) > 0)
        Io::store(y + at(j), c[r][j], left(j));
    }
  }
}

template <class Arch, int R, int kCols>
[[gnu::always_inline]] inline void store_tile_f32(const StoreF32& s,
                                                  typename Arch::f32 (&c)[R][kCols],
                                                  std::size_t n0 = 0) {
  if (n0 + kCols * Arch::f32::size <= s.cols)
    store_columns_f32<Arch, R, kCols, true>(s, c, n0);
  else
    store_columns_f32<Arch, R, kCols, false>(s, c, n0);
}

template <class Arch, int R, int P>
void tile_f32(const TileF32& t) {
  using batch = typename Arch::f32;
  constexpr int kWidth = static_cast<int>(batch::size);
  constexpr int kPerPanel = static_cast<int>(kPanelF32) / kWidth;
  constexpr int kCols = P * kPerPanel;
  batch c[R][kCols];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int j = 0; j < kCols; ++j)
      c[r][j] = t.first ? batch(0.0f) : batch::load_aligned(t.acc + r * t.acc_stride + j * kWidth);
  const std::size_t step = t.w_step, panel = t.panel_stride;
  for (std::size_t tap = 0; tap < t.taps; ++tap) {
    const float* x[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) x[r] = t.rows[tap * R + r] + t.offset;
    const float* w = t.w + t.w_offsets[tap];
    for (std::size_t k = 0; k < t.depth; ++k, w += step) {
      batch b[kCols];
#pragma GCC unroll 16
      for (int j = 0; j < kCols; ++j)
        b[j] = batch::load_unaligned(w + (j / kPerPanel) * panel + (j % kPerPanel) * kWidth);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const batch a(x[r][k]);
#pragma GCC unroll 16
        for (int j = 0; j < kCols; ++j) c[r][j] = Lanes<batch>::fma(a, b[j], c[r][j]);
      }
    }
  }
  if (t.store) return store_tile_f32<Arch, R, kCols>(*t.store, c);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int j = 0; j < kCols; ++j) c[r][j].store_aligned(t.acc + r * t.acc_stride + j * kWidth);
}

// The tile shapes a target has: 24 (AVX-512) or 12 (AVX2) accumulators hide the FMA latency and
// leave registers for the operands; a single row streams several panels for the same reason.
template <class Arch>
struct TileShapes {
  static constexpr bool kWide = Arch::f32::size == 16;
  static constexpr std::size_t kMaxPanels = kWide ? 8 : 4;
  static constexpr std::size_t kMaxRows = kWide ? 12 : 6;

  static constexpr std::size_t max_rows(std::size_t panels) {
    if (kWide) return panels <= 2 ? 12 : panels == 3 ? 8 : panels == 4 ? 6 : 1;
    return panels == 1 ? 6 : panels == 2 ? 3 : panels == 3 ? 2 : 1;
  }
  // Up to so many rows matmul_f32 reads its right side unpacked.
  static constexpr std::size_t kInPlaceRows = 6;

  // How many panels to take at once for so many rows, at most.
  static constexpr std::size_t panels_for(std::size_t rows) {
    if (kWide) return rows == 1 ? 8 : 4;
    return rows == 1 ? 4 : rows == 2 ? 3 : rows == 3 ? 2 : 1;
  }

  // The tile of `rows` <= max_rows(panels) rows and `panels` <= kMaxPanels.
  static tile_f32_fn* pick(std::size_t rows, std::size_t panels) {
    return pick_panels<1>(rows, panels);
  }

 private:
  template <int P>
  static tile_f32_fn* pick_panels(std::size_t rows, std::size_t panels) {
    if constexpr (P > static_cast<int>(kMaxPanels)) {
      return nullptr;
    } else {
      if (panels == P) return pick_rows<P, 1>(rows);
      return pick_panels<P + 1>(rows, panels);
    }
  }
  template <int P, int R>
  static tile_f32_fn* pick_rows(std::size_t rows) {
    if constexpr (R > static_cast<int>(max_rows(P))) {
      return nullptr;
    } else {
      if (rows == R) return &tile_f32<Arch, R, P>;
      return pick_rows<P, R + 1>(rows);
    }
  }
};

}  // namespace fold8::kernels::simd
