#pragma once

#include "runtime/kernels/reduce_simd.h"

namespace fold8::kernels::simd {

// The extreme first, then where it is: both passes are vectors.
template <class Arch, ReduceKind kind>
inline std::int64_t arg_row(const float* x, std::size_t axis, bool last) {
  using V = V16<Arch>;
  const V m = row_extreme<Arch, kind>(x, axis);
  const bool nan = Memory16<Arch>::any_mask(Lanes<V>::is_nan(m)) != 0;
  std::int64_t found = 0;
  for (std::size_t step = 0; step * 16 < axis; ++step) {
    const std::size_t j = (last ? (axis - 1) / 16 - step : step) * 16, left = axis - j;
    const V v = left >= 16 ? load<Arch>(x + j, Full{}) : load<Arch>(x + j, static_cast<int>(left));
    unsigned hit = Memory16<Arch>::any_mask(nan ? Lanes<V>::is_nan(v) : v == m);
    if (left < 16) hit &= (1u << left) - 1;
    if (hit == 0) continue;
    const int lane = last ? 31 - __builtin_clz(hit) : __builtin_ctz(hit);
    found = static_cast<std::int64_t>(j) + lane;
    break;
  }
  return found;
}

// n <= 16 neighbouring slices, `inner` between the elements of one.
template <class Arch, ReduceKind kind, class N>
inline void arg_columns(const float* x, const ArgReduceArgs& args, std::int64_t* index, N n) {
  using V = V16<Arch>;
  V best = load<Arch>(x, n);
  std::int64_t at[16] = {};
  for (std::size_t j = 1; j < args.axis; ++j) {
    const V v = load<Arch>(x + j * args.inner, n);
    const unsigned v_nan = Memory16<Arch>::any_mask(Lanes<V>::is_nan(v)),
                   b_nan = Memory16<Arch>::any_mask(Lanes<V>::is_nan(best));
    const unsigned beyond = Memory16<Arch>::any_mask(kind == ReduceKind::max ? v > best : v < best);
    const unsigned equal = Memory16<Arch>::any_mask(v == best) | (v_nan & b_nan);
    const unsigned better = beyond | (v_nan & ~b_nan) | (args.select_last ? equal : 0u);
    if (better == 0) continue;
    for (unsigned rest = better; rest != 0; rest &= rest - 1)
      at[__builtin_ctz(rest)] = static_cast<std::int64_t>(j);
    best = Reducer<Arch, kind>::step(best, v);
  }
  int lanes = 16;
  if constexpr (!std::is_same_v<N, Full>) lanes = n;
  for (int i = 0; i < lanes; ++i) index[i] = at[i];
}

template <class Arch, ReduceKind kind>
inline void arg_run(const ArgReduceArgs& args) {
  for (std::size_t o = 0; o < args.outer; ++o) {
    const float* x = args.x + o * args.axis * args.inner;
    std::int64_t* index = args.index + o * args.inner;
    if (args.inner == 1)
      index[0] = arg_row<Arch, kind>(x, args.axis, args.select_last);
    else
      for_steps<Arch>(args.inner, [&](std::size_t i, auto n) {
        arg_columns<Arch, kind>(x + i, args, index + i, n);
      });
  }
}

template <class Arch>
void arg_reduce(const ArgReduceArgs& args) {
  if (args.largest)
    arg_run<Arch, ReduceKind::max>(args);
  else
    arg_run<Arch, ReduceKind::min>(args);
}

}  // namespace fold8::kernels::simd
