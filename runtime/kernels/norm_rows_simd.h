#pragma once

#include "runtime/kernels/norm_output_simd.h"

namespace fold8::kernels::simd {

// Rows go four at a time: the order inside a row sum is fixed, so only other rows can fill the
// latency of an add.
inline constexpr int kNormRows = 4;

// row[j] = v[j] of norm.h.
template <class Arch>
inline void norm_input(const NormRowsArgs& args, std::size_t i, float* row) {
  using V = V16<Arch>;
  using L = Lanes<V>;
  const std::size_t at = i * args.cols;
  const V s(args.row_scale != nullptr ? args.row_scale[i] : 1.0f);
  for_steps<Arch>(args.cols, [&](std::size_t j, auto n) {
    V v;
    if (args.acc != nullptr) {
      v = L::to_float(load<Arch>(args.acc + at + j, n));
      if (args.row_scale != nullptr) v = v * s;
      v = L::fma(v, load<Arch>(args.multiplier + j, n),
                 args.offset != nullptr ? load<Arch>(args.offset + j, n) : V(0.0f));
    } else {
      v = load<Arch>(args.x + at + j, n);
    }
    if (args.residual != nullptr) v = v + load<Arch>(args.residual + at + j, n);
    store<Arch>(row + j, n, v);
  });
}

// sums[r] = row sum of step(acc, v, r) over row r.
template <class Arch, int R, class Step>
inline void row_sums(const float* const (&v)[R], std::size_t cols, float (&sums)[R], Step&& step) {
  using V = V16<Arch>;
  V acc[R];
  for_parts<R>([&](int r) FOLD8_INLINE_LAMBDA { acc[r] = V(0.0f); });
  for_steps<Arch>(cols, [&](std::size_t j, auto n) FOLD8_INLINE_LAMBDA {
    for_parts<R>([&](int r)
                     FOLD8_INLINE_LAMBDA { acc[r] = step(acc[r], load<Arch>(v[r] + j, n), r, n); });
  });
  for_parts<R>([&](int r) FOLD8_INLINE_LAMBDA { sums[r] = fold_sum<Arch>(acc[r]); });
}

template <class Arch, int R>
inline void rms_rows(const NormRowsArgs& args, std::size_t first, const float* const (&v)[R]) {
  using V = V16<Arch>;
  float sums[R];
  row_sums<Arch, R>(v, args.cols, sums, [](V acc, V x, int, auto) FOLD8_INLINE_LAMBDA {
    return Lanes<V>::fma(x, x, acc);
  });
  const NormScale<Arch> scale{args.kind, args.gamma, args.beta};
  for (int r = 0; r < R; ++r) {
    const V factor(1.0f / __builtin_sqrtf(sums[r] / static_cast<float>(args.cols) + args.epsilon));
    const float* row = v[r];
    write_norm_row<Arch>(
        args.out, first + static_cast<std::size_t>(r), args.cols,
        [&](std::size_t j, auto n) { return scale(j, n, load<Arch>(row + j, n) * factor); });
  }
}

template <class Arch, int R>
inline void layer_rows(const NormRowsArgs& args, std::size_t first, const float* const (&v)[R]) {
  using V = V16<Arch>;
  const float d = static_cast<float>(args.cols);
  float sums[R], mu[R];
  V m[R];
  row_sums<Arch, R>(v, args.cols, sums,
                    [](V acc, V x, int, auto) FOLD8_INLINE_LAMBDA { return acc + x; });
  for (int r = 0; r < R; ++r) mu[r] = sums[r] / d, m[r] = V(mu[r]);
  row_sums<Arch, R>(v, args.cols, sums, [&](V acc, V x, int r, auto n) FOLD8_INLINE_LAMBDA {
    return acc + keep<Arch>(x - m[r], n, 0.0f);
  });
  for (int r = 0; r < R; ++r) mu[r] = mu[r] + sums[r] / d, m[r] = V(mu[r]);
  row_sums<Arch, R>(v, args.cols, sums, [&](V acc, V x, int r, auto n) FOLD8_INLINE_LAMBDA {
    const V c = keep<Arch>(x - m[r], n, 0.0f);
    return Lanes<V>::fma(c, c, acc);
  });
  const NormScale<Arch> scale{args.kind, args.gamma, args.beta};
  for (int r = 0; r < R; ++r) {
    const V factor(1.0f / __builtin_sqrtf(sums[r] / d + args.epsilon)), mean(mu[r]);
    const float* row = v[r];
    write_norm_row<Arch>(args.out, first + static_cast<std::size_t>(r), args.cols,
                         [&](std::size_t j, auto n) {
                           return scale(j, n, (load<Arch>(row + j, n) - mean) * factor);
                         });
  }
}

template <class Arch, int R>
inline void norm_some_rows(const NormRowsArgs& args, std::size_t first) {
  const float* v[R];
  for (int r = 0; r < R; ++r) {
    const std::size_t i = first + static_cast<std::size_t>(r), at = i * args.cols;
    if (args.acc == nullptr && args.residual == nullptr && args.sum_out == nullptr) {
      v[r] = args.x + at;
      continue;
    }
    float* row = args.sum_out != nullptr ? args.sum_out + at
                 : args.out.y != nullptr ? args.out.y + at
                                         : args.scratch + static_cast<std::size_t>(r) * args.cols;
    norm_input<Arch>(args, i, row);
    v[r] = row;
  }
  if (args.kind == NormKind::rms) return rms_rows<Arch, R>(args, first, v);
  layer_rows<Arch, R>(args, first, v);
}

template <class Arch>
void norm_rows(const NormRowsArgs& args) {
  const bool needs_row = args.acc != nullptr || args.residual != nullptr;
  const bool one_scratch_row = needs_row && args.sum_out == nullptr && args.out.y == nullptr &&
                               args.scratch_rows < kNormRows;
  std::size_t i = 0;
  if (!one_scratch_row)
    for (; i + kNormRows <= args.rows; i += kNormRows) norm_some_rows<Arch, kNormRows>(args, i);
  for (; i < args.rows; ++i) norm_some_rows<Arch, 1>(args, i);
}

}  // namespace fold8::kernels::simd
