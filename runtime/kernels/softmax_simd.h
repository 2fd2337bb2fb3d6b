#pragma once

#include "runtime/kernels/math_simd.h"
#include "runtime/kernels/softmax.h"
#include "runtime/kernels/vec16_simd.h"

namespace fold8::kernels::simd {

// One contiguous row. The maximum need not see NaN here: a NaN in the row makes the sum NaN, and so
// every output.
template <class Arch>
inline void softmax_row(const float* x, float* y, std::size_t axis, bool log) {
  using V = V16<Arch>;
  using L = Lanes<V>;
  const float inf = __builtin_inff();
  V top(-inf);
  for_steps<Arch>(axis, [&](std::size_t j, auto n) {
    top = L::max(keep<Arch>(load<Arch>(x + j, n), n, -inf), top);
  });
  alignas(64) float lane[16];
  Memory16<Arch>::store(lane, top);
  float largest = -inf;
  for (float v : lane) largest = v > largest ? v : largest;
  const V m(largest);
  V sum(0.0f);
  for_steps<Arch>(axis, [&](std::size_t j, auto n) {
    const V v = load<Arch>(x + j, n) - m;
    const V e = generic::exp(v);
    sum = sum + keep<Arch>(e, n, 0.0f);
    store<Arch>(y + j, n, log ? v : e);
  });
  const V l(fold_sum<Arch>(sum)), log_l = generic::log(l);
  for_steps<Arch>(axis, [&](std::size_t j, auto n) {
    const V v = load<Arch>(y + j, n);
    store<Arch>(y + j, n, log ? v - log_l : v / l);
  });
}

// n <= 16 neighbouring slices whose elements are `step` apart: a register across the slices,
// sixteen sums for the sixteen lanes of each slice's row sum.
template <class Arch, class N>
inline void softmax_columns(const float* x, float* y, const SoftmaxArgs& args, std::size_t step,
                            N n) {
  using V = V16<Arch>;
  using L = Lanes<V>;
  V m(-__builtin_inff());
  for (std::size_t j = 0; j < args.axis; ++j) m = L::max(load<Arch>(x + j * step, n), m);
  V lane[16];
  for (V& v : lane) v = V(0.0f);
  for (std::size_t j = 0; j < args.axis; ++j) {
    const V v = load<Arch>(x + j * step, n) - m;
    const V e = generic::exp(v);
    lane[j % 16] = lane[j % 16] + e;
    store<Arch>(y + j * step, n, args.log ? v : e);
  }
  for (int width = 8; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) lane[k] = lane[k] + lane[k + width];
  const V log_l = generic::log(lane[0]);
  for (std::size_t j = 0; j < args.axis; ++j) {
    const V v = load<Arch>(y + j * step, n);
    store<Arch>(y + j * step, n, args.log ? v - log_l : v / lane[0]);
  }
}

template <class Arch>
void softmax(const SoftmaxArgs& args) {
  const std::size_t step = args.axis_stride != 0 ? args.axis_stride : args.inner;
  const std::size_t outer_step = args.outer_stride != 0 ? args.outer_stride : args.axis * step;
  for (std::size_t o = 0; o < args.outer; ++o) {
    const float* x = args.x + o * outer_step;
    float* y = args.y + o * outer_step;
    if (step == 1)
      softmax_row<Arch>(x, y, args.axis, args.log);
    else
      for_steps<Arch>(args.inner, [&](std::size_t i, auto n) {
        softmax_columns<Arch>(x + i, y + i, args, step, n);
      });
  }
}

}  // namespace fold8::kernels::simd
