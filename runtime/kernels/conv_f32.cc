#include "runtime/kernels/conv_f32.h"

#include "runtime/core/aligned.h"
#include "runtime/kernels/gemm_f32_block.h"

namespace fold8::kernels {

std::size_t conv_f32_panels(const ConvShape& shape) {
  const std::size_t groups = static_cast<std::size_t>(shape.groups);
  const std::size_t n = static_cast<std::size_t>(shape.out_channels) / groups;
  return groups * ((n + kPanelF32 - 1) / kPanelF32);
}

std::size_t conv_f32_scratch_bytes(const ConvShape& shape) {
  const std::size_t taps = static_cast<std::size_t>(conv_taps(shape));
  const std::size_t zeros =
      static_cast<std::size_t>(shape.kernel[2] * shape.in_channels) * sizeof(float);
  return round_up(zeros, kAlignment) +
         round_up(conv_block_rows_f32(taps) * taps * sizeof(const float*), kAlignment) +
         round_up(conv_block_rows_f32(taps) / 2 * taps * sizeof(std::size_t), kAlignment);
}

}  // namespace fold8::kernels
