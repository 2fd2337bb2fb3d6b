// INT8 matrix product with exact integer accumulators and everything after it (linear layers, 1x1
// convolutions).
//
//   acc[m,n] = sum_k (x[m,k] - x_zero_point) * (w[n,k] - w_zero_points[n])          (w_zero_points
//   null: 0) y[m,n]   = epilogue(acc[m,n]) (epilogue.h)
//
// acc is the exact integer. It is an int32 up to k = 65,793 (33,025 with w_zero_points); longer
// sums are exact in int64 and are rounded once to f32 (y s32: wrap to 32 bits). k = 0 gives acc =
// 0. x: u8 [m, k], rows x_stride bytes apart; never read outside the k bytes of a row. w:
// pack_s8.h, n x k. Work can be split over threads by rows and by panels of 16 columns: a call
// writes only y[m_begin..m_end) of the columns of panels [panel_begin, panel_end). Row indices of
// the epilogue (y, residual, row_scale) are those of the whole matrix. The result does not depend
// on the split. y may not overlap x; residual may be y.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/pack_s8.h"

namespace fold8::kernels {

struct GemmU8S8Args {
  std::size_t m = 0, n = 0, k = 0;
  const std::uint8_t* x = nullptr;
  std::size_t x_stride = 0;
  std::int32_t x_zero_point = 0;                // 0..255
  const std::int8_t* w = nullptr;               // packed
  const std::int32_t* w_zero_points = nullptr;  // [n], each -128..127, or null
  Epilogue epilogue;
  void* scratch =
      nullptr;  // gemm_u8s8_scratch_bytes(k) bytes, 64-byte aligned, one per concurrent call

  std::size_t m_begin = 0, m_end = 0;  // rows to compute
  std::size_t panel_begin = 0,
              panel_end = 0;  // panels of 16 columns to compute; s8_panels(n) in all
};

using gemm_u8s8_fn = void(const GemmU8S8Args&);
namespace reference {
gemm_u8s8_fn gemm_u8s8;
}

// Scratch memory of one call: the same for every target, independent of m and n.
std::size_t gemm_u8s8_scratch_bytes(std::size_t k);

// What a block of rows that share one pass over the weights may hold, and the scratch the vector
// targets use for it: for kernels built on gemm_u8s8_block.h.
std::size_t u8s8_block_rows(std::size_t k);
std::size_t u8s8_block_scratch_bytes(std::size_t k);

// Longest k whose sums provably fit int32.
constexpr std::size_t gemm_u8s8_int32_depth(bool w_zero_points) {
  return w_zero_points ? 33025 : 65793;
}

}  // namespace fold8::kernels
