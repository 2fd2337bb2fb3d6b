#include <algorithm>
#include <cmath>

#include "runtime/kernels/epilogue_ref.h"
#include "runtime/kernels/gemm_f32_block.h"
#include "runtime/kernels/gemm_f32s8.h"
#include "runtime/kernels/pack_s8.h"

namespace fold8::kernels {

// The weights of a step of the depth as floats, and two blocks of sums.
std::size_t gemm_f32s8_scratch_bytes() {
  return (kDepthStepF32 * kBlockPanelsF32 * kPanelF32 + 2 * kBlockFloatsF32) * sizeof(float);
}

namespace reference {

void gemm_f32s8(const GemmF32S8Args& a) {
  const std::size_t end = std::min(a.n, a.panel_end * kPanelColumns);
  for (std::size_t m = a.row_begin; m < a.row_end; ++m)
    for (std::size_t n = a.panel_begin * kPanelColumns; n < end; ++n) {
      float sum = 0;
      const std::int8_t* w = a.w;
      for (std::size_t g = 0, first = 0; first < a.k; ++g, first += a.group) {
        const std::size_t depth = std::min(a.group, a.k - first);
        float chain = 0;
        for (std::size_t k = 0; k < depth; ++k) {
          const std::size_t at =
              n / kPanelColumns * s8_panel_bytes(depth) +
              (k / kGroupDepth * kPanelColumns + n % kPanelColumns) * kGroupDepth + k % kGroupDepth;
          chain = std::fma(a.x[m * a.x_stride + first + k], static_cast<float>(w[at]), chain);
        }
        sum = std::fma(chain, a.scale[g * a.n + n], sum);
        w += packed_s8_bytes(a.n, depth);
      }
      epilogue_ref(a.epilogue, m, n, sum);
    }
}

}  // namespace reference
}  // namespace fold8::kernels
