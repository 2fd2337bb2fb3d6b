// y = epilogue(x * w): f32 activations times packed f32 weights (pack_f32.h).
//   acc[m,n] = fma(x[m,k], w[n,k], acc[m,n])     k = 0 .. K-1 in this order, acc from +0: one chain
//   per output then epilogue.h (multiplier null)
// x: [M, K], rows x_stride floats apart. Only the outputs of rows [row_begin, row_end) and panels
// [panel_begin, panel_end) (16 columns each, the last one shorter) are computed and written:
// callers split work by them, which never changes a bit. x, w and y must not overlap. Re-entrant,
// allocation-free. Weights must be finite.
#pragma once

#include <cstddef>

#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/pack_f32.h"

namespace fold8::kernels {

struct GemmF32Args {
  std::size_t m = 0, n = 0, k = 0;
  const float* x = nullptr;
  std::size_t x_stride = 0;
  const float* w = nullptr;  // packed_f32_size(n, k)
  Epilogue epilogue;
  std::size_t row_begin = 0, row_end = 0;
  std::size_t panel_begin = 0, panel_end = 0;
};
using gemm_f32_fn = void(const GemmF32Args& args);

namespace reference {
gemm_f32_fn gemm_f32;
}

}  // namespace fold8::kernels
