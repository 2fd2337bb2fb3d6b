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

// pack_s8.h of `count` keys rounded per token, as columns. codes: room for 64 rows of round_up(n,
// 4).
template <class Arch>
void attention_pack_keys(const AttentionArgs& a, std::size_t first, std::size_t count,
                         std::int8_t* codes, std::int8_t* packed, float* scales) {
  constexpr std::size_t panels = kAttentionKeys / kPanelColumns;
  const std::size_t groups = s8_groups(a.depth), row = groups * kGroupDepth;
  auto* sums = reinterpret_cast<std::int32_t*>(packed + panels * s8_panel_bytes(a.depth));
  for (std::size_t j = 0; j < panels * kPanelColumns; ++j) {
    std::int8_t* q = codes + j * row;
    sums[j] = 0;
    if (j >= count) {
      std::memset(q, 0, row);
      continue;
    }
    const float* k = a.k + (first + j) * a.k_stride;
    scales[j] = attention_row_scale<Arch>(k, a.depth);
    std::memset(q + a.depth, 0, row - a.depth);
    const RowQuotient<Arch> codes_of(scales[j]);
    I16<Arch> sum(0);
    for_steps<Arch>(a.depth, [&](std::size_t d, auto n) {
      const I16<Arch> code = codes_of(load<Arch>(k + d, n));
      sum = sum + code;
      store_u8<Arch>(q + d, n, code);
    });
    sums[j] = Memory16<Arch>::fold_sum(sum);
  }
  for (std::size_t panel = 0; panel < panels; ++panel, packed += s8_panel_bytes(a.depth)) {
    const std::int8_t* from = codes + panel * kPanelColumns * row;
    std::size_t g = 0;
    for (; g + 8 <= groups; g += 8)
      for (std::size_t j = 0; j < kPanelColumns; j += 8)
        transpose_8x8<Arch>(reinterpret_cast<const float*>(from + j * row) + g, groups,
                            reinterpret_cast<float*>(packed) + g * kPanelColumns + j,
                            kPanelColumns);
    for (; g < groups; ++g)
      for (std::size_t j = 0; j < kPanelColumns; ++j)
        std::memcpy(packed + (g * kPanelColumns + j) * kGroupDepth,
                    from + j * row + g * kGroupDepth, kGroupDepth);
  }
}

// pack_s8.h of `count` tokens of v rounded per token: they are the depth, v's elements the columns.
// Sums are not needed: p has zero point 0.
template <class Arch>
void attention_pack_values(const AttentionArgs& a, std::size_t first, std::size_t count,
                           std::int8_t* packed, float* scales) {
  const std::size_t panel = s8_panel_bytes(count);
  std::memset(packed + s8_panels(a.value_depth) * panel, 0,
              s8_panels(a.value_depth) * kPanelColumns * sizeof(std::int32_t));
  for (std::size_t t = 0; t < count; t += kGroupDepth, packed += kPanelColumns * kGroupDepth) {
    const std::size_t here = count - t < kGroupDepth ? count - t : kGroupDepth;
    const float* v = a.v + (first + t) * a.v_stride;
    std::optional<RowQuotient<Arch>> codes_of[kGroupDepth];
    for (std::size_t i = 0; i < here; ++i) {
      scales[t + i] = attention_row_scale<Arch>(v + i * a.v_stride, a.value_depth);
      codes_of[i].emplace(scales[t + i]);
    }
    for_steps<Arch>(a.value_depth, [&](std::size_t e, auto n) {
      I16<Arch> word(0);
      for (std::size_t i = 0; i < here; ++i) {
        const I16<Arch> code = (*codes_of[i])(load<Arch>(v + i * a.v_stride + e, n));
        word = word | ((code & I16<Arch>(255)) << static_cast<int>(8 * i));
      }
      store<Arch>(reinterpret_cast<float*>(packed + e / kPanelColumns * panel), Full{},
                  Lanes<V16<Arch>>::from_bits(word));
    });
  }
}

template <class Arch>
class AttentionQ8 {
 public:
  using V = V16<Arch>;
  using L = Lanes<V>;

  explicit AttentionQ8(const AttentionArgs& a)
      : a_(a), at_(a.keys, a.depth, a.value_depth), scratch_(static_cast<std::byte*>(a.scratch)) {}

  void run() {
    for (std::size_t key = 0, block = 0; key < a_.keys; key += kAttentionKeys, ++block) {
      for (std::size_t j = count(key); j < kAttentionKeys; ++j)
        floats(at_.key_scales)[key + j] = floats(at_.value_scales)[key + j] = 0.0f;
      attention_pack_keys<Arch>(a_, key, count(key), bytes(at_.codes),
                                bytes(at_.keys + block * at_.key_block),
                                floats(at_.key_scales) + key);
      attention_pack_values<Arch>(a_, key, count(key), bytes(at_.values + block * at_.value_block),
                                  floats(at_.value_scales) + key);
    }
    for (std::size_t row = a_.row_begin; row < a_.row_end; row += kAttentionRows)
      rows(row, a_.row_end - row < kAttentionRows ? a_.row_end - row : kAttentionRows);
  }

 private:
  float* floats(std::size_t offset) const { return reinterpret_cast<float*>(scratch_ + offset); }
  std::int8_t* bytes(std::size_t offset) const {
    return reinterpret_cast<std::int8_t*>(scratch_ + offset);
  }
  std::size_t count(std::size_t key) const {
    return a_.keys - key < kAttentionKeys ? a_.keys - key : kAttentionKeys;
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
    multiply({bytes(at_.queries), a_.depth, a_.depth, 128,
              bytes(at_.keys + key / kAttentionKeys * at_.key_block), begin},
             scores);
    const float* key_scales = floats(at_.key_scales) + key;
    const float* query_scales = floats(at_.query_scales);
    AttentionBlock<Arch>(a_, key).mask_rows(
        first_row, begin, sums.rows, floats(at_.scores), state,
        [&](std::size_t r, const float* x, int part) FOLD8_INLINE_LAMBDA {
          return L::to_float(L::bits(load<Arch>(x + 16 * part, Full{}))) * V(query_scales[r]);
        },
        [&](int part) FOLD8_INLINE_LAMBDA { return load<Arch>(key_scales + 16 * part, Full{}); });
    alignas(64) float unit[kAttentionRows];
    weigh(key, begin, sums.rows, state, unit);
    AttentionSums products = sums;
    products.at += kAttentionRows * sums.width;
    multiply({bytes(at_.weights), kAttentionKeys, count(key), 0,
              bytes(at_.values + key / kAttentionKeys * at_.value_block), begin},
             products);
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

  // pq of rows [begin, end), and unit = a / 255. In three loops, since rows overlap in each but the
  // way through all three is long.
  void weigh(std::size_t key, std::size_t begin, std::size_t end, AttentionState& state,
             float* unit) const {
    constexpr int kParts = AttentionBlock<Arch>::kParts;
    alignas(64) float largest[kAttentionRows][16];
    alignas(64) float inverse[kAttentionRows];
    const float* scales = floats(at_.value_scales) + key;
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
};

template <class Arch>
void attention_q8(const AttentionArgs& a) {
  if (a.row_begin < a.row_end) AttentionQ8<Arch>(a).run();
}

}  // namespace fold8::kernels::simd
