// Vector body of matmul_f32.h. Include only from targets/*.cc.
#pragma once

#include "runtime/kernels/finish_f32_simd.h"
#include "runtime/kernels/gemm_f32_simd.h"
#include "runtime/kernels/matmul_f32.h"
#include "runtime/kernels/transpose_tile_simd.h"

namespace fold8::kernels::simd {

// b[0..k, n0 .. n0+cols) as panels [ceil(cols/16)][k][16], zeros beyond cols.
template <class Arch>
void pack_columns_f32(const MatmulF32Args& args, std::size_t n0, std::size_t cols, float* packed) {
  for (std::size_t j = 0; j < cols; j += kPanelF32, packed += args.k * kPanelF32) {
    const std::size_t width = cols - j < kPanelF32 ? cols - j : kPanelF32;
    const float* b = args.b + (n0 + j) * args.b_col_stride;
    std::size_t k = 0;
    if (width == kPanelF32 && args.b_col_stride == 1) {
      for (; k < args.k; ++k)
        for (std::size_t i = 0; i < kPanelF32; ++i)
          packed[k * kPanelF32 + i] = b[k * args.b_row_stride + i];
    } else if (width == kPanelF32 && args.b_row_stride == 1) {
      for (; k + 8 <= args.k; k += 8)
        for (std::size_t i = 0; i < kPanelF32; i += 8)
          transpose_8x8<Arch>(b + i * args.b_col_stride + k, args.b_col_stride,
                              packed + k * kPanelF32 + i, kPanelF32);
    }
    for (; k < args.k; ++k)
      for (std::size_t i = 0; i < kPanelF32; ++i)
        packed[k * kPanelF32 + i] =
            i < width ? b[k * args.b_row_stride + i * args.b_col_stride] : 0.0f;
  }
}

// Points the block at rows [m, m + rows) of a, gathered into scratch where their elements are not
// adjacent.
template <class Arch>
void matmul_rows_f32(const MatmulF32Args& args, std::size_t m, float* scratch,
                     GemmBlockF32& block) {
  block.x = args.a + m * args.a_row_stride;
  block.x_stride = args.a_row_stride;
  if (args.a_col_stride == 1) return;
  for (std::size_t r = 0; r < block.rows; ++r)
    for (std::size_t k = 0; k < args.k; ++k)
      scratch[r * args.k + k] = block.x[r * args.a_row_stride + k * args.a_col_stride];
  block.x = scratch;
  block.x_stride = args.k;
}

template <class Arch>
void matmul_f32(const MatmulF32Args& args) {
  alignas(64) float acc[kBlockFloatsF32];
  float* const packed = static_cast<float*>(args.scratch);
  float* const gathered = packed + args.k * kMaxPanelsF32 * kPanelF32;
  const std::size_t total = args.row_end - args.row_begin;
  GemmBlockF32 block;
  block.k = args.k;
  block.acc = acc;
  const std::size_t at_once =
      TileShapes<Arch>::panels_for(total < kBlockRowsF32 ? total : kBlockRowsF32);
  // Packing pays when several rows use it; few rows read b where it lies.
  const bool in_place = args.b_col_stride == 1 && total <= TileShapes<Arch>::kInPlaceRows;
  for (std::size_t n0 = 0; n0 < args.n;) {
    std::size_t cols = args.n - n0 < at_once * kPanelF32 ? args.n - n0 : at_once * kPanelF32;
    if (in_place && cols >= kPanelF32) {
      cols -= cols % kPanelF32;
      block.w = args.b + n0;
      block.w_step = args.b_row_stride;
      block.panel_stride = kPanelF32;
    } else {
      pack_columns_f32<Arch>(args, n0, cols, packed);
      block.w = packed;
      block.w_step = kPanelF32;
      block.panel_stride = args.k * kPanelF32;
    }
    block.panels = (cols + kPanelF32 - 1) / kPanelF32;
    block.cols = cols;
    const std::size_t stride = block.panels * kPanelF32;
    for (std::size_t m = args.row_begin; m < args.row_end; m += block.rows) {
      block.rows = block_rows_f32(args.row_end - m, args.k, kBlockRowsF32);
      matmul_rows_f32<Arch>(args, m, gathered, block);
      StoreF32 store;
      block.store = make_store_f32<Arch>(args.epilogue, n0, cols, store) ? &store : nullptr;
      store.m = m;
      store.scaled = args.alpha != 1.0f;
      store.alpha = args.alpha;
      gemm_block_f32<Arch>(block);
      if (block.store) continue;
      if (args.alpha != 1.0f)
        for (std::size_t i = 0; i < block.rows * stride; ++i) acc[i] = acc[i] * args.alpha;
      finish_f32<Arch>(args.epilogue, {m, nullptr, block.rows, n0, cols, acc, stride});
    }
    n0 += cols;
  }
}

}  // namespace fold8::kernels::simd
