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

// Byte offsets; INT8 uses the same places, which f32 needs more of.
struct AttentionScratch {
  std::size_t key_block, value_block;  // bytes of one packed block of keys, of values
  std::size_t keys, values, key_scales, value_scales, queries, query_scales, scores, weights, sums,
      codes, gemm, end;

  AttentionScratch(std::size_t count, std::size_t depth, std::size_t value_depth) {
    const std::size_t blocks = (count + kAttentionKeys - 1) / kAttentionKeys,
                      value_width = s8_panels(value_depth) * kPanelColumns;
    key_block = aligned(larger(packed_f32_size(kAttentionKeys, depth) * sizeof(float),
                               packed_s8_bytes(kAttentionKeys, depth)));
    value_block = aligned(larger(kAttentionKeys * value_width * sizeof(float),
                                 packed_s8_bytes(value_depth, kAttentionKeys)));
    keys = 0;
    values = keys + blocks * key_block;
    key_scales = values + blocks * value_block;
    value_scales = key_scales + blocks * kAttentionKeys * sizeof(float);
    queries = value_scales + blocks * kAttentionKeys * sizeof(float);
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
