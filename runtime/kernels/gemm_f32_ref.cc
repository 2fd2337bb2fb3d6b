#include <algorithm>
#include <cmath>

#include "runtime/kernels/epilogue_ref.h"
#include "runtime/kernels/gemm_f32.h"

namespace fold8::kernels::reference {

void gemm_f32(const GemmF32Args& args) {
  for (std::size_t m = args.row_begin; m < args.row_end; ++m)
    for (std::size_t n = args.panel_begin * kPanelF32;
         n < std::min(args.n, args.panel_end * kPanelF32); ++n) {
      const float* w = args.w + (n / kPanelF32) * args.k * kPanelF32 + n % kPanelF32;
      float acc = 0;
      for (std::size_t k = 0; k < args.k; ++k)
        acc = std::fma(args.x[m * args.x_stride + k], w[k * kPanelF32], acc);
      epilogue_ref(args.epilogue, m, n, acc);
    }
}

}  // namespace fold8::kernels::reference
