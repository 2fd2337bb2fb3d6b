// How the vector bodies of attention.h divide their scratch.
#pragma once

#include <cstddef>

#include "runtime/core/aligned.h"
#include "runtime/kernels/attention.h"
#include "runtime/kernels/gemm_u8s8.h"
#include "runtime/kernels/pack_f32.h"
#include "runtime/kernels/pack_s8.h"

namespace fold8::kernels {

inline constexpr std::size_t kAttentionRows = 48;  // rows that go through the blocks together

// An INT8 block of keys: packed_s8 of 64 columns, then a scale each. One of values: packed_s8 of as
// many columns as a value has elements, of depth 64, then a scale each.
inline constexpr std::size_t kAttentionScaleBytes = kAttentionKeys * sizeof(float);
constexpr std::size_t key_scales_at(std::size_t depth) {
  return packed_s8_bytes(kAttentionKeys, depth);
}
constexpr std::size_t value_scales_at(std::size_t value_depth) {
  return packed_s8_bytes(value_depth, kAttentionKeys);
}

// Byte offsets; INT8 uses the same places, which f32 needs more of.
struct AttentionScratch {
  std::size_t key_block, value_block;  // bytes of one packed block of keys, of values
  std::size_t keys, values, queries, query_scales, scores, weights, sums, codes, gemm, end;

  AttentionScratch(std::size_t count, std::size_t depth, std::size_t value_depth) {
    const std::size_t blocks = (count + kAttentionKeys - 1) / kAttentionKeys,
                      value_width = s8_panels(value_depth) * kPanelColumns;
    key_block = aligned(
        larger(attention_key_block_bytes(depth, false), attention_key_block_bytes(depth, true)));
    value_block = aligned(larger(attention_value_block_bytes(value_depth, false),
                                 attention_value_block_bytes(value_depth, true)));
    keys = 0;
    values = keys + blocks * key_block;
    queries = values + blocks * value_block;
    query_scales = queries + aligned(kAttentionRows * depth * sizeof(float));
    scores = query_scales + aligned(kAttentionRows * sizeof(float));
    weights = scores + kAttentionRows * kAttentionKeys * sizeof(float);
    sums = weights + kAttentionRows * kAttentionKeys;
    codes = sums + 2 * kAttentionRows * value_width * sizeof(float);
    gemm = codes + aligned(kAttentionKeys * s8_groups(depth) * kGroupDepth);
    end = gemm + larger(gemm_u8s8_scratch_bytes(depth), gemm_u8s8_scratch_bytes(kAttentionKeys));
  }

 private:
  static std::size_t aligned(std::size_t bytes) { return round_up(bytes, kAlignment); }
  static std::size_t larger(std::size_t a, std::size_t b) { return a > b ? a : b; }
};

}  // namespace fold8::kernels
