// What both vector bodies of attention.h share: scores to weights, one block of keys at a time.
// Include only from *_simd.h.
#pragma once

#include "runtime/kernels/attention_scratch.h"
#include "runtime/kernels/math_simd.h"
#include "runtime/kernels/vec16_simd.h"

namespace fold8::kernels::simd {

// Keys [first, first + 64) of those to pack, and where their block lies.
struct AttentionPart {
  std::size_t first, begin, end;  // begin and end within the block
  std::size_t block;

  // f(part) for each block with keys of [begin, end), and for one that only ends in front of begin.
  template <class Function>
  static void each(std::size_t begin, std::size_t end, Function&& f) {
    for (std::size_t b = begin / kAttentionKeys; b * kAttentionKeys < end; ++b) {
      const std::size_t first = b * kAttentionKeys, left = end - first;
      f(AttentionPart{first, begin > first ? begin - first : 0,
                      left < kAttentionKeys ? left : kAttentionKeys, b});
    }
  }
};

// Up to kAttentionRows rows on their way through the blocks.
struct AttentionState {
  alignas(64) float top[kAttentionRows], next_top[kAttentionRows], length[kAttentionRows],
      kept[kAttentionRows];                    // m, m', l, c
  alignas(64) float sums[kAttentionRows][16];  // of p, a lane each

  explicit AttentionState(std::size_t rows) {
    for (std::size_t r = 0; r < kAttentionRows; ++r) top[r] = -__builtin_inff();
    for (std::size_t r = 0; r < kAttentionRows; ++r) length[r] = 0.0f;
    for (std::size_t r = rows; r < kAttentionRows; ++r) next_top[r] = 0.0f;
  }
};

template <class Arch>
class AttentionBlock {
 public:
  using V = V16<Arch>;
  using L = Lanes<V>;
  static constexpr int kParts = static_cast<int>(kAttentionKeys) / 16;

  AttentionBlock(const AttentionArgs& a, std::size_t first_key) : a_(a), first_(first_key) {}

  // Raw scores of rows [begin, end) to x, in place, [row][64]; then the new tops and c of all rows:
  // those before begin see nothing of this block. load(row, its scores, part) is t without its last
  // factor, factor(part) that.
  template <class Load, class Factor>
  FOLD8_INLINE void mask_rows(std::size_t first_row, std::size_t begin, std::size_t end,
                              float* scores, AttentionState& state, const Load& load,
                              const Factor& factor) const {
    std::size_t query = (first_row + begin) / a_.heads, head = (first_row + begin) % a_.heads;
    for (std::size_t r = begin; r < end; ++r) {
      float* x = scores + r * kAttentionKeys;
      mask(
          query, head, x, state, r, [&](int part) FOLD8_INLINE_LAMBDA { return load(r, x, part); },
          factor);
      if (++head == a_.heads) head = 0, ++query;
    }
    for (std::size_t r = 0; r < begin; ++r) state.next_top[r] = state.top[r];
    factors(state, end);
  }

  // p of one row, and the lanes of its sum.
  FOLD8_INLINE static void weigh(const float* x, AttentionState& state, std::size_t at,
                                 V (&p)[kParts]) {
    const float top = state.top[at];
    V sum(0.0f);
    if (top == -__builtin_inff()) {
      for_parts<kParts>([&](int part) FOLD8_INLINE_LAMBDA {
        const V v = load<Arch>(x + 16 * part, Full{});
        p[part] = L::select(L::is_nan(v), v, V(0.0f));
        sum = sum + p[part];
      });
    } else {
      for_parts<kParts>([&](int part) FOLD8_INLINE_LAMBDA {
        p[part] = generic::exp_not_above_one(load<Arch>(x + 16 * part, Full{}) - V(top));
        sum = sum + p[part];
      });
    }
    store<Arch>(state.sums[at], Full{}, sum);
  }

  // l of rows [begin, end), in a loop of its own: a fold is a long chain, but rows overlap.
  static void lengthen(AttentionState& state, std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
      state.length[r] = __builtin_fmaf(state.length[r], state.kept[r],
                                       fold_sum<Arch>(load<Arch>(state.sums[r], Full{})));
  }

 private:
  // Raw scores of a row to x, in place, and its new top. load(j) is t without its last factor;
  // factor(j) is that.
  template <class Load, class Factor>
  FOLD8_INLINE void mask(std::size_t query, std::size_t head, float* x, AttentionState& state,
                         std::size_t at, const Load& load, const Factor& factor) const {
    const std::size_t limit = a_.limit(query),
                      seen = limit - first_ < kAttentionKeys ? limit - first_ : kAttentionKeys;
    const Mask mask(a_, query, head, first_);
    V top(-__builtin_inff());
    for_parts<kParts>([&](int part) FOLD8_INLINE_LAMBDA {
      const std::size_t j = 16 * static_cast<std::size_t>(part);
      const int n = seen >= j + 16 ? 16 : seen > j ? static_cast<int>(seen - j) : 0;
      V v(-__builtin_inff());
      if (n > 0) {
        v = mask.apply(load(part), factor(part), j, n);
        if (n < 16) v = keep<Arch>(v, n, -__builtin_inff());
      }
      top = L::max(v, top);
      store<Arch>(x + j, Full{}, v);
    });
    const float before = state.top[at], largest = Memory16<Arch>::fold_max(top);
    state.next_top[at] = largest > before ? largest : before;
  }

  // c of rows [0, end); what a block with nothing in it keeps is everything.
  static void factors(AttentionState& state, std::size_t end) {
    const V nothing(-__builtin_inff()), one(1.0f);
    for (std::size_t r = 0; r < end; r += 16) {
      const V top = load<Arch>(state.next_top + r, Full{});
      const V c = generic::exp(load<Arch>(state.top + r, Full{}) - top);
      store<Arch>(state.kept + r, Full{}, L::select(top == nothing, one, c));
      store<Arch>(state.top + r, Full{}, top);
    }
  }

  // The mask of one row.
  struct Mask {
    const AttentionArgs& a;
    const float* mask;
    const std::uint8_t* visible;

    FOLD8_INLINE Mask(const AttentionArgs& args, std::size_t query, std::size_t head,
                      std::size_t first)
        : a(args) {
      const std::size_t at =
          query * a.mask_stride + head * a.mask_head_stride + first * a.mask_step;
      mask = a.mask ? a.mask + at : nullptr;
      visible = a.visible ? a.visible + at : nullptr;
    }
    FOLD8_INLINE V added(std::size_t j, int n) const {
      if (mask == nullptr) return V(0.0f);
      if (a.mask_step == 0) return V(*mask);
      return n == 16 ? load<Arch>(mask + j, Full{}) : load<Arch>(mask + j, n);
    }
    FOLD8_INLINE V apply(V score, V factor, std::size_t j, int n) const {
      V x;
      if (a.softcap > 0)
        x = V(a.softcap) * generic::tanh((score * factor) / V(a.softcap)) + added(j, n);
      else
        x = L::fma(score, factor, added(j, n));
      if (visible == nullptr) return x;
      const I16<Arch> codes = a.mask_step == 0 ? I16<Arch>(*visible)
                              : n == 16        ? load_u8<Arch>(visible + j, Full{})
                                               : load_u8<Arch>(visible + j, n);
      return L::select(L::to_float(codes) == V(0.0f), V(-__builtin_inff()), x);
    }
  };

  const AttentionArgs& a_;
  std::size_t first_;
};

// Sums of rows that multiply values: groups of up to `group` columns, [rows][columns of the group]
// each, as the tiles write them.
struct AttentionSums {
  float* at;
  std::size_t rows, width, group;

  // f(first column, columns, [rows][columns])
  template <class Function>
  FOLD8_INLINE void each_group(Function&& f) const {
    float* sums = at;
    for (std::size_t e = 0; e < width; e += group) {
      const std::size_t here = width - e < group ? width - e : group;
      f(e, here, sums);
      sums += rows * here;
    }
  }
};

// y = O / l + 0
template <class Arch>
void attention_divide(const AttentionArgs& a, std::size_t first_row, const AttentionState& state,
                      const AttentionSums& sums) {
  using V = V16<Arch>;
  sums.each_group([&](std::size_t first, std::size_t columns, const float* from) {
    const std::size_t left = a.value_depth - first, count = left < columns ? left : columns;
    std::size_t query = first_row / a.heads, head = first_row % a.heads;
    for (std::size_t r = 0; r < sums.rows; ++r, from += columns) {
      float* y = a.y + query * a.y_stride + head * a.y_head_stride + first;
      const V length(state.length[r]);
      for_steps<Arch>(count, [&](std::size_t e, auto n) {
        store<Arch>(y + e, n, load<Arch>(from + e, n) / length + V(0.0f));
      });
      if (++head == a.heads) head = 0, ++query;
    }
  });
}

// The first of rows [first, end) that sees keys from `key` on: with `causal` later queries see
// more.
inline std::size_t attention_first_row(const AttentionArgs& a, std::size_t first, std::size_t end,
                                       std::size_t key) {
  if (!a.causal) return first;
  while (first < end && a.limit(first / a.heads) <= key) ++first;
  return first;
}

}  // namespace fold8::kernels::simd
