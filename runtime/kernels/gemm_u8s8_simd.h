// gemm_u8s8.h for the vector targets: blocks of rows that stay in cache while the weights pass by.
#pragma once

#include "runtime/kernels/gemm_u8s8_block.h"

namespace fold8::kernels::simd {

template <class Arch>
void gemm_u8s8(const GemmU8S8Args& a) {
  if (a.m_begin >= a.m_end || a.panel_begin >= a.panel_end) return;
  const std::size_t columns_end =
      a.panel_end * kPanelColumns < a.n ? a.panel_end * kPanelColumns : a.n;
  EpilogueU8 fast;
  BlockU8S8 b;
  b.x_stride = a.x_stride;
  b.k = a.k;
  b.x_zero_point = a.x_zero_point;
  b.w = a.w;
  b.n = a.n;
  b.panel_begin = a.panel_begin;
  b.panel_end = a.panel_end;
  b.w_zero_points = a.w_zero_points;
  b.epilogue = &a.epilogue;
  b.fast = fast_epilogue<Arch>(a.epilogue, a.w_zero_points, a.k, a.panel_begin * kPanelColumns,
                               columns_end, fast);
  b.finish = epilogue_sums_of<Arch>(a.epilogue);
  b.scratch = static_cast<std::uint8_t*>(a.scratch);
  const std::size_t rows = a.m_end - a.m_begin, most = u8s8_block_rows(a.k),
                    blocks = (rows + most - 1) / most;
  for (std::size_t i = 0, m = a.m_begin; i < blocks; ++i) {
    b.rows = rows / blocks + (i < rows % blocks ? 1 : 0);
    b.x = a.x + m * a.x_stride;
    b.m = m;
    gemm_u8s8_block<Arch>(b);
    m += b.rows;
  }
}

}  // namespace fold8::kernels::simd
