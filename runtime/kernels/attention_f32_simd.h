// Vector body of attention_f32 (attention.h). Include only from targets/*.cc.
#pragma once

#include <cstring>

#include "runtime/kernels/attention_simd.h"
#include "runtime/kernels/matmul_f32_simd.h"

namespace fold8::kernels::simd {

// Keys as the right side of q * k^T, values as that of p * v: panels of 16 columns.
template <class Arch>
void attention_pack_all_f32(const AttentionArgs& a, const AttentionScratch& at,
                            std::byte* scratch) {
  for (std::size_t first = 0, block = 0; first < a.keys; first += kAttentionKeys, ++block) {
    const std::size_t count = a.keys - first < kAttentionKeys ? a.keys - first : kAttentionKeys;
    MatmulF32Args m;
    m.k = a.depth;
    m.b = a.k + first * a.k_stride;
    m.b_row_stride = 1;
    m.b_col_stride = a.k_stride;
    pack_columns_f32<Arch>(m, 0, count,
                           reinterpret_cast<float*>(scratch + at.keys + block * at.key_block));
    m.k = count;
    m.b = a.v + first * a.v_stride;
    m.b_row_stride = a.v_stride;
    m.b_col_stride = 1;
    pack_columns_f32<Arch>(m, 0, a.value_depth,
                           reinterpret_cast<float*>(scratch + at.values + block * at.value_block));
  }
}

// The same token by token, where blocks of values have room for 64.
template <class Arch>
void attention_pack_f32(const AttentionPackArgs& a) {
  const std::size_t key_block = attention_key_block_bytes(a.depth, false),
                    value_block = attention_value_block_bytes(a.value_depth, false);
  AttentionPart::each(a.begin, a.end, [&](const AttentionPart& p) {
    auto* keys = reinterpret_cast<float*>(a.keys + p.block * key_block);
    auto* values = reinterpret_cast<float*>(a.values + p.block * value_block);
    if (p.begin == 0) {
      std::memset(keys, 0, key_block);
      std::memset(values, 0, value_block);
    }
    for (std::size_t j = p.begin; j < p.end; ++j) {
      const float* k = a.k + (p.first + j) * a.k_stride;
      const float* v = a.v + (p.first + j) * a.v_stride;
      float* column = keys + j / kPanelF32 * a.depth * kPanelF32 + j % kPanelF32;
      for (std::size_t d = 0; d < a.depth; ++d) column[d * kPanelF32] = k[d];
      for_steps<Arch>(a.value_depth, [&](std::size_t e, auto n) {
        store<Arch>(values + (e * kAttentionKeys + j * kPanelF32), Full{}, load<Arch>(v + e, n));
      });
    }
  });
}

template <class Arch>
class AttentionF32 {
 public:
  explicit AttentionF32(const AttentionArgs& a)
      : a_(a),
        at_(a.keys, a.depth, a.value_depth),
        scratch_(static_cast<std::byte*>(a.scratch)),
        kept_(a.packed_keys != nullptr),
        key_block_(kept_ ? attention_key_block_bytes(a.depth, false) : at_.key_block),
        value_block_(kept_ ? attention_value_block_bytes(a.value_depth, false) : at_.value_block),
        keys_(kept_ ? a.packed_keys : scratch_ + at_.keys),
        values_(kept_ ? a.packed_values : scratch_ + at_.values) {}

  void run() {
    if (!kept_) attention_pack_all_f32<Arch>(a_, at_, scratch_);
    for (std::size_t row = a_.row_begin; row < a_.row_end; row += kAttentionRows)
      rows(row, a_.row_end - row < kAttentionRows ? a_.row_end - row : kAttentionRows);
  }

 private:
  float* floats(std::size_t offset) const { return reinterpret_cast<float*>(scratch_ + offset); }

  void rows(std::size_t first_row, std::size_t count) {
    AttentionState state(count);
    const std::size_t width = s8_panels(a_.value_depth) * kPanelColumns;
    const AttentionSums sums{floats(at_.sums), count, width,
                             TileShapes<Arch>::panels_for(count) * kPanelF32};
    for (std::size_t i = 0; i < count * width; ++i) sums.at[i] = 0.0f;
    float* queries = floats(at_.queries);
    for (std::size_t r = 0; r < count; ++r) {
      const std::size_t row = first_row + r;
      const float* q = a_.q + row / a_.heads * a_.q_stride + row % a_.heads * a_.q_head_stride;
      for (std::size_t d = 0; d < a_.depth; ++d) queries[r * a_.depth + d] = q[d];
    }
    const std::size_t last_row = first_row + count - 1;
    for (std::size_t key = 0; key < a_.limit(last_row / a_.heads); key += kAttentionKeys)
      block(first_row, key, state, sums);
    attention_divide<Arch>(a_, first_row, state, sums);
  }

  // All rows against one block of keys; those that see none of it stay as they are.
  void block(std::size_t first_row, std::size_t key, AttentionState& state,
             const AttentionSums& sums) {
    const std::size_t begin =
        attention_first_row(a_, first_row, first_row + sums.rows, key) - first_row;
    float* scores = floats(at_.scores);
    GemmBlockF32 b;
    b.x = floats(at_.queries) + begin * a_.depth;
    b.x_stride = b.k = a_.depth;
    b.rows = sums.rows - begin;
    multiply_keys(b, key, scores + begin * kAttentionKeys);
    const V16<Arch> scale(a_.scale);
    AttentionBlock<Arch>(a_, key).mask_rows(
        first_row, begin, sums.rows, scores, state,
        [](std::size_t, const float* x, int part)
            FOLD8_INLINE_LAMBDA { return load<Arch>(x + 16 * part, Full{}); },
        [&](int) FOLD8_INLINE_LAMBDA { return scale; });
    for (std::size_t r = begin; r < sums.rows; ++r) {
      float* x = scores + r * kAttentionKeys;
      V16<Arch> p[AttentionBlock<Arch>::kParts];
      AttentionBlock<Arch>::weigh(x, state, r, p);
      for (int part = 0; part < AttentionBlock<Arch>::kParts; ++part)
        store<Arch>(x + 16 * part, Full{}, p[part]);
    }
    AttentionBlock<Arch>::lengthen(state, begin, sums.rows);
    add_values(begin, key, state, sums);
  }

  // scores [rows][64] = q * k^T.
  void multiply_keys(GemmBlockF32 b, std::size_t key, float* scores) const {
    const std::size_t block = key / kAttentionKeys, left = a_.keys - key,
                      panels = s8_panels(left < kAttentionKeys ? left : kAttentionKeys),
                      most = TileShapes<Arch>::panels_for(b.rows);
    const auto* packed = reinterpret_cast<const float*>(keys_ + block * key_block_);
    b.panel_stride = a_.depth * kPanelF32;
    b.acc_stride = kAttentionKeys;
    for (std::size_t p = 0; p < panels; p += b.panels) {
      b.panels = balanced_part(panels - p, most < 4 ? most : 4);
      b.w = packed + p * b.panel_stride;
      b.acc = scores + p * kPanelF32;
      gemm_block_f32<Arch>(b);
    }
  }

  // O = O * c, then the chains go on over the values of the block.
  void add_values(std::size_t begin, std::size_t key, const AttentionState& state,
                  const AttentionSums& sums) const {
    const std::size_t left = a_.keys - key;
    GemmBlockF32 b;
    b.k = left < kAttentionKeys ? left : kAttentionKeys;
    b.x = floats(at_.scores) + begin * kAttentionKeys;
    b.x_stride = kAttentionKeys;
    b.rows = sums.rows - begin;
    b.panel_stride = (kept_ ? kAttentionKeys : b.k) * kPanelF32;
    b.goes_on = true;
    const auto* packed =
        reinterpret_cast<const float*>(values_ + key / kAttentionKeys * value_block_);
    sums.each_group([&](std::size_t first, std::size_t columns, float* o) {
      for (std::size_t r = begin; r < sums.rows; ++r) {
        const V16<Arch> c(state.kept[r]);
        for (std::size_t e = r * columns; e < (r + 1) * columns; e += 16)
          store<Arch>(o + e, Full{}, load<Arch>(o + e, Full{}) * c);
      }
      b.panels = columns / kPanelF32;
      b.acc_stride = columns;
      b.w = packed + first / kPanelF32 * b.panel_stride;
      b.acc = o + begin * columns;
      gemm_block_f32<Arch>(b);
    });
  }

  const AttentionArgs& a_;
  AttentionScratch at_;
  std::byte* scratch_;
  bool kept_;
  std::size_t key_block_, value_block_;
  const std::byte *keys_, *values_;
};

template <class Arch>
void attention_f32(const AttentionArgs& a) {
  if (a.row_begin < a.row_end) AttentionF32<Arch>(a).run();
}

}  // namespace fold8::kernels::simd
