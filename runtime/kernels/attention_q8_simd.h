// Vector body of attention_q8 (attention.h): both products through the INT8 tiles. Include only
// from targets/*.cc.
#pragma once

#include <cstring>
#include <optional>

#include "runtime/kernels/attention_simd.h"
#include "runtime/kernels/gemm_u8s8_simd.h"
#include "runtime/kernels/quantize_quotient_simd.h"
#include "runtime/kernels/quantize_simd.h"
#include "runtime/kernels/transpose_tile_simd.h"

namespace fold8::kernels::simd {

template <class Arch>
FOLD8_INLINE float attention_row_scale(const float* x, std::size_t n) {
  I16<Arch> largest(0);
  for_steps<Arch>(n, [&](std::size_t j, auto m) {
    largest = Memory16<Arch>::max(largest, magnitude_bits<Arch>(load<Arch>(x + j, m)));
  });
  return row_scale_of<Arch>(largest);
}

// Keys [begin, end) of a block, rounded per token, as columns of pack_s8.h. Columns behind them
// have scale 0; if begin is 0 they are there, too. codes: room for 64 rows of round_up(depth, 4).
template <class Arch>
void attention_pack_keys(const float* k, std::size_t stride, std::size_t depth, std::size_t begin,
                         std::size_t end, std::int8_t* codes, std::int8_t* packed) {
  const std::size_t groups = s8_groups(depth), row = groups * kGroupDepth,
                    panel_bytes = s8_panel_bytes(depth),
                    whole = (end + kPanelColumns - 1) / kPanelColumns;
  auto* scales = reinterpret_cast<float*>(packed + key_scales_at(depth));
  auto* sums =
      reinterpret_cast<std::int32_t*>(packed + kAttentionKeys / kPanelColumns * panel_bytes);
  for (std::size_t j = begin; j < end; ++j) {
    std::int8_t* q = codes + j * row;
    const float* x = k + j * stride;
    scales[j] = attention_row_scale<Arch>(x, depth);
    std::memset(q + depth, 0, row - depth);
    const RowQuotient<Arch> codes_of(scales[j]);
    I16<Arch> sum(0);
    for_steps<Arch>(depth, [&](std::size_t d, auto n) {
      const I16<Arch> code = codes_of(load<Arch>(x + d, n));
      sum = sum + code;
      store_u8<Arch>(q + d, n, code);
    });
    sums[j] = Memory16<Arch>::fold_sum(sum);
  }
  for (std::size_t j = end; j < kAttentionKeys; ++j) scales[j] = 0.0f, sums[j] = 0;
  std::memset(codes + end * row, 0, (whole * kPanelColumns - end) * row);
  for (std::size_t p = begin / kPanelColumns; p < whole; ++p) {
    std::int8_t* to = packed + p * panel_bytes;
    const std::size_t first = p * kPanelColumns;
    const std::int8_t* from = codes + first * row;
    std::size_t g = 0;
    for (; begin <= first && g + 8 <= groups; g += 8)
      for (std::size_t j = 0; j < kPanelColumns; j += 8)
        transpose_8x8<Arch>(reinterpret_cast<const float*>(from + j * row) + g, groups,
                            reinterpret_cast<float*>(to) + g * kPanelColumns + j, kPanelColumns);
    const std::size_t last = end - first < kPanelColumns ? end - first : kPanelColumns;
    for (std::size_t j = begin > first ? begin - first : 0;
         j < (begin > first ? last : kPanelColumns); ++j)
      for (std::size_t i = g; i < groups; ++i)
        std::memcpy(to + (i * kPanelColumns + j) * kGroupDepth, from + j * row + i * kGroupDepth,
                    kGroupDepth);
  }
  if (begin == 0)
    std::memset(packed + whole * panel_bytes, 0,
                (kAttentionKeys / kPanelColumns - whole) * panel_bytes);
}

// Tokens [begin, end) of a block of v, rounded per token, as pack_s8.h of depth `tokens`: v's
// elements are the columns. Those behind have scale 0; if begin is 0 they are there, too. Sums are
// not needed: p has zero point 0.
template <class Arch>
void attention_pack_values(const float* v, std::size_t stride, std::size_t depth, std::size_t begin,
                           std::size_t end, std::size_t tokens, std::int8_t* packed) {
  const std::size_t panel = s8_panel_bytes(tokens), panels = s8_panels(depth);
  auto* scales = reinterpret_cast<float*>(packed + value_scales_at(depth));
  if (begin == 0) {
    const std::size_t codes = panels * panel;
    if (s8_groups(end) < s8_groups(tokens)) std::memset(packed, 0, codes);
    std::memset(packed + codes, 0, panels * kPanelColumns * sizeof(std::int32_t));
  }
  for (std::size_t t = begin / kGroupDepth * kGroupDepth; t < end; t += kGroupDepth) {
    const std::size_t here = end - t < kGroupDepth ? end - t : kGroupDepth;
    const float* x = v + t * stride;
    std::int8_t* to = packed + t * kPanelColumns;
    std::optional<RowQuotient<Arch>> codes_of[kGroupDepth];
    for (std::size_t i = 0; i < here; ++i) {
      scales[t + i] = attention_row_scale<Arch>(x + i * stride, depth);
      codes_of[i].emplace(scales[t + i]);
    }
    for_steps<Arch>(depth, [&](std::size_t e, auto n) {
      I16<Arch> word(0);
      for (std::size_t i = 0; i < here; ++i) {
        const I16<Arch> code = (*codes_of[i])(load<Arch>(x + i * stride + e, n));
        word = word | ((code & I16<Arch>(255)) << static_cast<int>(8 * i));
      }
      store<Arch>(reinterpret_cast<float*>(to + e / kPanelColumns * panel), Full{},
                  Lanes<V16<Arch>>::from_bits(word));
    });
  }
  for (std::size_t j = end; j < kAttentionKeys; ++j) scales[j] = 0.0f;
}

template <class Arch>
void attention_pack_q8(const AttentionPackArgs& a) {
  const std::size_t key_block = attention_key_block_bytes(a.depth, true),
                    value_block = attention_value_block_bytes(a.value_depth, true);
  auto* codes = reinterpret_cast<std::int8_t*>(a.scratch);
  AttentionPart::each(a.begin, a.end, [&](const AttentionPart& p) {
    attention_pack_keys<Arch>(a.k + p.first * a.k_stride, a.k_stride, a.depth, p.begin, p.end,
                              codes, reinterpret_cast<std::int8_t*>(a.keys + p.block * key_block));
    attention_pack_values<Arch>(a.v + p.first * a.v_stride, a.v_stride, a.value_depth, p.begin,
                                p.end, kAttentionKeys,
                                reinterpret_cast<std::int8_t*>(a.values + p.block * value_block));
  });
}

template <class Arch>
class AttentionQ8 {
 public:
  using V = V16<Arch>;
  using L = Lanes<V>;

  explicit AttentionQ8(const AttentionArgs& a)
      : a_(a),
        at_(a.keys, a.depth, a.value_depth),
        scratch_(static_cast<std::byte*>(a.scratch)),
        kept_(a.packed_keys != nullptr),
        key_block_(kept_ ? attention_key_block_bytes(a.depth, true) : at_.key_block),
        value_block_(kept_ ? attention_value_block_bytes(a.value_depth, true) : at_.value_block),
        keys_(codes(kept_ ? a.packed_keys : scratch_ + at_.keys)),
        values_(codes(kept_ ? a.packed_values : scratch_ + at_.values)) {}

  void run() {
    if (!kept_) pack();
    for (std::size_t row = a_.row_begin; row < a_.row_end; row += kAttentionRows)
      rows(row, a_.row_end - row < kAttentionRows ? a_.row_end - row : kAttentionRows);
  }

 private:
  static const std::int8_t* codes(const std::byte* p) {
    return reinterpret_cast<const std::int8_t*>(p);
  }
  void pack() const {
    AttentionPart::each(0, a_.keys, [&](const AttentionPart& p) {
      attention_pack_keys<Arch>(a_.k + p.first * a_.k_stride, a_.k_stride, a_.depth, 0, p.end,
                                bytes(at_.codes), bytes(at_.keys + p.block * key_block_));
      attention_pack_values<Arch>(a_.v + p.first * a_.v_stride, a_.v_stride, a_.value_depth, 0,
                                  p.end, p.end, bytes(at_.values + p.block * value_block_));
    });
  }
  float* floats(std::size_t offset) const { return reinterpret_cast<float*>(scratch_ + offset); }
  std::int8_t* bytes(std::size_t offset) const {
    return reinterpret_cast<std::int8_t*>(scratch_ + offset);
  }
  // Depth of a packed block of values: kept ones have room for what comes. Weights are 0 there.
  std::size_t tokens(std::size_t key) const {
    return kept_ || a_.keys - key > kAttentionKeys ? kAttentionKeys : a_.keys - key;
  }

  void rows(std::size_t first_row, std::size_t count) {
    AttentionState state(count);
    const std::size_t width = s8_panels(a_.value_depth) * kPanelColumns;
    const AttentionSums sums{floats(at_.sums), count, width, width < 64 ? width : 64};
    std::memset(sums.at, 0, count * width * sizeof(float));
    auto* queries = reinterpret_cast<std::uint8_t*>(bytes(at_.queries));
    float* scales = floats(at_.query_scales);
    for (std::size_t r = 0; r < count; ++r) {
      const std::size_t row = first_row + r;
      const float* q = a_.q + row / a_.heads * a_.q_stride + row % a_.heads * a_.q_head_stride;
      scales[r] = attention_row_scale<Arch>(q, a_.depth);
      const RowQuotient<Arch> codes(scales[r]);
      for_steps<Arch>(a_.depth, [&](std::size_t d, auto n) {
        store_u8<Arch>(queries + r * a_.depth + d, n, codes(load<Arch>(q + d, n)) + I16<Arch>(128));
      });
      scales[r] = scales[r] * a_.scale;
    }
    const std::size_t last_row = first_row + count - 1;
    for (std::size_t key = 0; key < a_.limit(last_row / a_.heads); key += kAttentionKeys)
      block(first_row, key, state, sums);
    attention_divide<Arch>(a_, first_row, state, sums);
  }

  void block(std::size_t first_row, std::size_t key, AttentionState& state,
             const AttentionSums& sums) {
    const std::size_t begin =
        attention_first_row(a_, first_row, first_row + sums.rows, key) - first_row;
    const AttentionSums scores{floats(at_.scores), sums.rows, kAttentionKeys, kAttentionKeys};
    const std::int8_t* keys = keys_ + key / kAttentionKeys * key_block_;
    const std::int8_t* values = values_ + key / kAttentionKeys * value_block_;
    if (kept_ && sums.rows <= kFewRows && key + kAttentionKeys < a_.keys) {
      fetch(keys + key_block_, key_block_);
      fetch(values + value_block_, value_block_);
    }
    multiply({bytes(at_.queries), a_.depth, a_.depth, 128, keys, begin}, scores);
    const auto* key_scales = reinterpret_cast<const float*>(keys + key_scales_at(a_.depth));
    const float* query_scales = floats(at_.query_scales);
    AttentionBlock<Arch>(a_, key).mask_rows(
        first_row, begin, sums.rows, floats(at_.scores), state,
        [&](std::size_t r, const float* x, int part) FOLD8_INLINE_LAMBDA {
          return L::to_float(L::bits(load<Arch>(x + 16 * part, Full{}))) * V(query_scales[r]);
        },
        [&](int part) FOLD8_INLINE_LAMBDA { return load<Arch>(key_scales + 16 * part, Full{}); });
    alignas(64) float unit[kAttentionRows];
    weigh(reinterpret_cast<const float*>(values + value_scales_at(a_.value_depth)), begin,
          sums.rows, state, unit);
    AttentionSums products = sums;
    products.at += kAttentionRows * sums.width;
    multiply({bytes(at_.weights), kAttentionKeys, tokens(key), 0, values, begin}, products);
    sums.each_group([&](std::size_t first, std::size_t columns, float* o) {
      const float* product = products.at + first * sums.rows;
      for (std::size_t r = begin; r < sums.rows; ++r) {
        const V u(unit[r]), c(state.kept[r]);
        for (std::size_t e = r * columns; e < (r + 1) * columns; e += 16) {
          const V sum = L::to_float(L::bits(load<Arch>(product + e, Full{})));
          store<Arch>(o + e, Full{}, L::fma(sum, u, load<Arch>(o + e, Full{}) * c));
        }
      }
    });
  }

  // Few rows against kept keys wait for memory: the next block comes while this one is worked on.
  static constexpr std::size_t kFewRows = 16;
  static void fetch(const std::int8_t* block, std::size_t n) {
    for (std::size_t i = 0; i < n; i += 64) __builtin_prefetch(block + i);
  }

  // pq of rows [begin, end), and unit = a / 255. In three loops, since rows overlap in each but the
  // way through all three is long.
  void weigh(const float* scales, std::size_t begin, std::size_t end, AttentionState& state,
             float* unit) const {
    constexpr int kParts = AttentionBlock<Arch>::kParts;
    alignas(64) float largest[kAttentionRows][16];
    alignas(64) float inverse[kAttentionRows];
    float* scores = floats(at_.scores);
    for (std::size_t r = begin; r < end; ++r) {
      V p[kParts];
      float* x = scores + r * kAttentionKeys;
      AttentionBlock<Arch>::weigh(x, state, r, p);
      I16<Arch> most(0);
      for_parts<kParts>([&](int part) FOLD8_INLINE_LAMBDA {
        p[part] = p[part] * load<Arch>(scales + 16 * part, Full{});
        most = Memory16<Arch>::max(most, L::bits(p[part]));
        store<Arch>(x + 16 * part, Full{}, p[part]);
      });
      store<Arch>(largest[r], Full{}, L::from_bits(most));
    }
    AttentionBlock<Arch>::lengthen(state, begin, end);
    for (std::size_t r = begin; r < end; ++r) {
      float a = __builtin_bit_cast(
          float, Memory16<Arch>::fold_max(L::bits(load<Arch>(largest[r], Full{}))));
      a = a < 0x1p-100f ? 0x1p-100f : a;
      inverse[r] = 255.0f / a;
      unit[r] = a * (1.0f / 255.0f);
    }
    std::int8_t* codes = bytes(at_.weights);
    for (std::size_t r = begin; r < end; ++r) {
      const V by(inverse[r]);
      for_parts<kParts>([&](int part) FOLD8_INLINE_LAMBDA {
        const std::size_t at = r * kAttentionKeys + 16 * static_cast<std::size_t>(part);
        const V w = L::fma(load<Arch>(scores + at, Full{}), by, V(0x1.8p23f));
        store_u8<Arch>(codes + at, Full{}, L::bits(w) & I16<Arch>(255));
      });
    }
  }

  // Rows [begin, ..) of x times w.
  struct Product {
    const std::int8_t* x;
    std::size_t x_stride, depth;
    std::int32_t x_zero_point;
    const std::int8_t* w;
    std::size_t begin;
  };
  // Into y, as s32.
  void multiply(const Product& p, const AttentionSums& y) const {
    y.each_group([&](std::size_t n, std::size_t columns, float* sums) {
      if constexpr (EngineOf<Arch>::type::kMaxPanels == 4 && !EngineOf<Arch>::type::kWidened)
        tiles(p, y, n, columns, sums);
      else
        gemm(p, y, n, columns, sums);
    });
  }

  // Straight through the tiles, which leave their sums where they are wanted.
  void tiles(const Product& p, const AttentionSums& y, std::size_t n, std::size_t columns,
             float* to) const {
    using Engine = typename EngineOf<Arch>::type;
    alignas(64) std::int32_t init[64];
    const std::int32_t* sums = packed_s8_sums(p.w, y.width, p.depth) + n;
    for (std::size_t j = 0; j < columns; ++j) init[j] = -p.x_zero_point * sums[j];
    const std::size_t panels = columns / kPanelColumns, most = Engine::max_rows(panels);
    TileU8S8 t;
    t.k = p.depth;
    t.x_stride = p.x_stride;
    t.panel_bytes = s8_panel_bytes(p.depth);
    t.w = p.w + n / kPanelColumns * t.panel_bytes;
    t.init = init;
    t.columns = columns;
    for (std::size_t r = p.begin, rows; r < y.rows; r += rows) {
      rows = Engine::height(y.rows - r < most ? y.rows - r : most, panels);
      t.x = reinterpret_cast<const std::uint8_t*>(p.x) + r * p.x_stride;
      t.acc = reinterpret_cast<std::int32_t*>(to + r * columns);
      Engine::tile(rows, panels)(t);
    }
  }

  void gemm(const Product& p, const AttentionSums& y, std::size_t n, std::size_t columns,
            float* to) const {
    GemmU8S8Args g;
    g.m = y.rows - p.begin;
    g.n = y.width;
    g.k = p.depth;
    g.x = reinterpret_cast<const std::uint8_t*>(p.x) + p.begin * p.x_stride;
    g.x_stride = p.x_stride;
    g.x_zero_point = p.x_zero_point;
    g.w = p.w;
    g.epilogue.output_kind = OutputKind::s32;
    g.epilogue.y = to + p.begin * columns - n;
    g.epilogue.y_stride = columns;
    g.scratch = scratch_ + at_.gemm;
    g.m_end = g.m;
    g.panel_begin = n / kPanelColumns;
    g.panel_end = g.panel_begin + columns / kPanelColumns;
    gemm_u8s8<Arch>(g);
  }

  const AttentionArgs& a_;
  AttentionScratch at_;
  std::byte* scratch_;
  bool kept_;
  std::size_t key_block_, value_block_;
  const std::int8_t *keys_, *values_;
};

template <class Arch>
void attention_q8(const AttentionArgs& a) {
  if (a.row_begin < a.row_end) AttentionQ8<Arch>(a).run();
}

}  // namespace fold8::kernels::simd
