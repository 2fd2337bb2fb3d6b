#include "runtime/kernels/gemm_u8s8.h"

#include <algorithm>

namespace fold8::kernels {

std::size_t u8s8_block_rows(std::size_t k) {
  constexpr std::size_t kBlockBytes = std::size_t{256} << 10, kThinBytes = std::size_t{16} << 10,
                        kUsual = 96, kMost = 384, kStep = 12;
  const std::size_t row = s8_groups(k) * kGroupDepth + 1;
  return std::max(std::clamp(kBlockBytes / row / kStep * kStep, kStep, kUsual),
                  std::min(kThinBytes / row / kStep * kStep, kMost));
}

std::size_t u8s8_block_scratch_bytes(std::size_t k) {
  const std::size_t widened_rows = u8s8_block_rows(k) * s8_groups(k) * 8,
                    expanded_panel = s8_groups(k) * 128;
  return (widened_rows + expanded_panel + 127) / 64 * 64;
}

std::size_t gemm_u8s8_scratch_bytes(std::size_t k) { return u8s8_block_scratch_bytes(k); }

}  // namespace fold8::kernels
