// y = epilogue(x * w): f32 activations times INT8 weights that stay INT8 in memory (weight-only
// INT8).
//   acc_g[m,n] = fma(x[m,k], f32(w[n,k]), acc_g[m,n])     k ascending in group g, acc_g from +0
//   sum[m,n]   = fma(acc_g[m,n], scale[g,n], sum[m,n])    g ascending, from +0
//   then epilogue.h (multiplier null), with sum as the chain
// w: the depth is cut into groups of `group` (the last one shorter; group = k: a scale per column);
// each is a packed matrix n x depth of pack_s8.h, and they follow each other. Zero points are 0.
// x: [m, k], rows x_stride floats apart. Only rows [row_begin, row_end) of panels [panel_begin,
// panel_end) (16 columns each) are written: work can be split by them. x, w and y must not overlap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/epilogue.h"

namespace fold8::kernels {

struct GemmF32S8Args {
  std::size_t m = 0, n = 0, k = 0, group = 0;
  const float* x = nullptr;
  std::size_t x_stride = 0;
  const std::int8_t* w = nullptr;
  const float* scale = nullptr;  // [groups, n]
  Epilogue epilogue;
  std::size_t row_begin = 0, row_end = 0;
  std::size_t panel_begin = 0, panel_end = 0;
  void* scratch = nullptr;  // gemm_f32s8_scratch_bytes(), 64-byte aligned, one a call
};
using gemm_f32s8_fn = void(const GemmF32S8Args& args);

std::size_t gemm_f32s8_scratch_bytes();

namespace reference {
gemm_f32s8_fn gemm_f32s8;
}

}  // namespace fold8::kernels
