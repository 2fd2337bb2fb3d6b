// y = epilogue(alpha * (a * b)): the product of two activations, any strides (transposed views cost
// a packing).
//   chain = fma(a[m,k], b[k,n], chain)           k = 0 .. K-1, from +0: one chain per output
//   acc[m,n] = chain * alpha                     one rounding
//   then epilogue.h (multiplier null)
// a[m,k] = a[m * a_row_stride + k * a_col_stride], b[k,n] likewise; strides in floats, >= 0 (0
// broadcasts). One matrix a call; batches are the caller's loop. Only rows [row_begin, row_end) are
// computed and written. scratch: matmul_f32_scratch_bytes(args) bytes, 64-byte aligned, one per
// thread, contents need not survive.
#pragma once

#include <cstddef>

#include "runtime/kernels/epilogue.h"

namespace fold8::kernels {

struct MatmulF32Args {
  std::size_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  std::size_t a_row_stride = 0, a_col_stride = 1;
  const float* b = nullptr;
  std::size_t b_row_stride = 0, b_col_stride = 1;
  float alpha = 1.0f;
  Epilogue epilogue;
  std::size_t row_begin = 0, row_end = 0;
  void* scratch = nullptr;
};
using matmul_f32_fn = void(const MatmulF32Args& args);

std::size_t matmul_f32_scratch_bytes(
    const MatmulF32Args& args);  // bytes; looks at k and the strides only

namespace reference {
matmul_f32_fn matmul_f32;
}

}  // namespace fold8::kernels
