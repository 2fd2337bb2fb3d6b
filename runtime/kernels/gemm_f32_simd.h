// Vector body of gemm_f32.h. Include only from targets/*.cc.
#pragma once

#include "runtime/kernels/finish_f32_simd.h"
#include "runtime/kernels/gemm_f32.h"
#include "runtime/kernels/gemm_f32_block.h"
#include "runtime/kernels/tile_f32_simd.h"

namespace fold8::kernels::simd {

struct GemmBlockF32 {
  const float* x = nullptr;  // first row of the block
  std::size_t x_stride = 0, rows = 0, k = 0;
  const float* w = nullptr;  // first panel of the block
  std::size_t w_step = kPanelF32, panel_stride = 0, panels = 0;
  std::size_t cols = 0;        // that count; 0: all of the panels
  float* acc = nullptr;        // [rows][acc_stride]
  std::size_t acc_stride = 0;  // 0: panels * 16
  bool goes_on = false;        // the chains start from acc, not from +0
  StoreF32* store = nullptr;   // finish tile by tile: m is the block's first row
};

template <class Arch>
void gemm_block_f32(const GemmBlockF32& b) {
  using Shapes = TileShapes<Arch>;
  const std::size_t vectors = Shapes::vectors(b.cols != 0 ? b.cols : b.panels * kPanelF32),
                    most = Shapes::max_rows(vectors);
  const std::size_t tiles = (b.rows + most - 1) / most;
  const float* x = b.x;
  const std::size_t no_offset = 0;
  TileF32 t;
  t.rows = &x;
  t.row_step = b.x_stride;
  t.w_offsets = &no_offset;
  t.w_step = b.w_step;
  t.panel_stride = b.panel_stride;
  t.acc_stride = b.acc_stride != 0 ? b.acc_stride : b.panels * kPanelF32;
  t.acc = b.acc;
  for (std::size_t k0 = 0; k0 == 0 || k0 < b.k; k0 += kDepthStepF32) {
    t.first = k0 == 0 && !b.goes_on;
    t.depth = b.k - k0 < kDepthStepF32 ? b.k - k0 : kDepthStepF32;
    t.offset = k0;
    t.w = b.w + k0 * b.w_step;
    t.store = k0 + kDepthStepF32 >= b.k ? b.store : nullptr;
    for (std::size_t i = 0, r0 = 0; i < tiles; ++i) {
      const std::size_t count = (b.rows - r0 + tiles - i - 1) / (tiles - i);
      x = b.x + r0 * b.x_stride;
      if (b.k > kDepthStepF32 || !b.store) t.acc = b.acc + r0 * t.acc_stride;
      Shapes::pick(count, vectors)(t);
      r0 += count;
      if (t.store) b.store->m += count;
    }
  }
}

template <class Arch>
void gemm_f32(const GemmF32Args& args) {
  alignas(64) float acc[kBlockFloatsF32];
  GemmBlockF32 b;
  b.x_stride = args.x_stride;
  b.k = args.k;
  b.panel_stride = args.k * kPanelF32;
  b.acc = acc;
  for (std::size_t m = args.row_begin; m < args.row_end; m += b.rows) {
    b.rows = block_rows_f32(args.row_end - m, args.k, kBlockRowsF32);
    b.x = args.x + m * args.x_stride;
    const std::size_t at_once = TileShapes<Arch>::panels_for(b.rows);
    for (std::size_t p = args.panel_begin; p < args.panel_end; p += b.panels) {
      b.panels = balanced_part(args.panel_end - p, at_once);
      b.w = args.w + p * b.panel_stride;
      const std::size_t n0 = p * kPanelF32;
      const std::size_t cols = b.panels * kPanelF32;
      const std::size_t n = args.n - n0 < cols ? args.n - n0 : cols;
      b.cols = n;
      StoreF32 store;
      b.store = make_store_f32<Arch>(args.epilogue, n0, n, store) ? &store : nullptr;
      store.m = m;
      gemm_block_f32<Arch>(b);
      if (b.store) continue;
      finish_f32<Arch>(args.epilogue, {m, nullptr, b.rows, n0, n, acc, cols});
    }
  }
}

}  // namespace fold8::kernels::simd
