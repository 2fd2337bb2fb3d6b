#pragma once

#include <type_traits>

#include "runtime/kernels/math_simd.h"
#include "runtime/kernels/reduce.h"
#include "runtime/kernels/vec16_simd.h"

namespace fold8::kernels::simd {

// What a kind does to an accumulator, lane by lane.
template <class Arch, ReduceKind kind>
struct Reducer {
  using V = V16<Arch>;
  using L = Lanes<V>;
  using K = ReduceKind;
  static constexpr bool is_extreme = kind == K::max || kind == K::min;
  static constexpr float neutral() {
    return kind == K::prod  ? 1.0f
           : kind == K::max ? -__builtin_inff()
           : kind == K::min ? __builtin_inff()
                            : 0.0f;
  }
  static V term(V v, V m) {
    if constexpr (kind == K::l1) return generic::abs(v);
    if constexpr (kind == K::log_sum_exp) return generic::exp(v - m);
    return v;
  }
  static V step(V acc, V t) {
    if constexpr (kind == K::max) return generic::max(acc, t);
    if constexpr (kind == K::min) return generic::min(acc, t);
    if constexpr (kind == K::prod) return acc * t;
    if constexpr (kind == K::l2 || kind == K::sum_square) return L::fma(t, t, acc);
    return acc + t;
  }
  static V finish(V acc, std::size_t axis, V m) {
    if constexpr (kind == K::mean) return acc / V(static_cast<float>(axis));
    if constexpr (kind == K::l2) return L::sqrt(acc);
    if constexpr (kind == K::log_sum) return generic::log(acc);
    if constexpr (kind == K::log_sum_exp) return generic::log(acc) + m;
    return acc;
  }
};

// The offset log_sum_exp subtracts: 0 in place of an infinite maximum.
template <class Arch>
inline V16<Arch> finite_or_zero(V16<Arch> m) {
  return Lanes<V16<Arch>>::select(generic::abs(m) == V16<Arch>(__builtin_inff()), V16<Arch>(0.0f),
                                  m);
}

// n <= 16 outputs at once: element j of slice i is x[j * axis_step + i * slice_step].
template <class Arch, class N>
struct Slices {
  const float* x;
  std::size_t axis_step, slice_step;
  N n;
  V16<Arch> operator()(std::size_t j) const {
    if (slice_step == 1) return load<Arch>(x + j * axis_step, n);
    alignas(64) float t[16] = {};
    int lanes = 16;
    if constexpr (!std::is_same_v<N, Full>) lanes = n;
    for (int i = 0; i < lanes; ++i)
      t[i] = x[j * axis_step + static_cast<std::size_t>(i) * slice_step];
    return Memory16<Arch>::load(t);
  }
};

template <class Arch, ReduceKind kind, class N>
inline void reduce_slices(const Slices<Arch, N>& x, std::size_t axis, SumRule rule, float* y) {
  using V = V16<Arch>;
  using R = Reducer<Arch, kind>;
  V m(0.0f);
  if constexpr (kind == ReduceKind::log_sum_exp) {
    m = V(-__builtin_inff());
    for (std::size_t j = 0; j < axis; ++j) m = generic::max(m, x(j));
    m = finite_or_zero<Arch>(m);
  }
  V lane[16];
  for (V& v : lane) v = V(R::neutral());
  if (rule == SumRule::lanes && !R::is_extreme && kind != ReduceKind::prod) {
    for (std::size_t j = 0; j < axis; ++j) lane[j % 16] = R::step(lane[j % 16], R::term(x(j), m));
    for (int width = 8; width > 0; width /= 2)
      for (int k = 0; k < width; ++k) lane[k] = lane[k] + lane[k + width];
  } else {
    for (std::size_t j = 0; j < axis; ++j) lane[0] = R::step(lane[0], R::term(x(j), m));
  }
  store<Arch>(y, x.n, R::finish(lane[0], axis, m));
}

// The extreme of sixteen lanes in every lane; the order does not matter.
template <class Arch, ReduceKind kind>
inline V16<Arch> fold_extreme(V16<Arch> v) {
  alignas(64) float lane[16];
  Memory16<Arch>::store(lane, v);
  V16<Arch> m(lane[0]);
  for (float l : lane) m = Reducer<Arch, kind>::step(m, V16<Arch>(l));
  return m;
}

template <class Arch, ReduceKind kind>
inline V16<Arch> row_extreme(const float* x, std::size_t axis) {
  V16<Arch> acc(Reducer<Arch, kind>::neutral());
  for_steps<Arch>(axis, [&](std::size_t j, auto n) {
    acc = Reducer<Arch, kind>::step(
        acc, keep<Arch>(load<Arch>(x + j, n), n, Reducer<Arch, kind>::neutral()));
  });
  return fold_extreme<Arch, kind>(acc);
}

// One contiguous slice by the sixteen lanes of a register.
template <class Arch, ReduceKind kind>
inline float reduce_row(const float* x, std::size_t axis) {
  using V = V16<Arch>;
  using R = Reducer<Arch, kind>;
  V result(0.0f), m(0.0f);
  if constexpr (R::is_extreme) {
    result = row_extreme<Arch, kind>(x, axis);
  } else {
    if constexpr (kind == ReduceKind::log_sum_exp)
      m = finite_or_zero<Arch>(row_extreme<Arch, ReduceKind::max>(x, axis));
    V acc(0.0f);
    for_steps<Arch>(axis, [&](std::size_t j, auto n) {
      acc = R::step(acc, keep<Arch>(R::term(load<Arch>(x + j, n), m), n, 0.0f));
    });
    result = R::finish(V(fold_sum<Arch>(acc)), axis, m);
  }
  alignas(64) float lane[16];
  Memory16<Arch>::store(lane, result);
  return lane[0];
}

template <class Arch, ReduceKind kind>
inline void reduce_run(const ReduceArgs& args) {
  using R = Reducer<Arch, kind>;
  const bool free_order =
      R::is_extreme || (args.rule == SumRule::lanes && kind != ReduceKind::prod);
  if (args.inner == 1 && free_order) {
    for (std::size_t o = 0; o < args.outer; ++o)
      args.y[o] = reduce_row<Arch, kind>(args.x + o * args.axis, args.axis);
    return;
  }
  // Across slices: neighbours in inner, or whole rows when there is no inner.
  const bool rows = args.inner == 1;
  const std::size_t outer = rows ? 1 : args.outer, across = rows ? args.outer : args.inner;
  for (std::size_t o = 0; o < outer; ++o)
    for_steps<Arch>(across, [&](std::size_t i, auto n) {
      const float* x = rows ? args.x + i * args.axis : args.x + o * args.axis * args.inner + i;
      const Slices<Arch, decltype(n)> slices{x, args.inner, rows ? args.axis : 1, n};
      reduce_slices<Arch, kind>(slices, args.axis, args.rule, args.y + o * across + i);
    });
}

template <class Arch>
void reduce(const ReduceArgs& args) {
  switch (args.kind) {
    case ReduceKind::sum:
      return reduce_run<Arch, ReduceKind::sum>(args);
    case ReduceKind::mean:
      return reduce_run<Arch, ReduceKind::mean>(args);
    case ReduceKind::max:
      return reduce_run<Arch, ReduceKind::max>(args);
    case ReduceKind::min:
      return reduce_run<Arch, ReduceKind::min>(args);
    case ReduceKind::prod:
      return reduce_run<Arch, ReduceKind::prod>(args);
    case ReduceKind::l1:
      return reduce_run<Arch, ReduceKind::l1>(args);
    case ReduceKind::l2:
      return reduce_run<Arch, ReduceKind::l2>(args);
    case ReduceKind::sum_square:
      return reduce_run<Arch, ReduceKind::sum_square>(args);
    case ReduceKind::log_sum:
      return reduce_run<Arch, ReduceKind::log_sum>(args);
    case ReduceKind::log_sum_exp:
      return reduce_run<Arch, ReduceKind::log_sum_exp>(args);
  }
}

}  // namespace fold8::kernels::simd
