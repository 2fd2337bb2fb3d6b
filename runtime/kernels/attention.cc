#include "runtime/kernels/attention.h"

#include "runtime/kernels/attention_scratch.h"

namespace fold8::kernels {

std::size_t attention_scratch_bytes(std::size_t keys, std::size_t depth, std::size_t value_depth) {
  return AttentionScratch(keys, depth, value_depth).end;
}

}  // namespace fold8::kernels
