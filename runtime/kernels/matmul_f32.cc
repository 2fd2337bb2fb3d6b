#include "runtime/kernels/matmul_f32.h"

#include "runtime/core/aligned.h"
#include "runtime/kernels/gemm_f32_block.h"

namespace fold8::kernels {

std::size_t matmul_f32_scratch_bytes(const MatmulF32Args& args) {
  const std::size_t panels = args.k * kMaxPanelsF32 * kPanelF32;
  const std::size_t rows = args.a_col_stride == 1 ? 0 : args.k * kBlockRowsF32;
  return round_up((panels + rows) * sizeof(float), kAlignment);
}

}  // namespace fold8::kernels
