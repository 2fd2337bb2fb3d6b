// Vector body of attention_q8 (attention.h): both products through the INT8 tiles. Include only
// from targets/*.cc.
#pragma once

#include <cstring>

#include "runtime/kernels/attention_simd.h"
#include "runtime/kernels/gemm_u8s8_simd.h"
#include "runtime/kernels/quantize_quotient_simd.h"
#include "runtime/kernels/quantize_simd.h"
#include "runtime/kernels/transpose_tile_simd.h"

namespace fold8::kernels::simd {

// dynamic_row_scale of quantize_ref.h for a row.
template <class Arch>
FOLD8_INLINE float attention_row_scale(const float* x, std::size_t n) {
  I16<Arch> largest(0);
  for_steps<Arch>(n, [&](std::size_t j, auto m) {
    largest = Memory16<Arch>::max(largest, magnitude_bits<Arch>(load<Arch>(x + j, m)));
  });
  const float m = __builtin_bit_cast(float, Memory16<Arch>::fold_max(largest)), s = m / 127.0f;
  return !(m < __builtin_inff()) ? __builtin_nanf("") : s < 0x1p-126f ? 0x1p-126f : s;
}

// pack_s8.h of `count` keys rounded per token, as columns. codes: room for 64 rows of round_up(n,
// 4).
template <class Arch>
void attention_pack_keys(const AttentionArgs& a, std::size_t first, std::size_t count,
                         std::int8_t* codes, std::int8_t* packed, float* scales) {
  const std::size_t groups = s8_groups(a.depth), row = groups * kGroupDepth,
                    panels = s8_panels(count);
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
    const RoundQuotient<Arch> round(scales[j], 0, -127, 127);
    I16<Arch> sum(0);
    for_steps<Arch>(a.depth, [&](std::size_t d, auto n) {
      const I16<Arch> code = round(load<Arch>(k + d, n));
      sum = sum + code;
      store_u8<Arch>(q + d, n, code);
    });
    alignas(64) std::int32_t lane[16];
    for (int part = 0; part < I16<Arch>::kParts; ++part)
      sum.part[part].store_aligned(lane + part * 16 / I16<Arch>::kParts);
    for (std::int32_t s : lane) sums[j] += s;
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
    for (std::size_t i = 0; i < here; ++i)
      scales[t + i] = attention_row_scale<Arch>(v + i * a.v_stride, a.value_depth);
    for_steps<Arch>(a.value_depth, [&](std::size_t e, auto n) {
      I16<Arch> word(0);
      for (std::size_t i = 0; i < here; ++i) {
        const RoundQuotient<Arch> round(scales[t + i], 0, -127, 127);
        const I16<Arch> code = round(load<Arch>(v + i * a.v_stride + e, n)) & I16<Arch>(255);
        word = word | (code << static_cast<int>(8 * i));
      }
      if constexpr (!std::is_same_v<decltype(n), Full>)
        word = Lanes<V16<Arch>>::bits(keep<Arch>(Lanes<V16<Arch>>::from_bits(word), n, 0.0f));
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
    const AttentionSums sums{floats(at_.sums), count, width, width};
    std::memset(sums.at, 0, count * width * sizeof(float));
    auto* queries = reinterpret_cast<std::uint8_t*>(bytes(at_.queries));
    float* scales = floats(at_.query_scales);
    for (std::size_t r = 0; r < count; ++r) {
      const std::size_t row = first_row + r;
      QuantizeRowsArgs q;
      q.x = a_.q + row / a_.heads * a_.q_stride + row % a_.heads * a_.q_head_stride;
      q.rows = 1;
      q.cols = a_.depth;
      q.q = queries + r * a_.depth;
      q.scales = scales + r;
      quantize_rows<Arch>(q);
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
    multiply(sums.rows, begin, bytes(at_.queries), a_.depth, a_.depth, 128,
             bytes(at_.keys + key / kAttentionKeys * at_.key_block), count(key), at_.scores,
             kAttentionKeys);
    const AttentionBlock<Arch> keys(a_, key);
    const float* key_scales = floats(at_.key_scales) + key;
    const float* query_scales = floats(at_.query_scales);
    for (std::size_t r = begin; r < sums.rows; ++r) {
      float* x = floats(at_.scores) + r * kAttentionKeys;
      const V scale(query_scales[r]);
      keys.mask(
          first_row + r, x, state, r,
          [&](int part) FOLD8_INLINE_LAMBDA {
            return L::to_float(L::bits(load<Arch>(x + 16 * part, Full{}))) * scale;
          },
          [&](int part) FOLD8_INLINE_LAMBDA { return load<Arch>(key_scales + 16 * part, Full{}); });
    }
    for (std::size_t r = 0; r < begin; ++r) state.next_top[r] = state.top[r];
    AttentionBlock<Arch>::factors(state);
    float unit[kAttentionRows];
    for (std::size_t r = begin; r < sums.rows; ++r) unit[r] = weigh(key, r, state);
    const std::size_t width = sums.width;
    multiply(sums.rows, begin, bytes(at_.weights), kAttentionKeys, count(key), 0,
             bytes(at_.values + key / kAttentionKeys * at_.value_block), a_.value_depth,
             at_.sums + kAttentionRows * width * sizeof(float), width);
    const float* products = floats(at_.sums) + kAttentionRows * width;
    for (std::size_t r = begin; r < sums.rows; ++r) {
      const V u(unit[r]), c(state.kept[r]);
      for (std::size_t e = 0; e < width; e += 16) {
        float* o = sums.at + r * width + e;
        const V sum = L::to_float(L::bits(load<Arch>(products + r * width + e, Full{})));
        store<Arch>(o, Full{}, L::fma(sum, u, load<Arch>(o, Full{}) * c));
      }
    }
  }

  // pq of one row; a / 255.
  float weigh(std::size_t key, std::size_t r, AttentionState& state) const {
    constexpr int kParts = AttentionBlock<Arch>::kParts;
    V p[kParts];
    AttentionBlock<Arch>::weigh(floats(at_.scores) + r * kAttentionKeys, state, r, p);
    const float* scales = floats(at_.value_scales) + key;
    I16<Arch> largest(0);
    for_parts<kParts>([&](int part) FOLD8_INLINE_LAMBDA {
      p[part] = p[part] * load<Arch>(scales + 16 * part, Full{});
      largest = Memory16<Arch>::max(largest, L::bits(p[part]));
    });
    float a = __builtin_bit_cast(float, Memory16<Arch>::fold_max(largest));
    a = a < 0x1p-100f ? 0x1p-100f : a;
    const V inverse(255.0f / a);
    std::int8_t* codes = bytes(at_.weights) + r * kAttentionKeys;
    for_parts<kParts>([&](int part) FOLD8_INLINE_LAMBDA {
      store_u8<Arch>(codes + 16 * part, Full{}, L::to_int(L::round(p[part] * inverse)));
    });
    return a * (1.0f / 255.0f);
  }

  // s32 at scratch + y [rows][y_stride] = x * w for rows [begin, rows).
  void multiply(std::size_t rows, std::size_t begin, const std::int8_t* x, std::size_t x_stride,
                std::size_t depth, std::int32_t zero_point, const std::int8_t* w,
                std::size_t columns, std::size_t y, std::size_t y_stride) const {
    GemmU8S8Args g;
    g.m = rows;
    g.n = columns;
    g.k = depth;
    g.x = reinterpret_cast<const std::uint8_t*>(x);
    g.x_stride = x_stride;
    g.x_zero_point = zero_point;
    g.w = w;
    g.epilogue.output_kind = OutputKind::s32;
    g.epilogue.y = scratch_ + y;
    g.epilogue.y_stride = y_stride;
    g.scratch = scratch_ + at_.gemm;
    g.m_begin = begin;
    g.m_end = rows;
    g.panel_end = s8_panels(columns);
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
