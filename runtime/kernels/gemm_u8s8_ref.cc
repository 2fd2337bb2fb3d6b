#include "runtime/kernels/epilogue_ref.h"
#include "runtime/kernels/gemm_u8s8.h"

namespace fold8::kernels::reference {

void gemm_u8s8(const GemmU8S8Args& a) {
  for (std::size_t m = a.m_begin; m < a.m_end; ++m) {
    const std::uint8_t* x = a.x + m * a.x_stride;
    for (std::size_t p = a.panel_begin; p < a.panel_end; ++p) {
      const std::int8_t* panel = a.w + p * s8_panel_bytes(a.k);
      for (std::size_t j = 0; j < kPanelColumns && p * kPanelColumns + j < a.n; ++j) {
        const std::size_t n = p * kPanelColumns + j;
        const std::int32_t zw = a.w_zero_points ? a.w_zero_points[n] : 0;
        std::int64_t acc = 0;
        for (std::size_t k = 0; k < a.k; ++k) {
          const std::int32_t w =
              panel[(k / kGroupDepth * kPanelColumns + j) * kGroupDepth + k % kGroupDepth];
          acc += (x[k] - a.x_zero_point) * (w - zw);
        }
        epilogue_ref(a.epilogue, m, n, acc);
      }
    }
  }
}

}  // namespace fold8::kernels::reference
