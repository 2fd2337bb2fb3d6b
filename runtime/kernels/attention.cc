#include "runtime/kernels/attention.h"

#include "runtime/kernels/attention_scratch.h"

namespace fold8::kernels {

std::size_t attention_scratch_bytes(std::size_t keys, std::size_t depth, std::size_t value_depth) {
  return AttentionScratch(keys, depth, value_depth).end;
}

std::size_t attention_key_block_bytes(std::size_t depth, bool int8) {
  return int8 ? key_scales_at(depth) + kAttentionScaleBytes
              : packed_f32_size(kAttentionKeys, depth) * sizeof(float);
}

std::size_t attention_value_block_bytes(std::size_t value_depth, bool int8) {
  return int8 ? value_scales_at(value_depth) + kAttentionScaleBytes
              : kAttentionKeys * s8_panels(value_depth) * kPanelColumns * sizeof(float);
}

}  // namespace fold8::kernels
