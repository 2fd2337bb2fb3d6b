#include <cmath>

#include "runtime/kernels/epilogue_ref.h"
#include "runtime/kernels/matmul_f32.h"

namespace fold8::kernels::reference {

void matmul_f32(const MatmulF32Args& args) {
  for (std::size_t m = args.row_begin; m < args.row_end; ++m)
    for (std::size_t n = 0; n < args.n; ++n) {
      const float* a = args.a + m * args.a_row_stride;
      const float* b = args.b + n * args.b_col_stride;
      float chain = 0;
      for (std::size_t k = 0; k < args.k; ++k)
        chain = std::fma(a[k * args.a_col_stride], b[k * args.b_row_stride], chain);
      epilogue_ref(args.epilogue, m, n, chain * args.alpha);
    }
}

}  // namespace fold8::kernels::reference
