// Scaled dot-product attention of the query heads that share one head of keys and values, blocked:
// the matrix of scores never exists (Dao et al. 2022, "FlashAttention"; ONNX Attention-23).
//
// Row r stands for query r / heads of head r % heads; it sees the keys [0, limit), limit = keys, or
// with `causal` at most first_position + query + 1. A row that sees no key is NaN. Key blocks of 64
// begin at key 0 on every target, so cutting a prompt or padding it on the right changes no bit:
//
//   start: m = -inf, l = +0, O[e] = +0. For every block that holds a key the row sees, its keys j
//   that the row sees ascending:
//   s[j] = chain over d of fma(q[d], k[j, d], .) from +0;   t[j] = s[j] * scale     attention_f32
//   s[j] = sum over d of (qq[d] - 128) * kq[j, d], exact;   t[j] = (f32(s[j]) * (sq * scale)) *
//   sk[j]
//                                                                                   attention_q8
//     softcap > 0:     t[j] = softcap * tanh(t[j] / softcap), then x[j] = t[j] + mask[j]
//     otherwise x[j] = fma(factor, ., mask[j]) in place of the last product of t[j] (no mask: +0)
//     a key that `visible` hides has x[j] = -inf
//   m' = max(m, max_j x[j]) (NaN loses here, and enters through p);  c = exp(m - m'), but 1 if m' =
//   -inf p[j] = exp(x[j] - m'); if m' = -inf: NaN where x[j] is, else +0;  l = fma(l, c, S(p)), S
//   the row sum of row_sum.h attention_f32:  O[e] = O[e] * c, then fma(p[j], v[j, e], O[e]) over
//   all keys j of the block
//     (p is +0 where the row does not see)
//   attention_q8:   w[j] = p[j] * sv[j];  a = max(max_j w[j], 2^-100) (NaN wins)
//     pq[j] = fma(w[j], 255 / a, 1.5 * 2^23) - 1.5 * 2^23;  O[e] = fma(f32(sum_j pq[j] * vq[j, e]),
//     a * f32(1 / 255), O[e] * c)
//   y[e] = O[e] / l + 0
//
// attention_q8 rounds on the way: q, k and v per token with s = dynamic_row_scale (quantize_ref.h)
// of the head's row, q to u8 with zero point 128 in [1, 255], k and v to s8 in [-127, 127], by true
// division. P's scale is the row's own in each block, so that far keys of small weight keep 8 bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fold8::kernels {

inline constexpr std::size_t kAttentionKeys = 64;  // of one block

struct AttentionArgs {
  std::size_t queries = 0, keys = 0, heads = 1;
  std::size_t depth = 0, value_depth = 0;  // of q and k; of v and y. At most 65,793
  // All strides in elements. Elements of a row are neighbours.
  const float* q = nullptr;  // [queries, heads, depth]
  std::size_t q_stride = 0, q_head_stride = 0;
  const float* k = nullptr;  // [keys, depth]
  std::size_t k_stride = 0;
  const float* v = nullptr;  // [keys, value_depth]
  std::size_t v_stride = 0;
  // Added to scores, or null; else `visible`: bytes, 0 hides, or null. At most one of them.
  const float* mask = nullptr;  // [queries, heads, keys]
  const std::uint8_t* visible = nullptr;
  std::size_t mask_stride = 0, mask_head_stride = 0, mask_step = 1;  // step 0: one for all keys
  // k and v as attention_pack_*() made them, or null: then every call makes them for itself.
  const std::byte *packed_keys = nullptr, *packed_values = nullptr;
  float scale = 1, softcap = 0;
  bool causal = false;
  std::size_t first_position = 0;
  float* y = nullptr;  // [queries, heads, value_depth]
  std::size_t y_stride = 0, y_head_stride = 0;
  std::size_t row_begin = 0, row_end = 0;  // rows to compute, of queries * heads
  void* scratch = nullptr;                 // attention_scratch_bytes(), 64-byte aligned, one a call

  std::size_t limit(std::size_t query) const {
    return causal && first_position + query + 1 < keys ? first_position + query + 1 : keys;
  }
};
using attention_f32_fn = void(const AttentionArgs&);
using attention_q8_fn = void(const AttentionArgs&);

std::size_t attention_scratch_bytes(std::size_t keys, std::size_t depth, std::size_t value_depth);

// Keys and values as the vector bodies multiply them, for callers that keep them from call to call
// while keys come at the end: blocks of kAttentionKeys, one behind the other, each of the bytes
// below and 64-byte aligned. What is in them is the target's own business: no file holds them. The
// plain reference makes nothing, and reads k and v.
struct AttentionPackArgs {
  std::size_t depth = 0, value_depth = 0;
  const float* k = nullptr;  // [end, depth]
  std::size_t k_stride = 0;
  const float* v = nullptr;  // [end, value_depth]
  std::size_t v_stride = 0;
  std::size_t begin = 0, end = 0;  // keys to pack; those before are there, those behind are not
  std::byte *keys = nullptr, *values = nullptr;
  void* scratch = nullptr;  // attention_scratch_bytes()
};
using attention_pack_f32_fn = void(const AttentionPackArgs&);
using attention_pack_q8_fn = void(const AttentionPackArgs&);

std::size_t attention_key_block_bytes(std::size_t depth, bool int8);
std::size_t attention_value_block_bytes(std::size_t value_depth, bool int8);

namespace reference {
attention_f32_fn attention_f32;
attention_q8_fn attention_q8;
attention_pack_f32_fn attention_pack_f32;
attention_pack_q8_fn attention_pack_q8;
}  // namespace reference

}  // namespace fold8::kernels
