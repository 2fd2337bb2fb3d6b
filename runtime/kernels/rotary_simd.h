// Vector body of rotary.h. Include only from targets/*.cc.
#pragma once

#include "runtime/kernels/rotary.h"
#include "runtime/kernels/vec16_simd.h"

namespace fold8::kernels::simd {

// Pairs half a head apart.
template <class Arch>
void rotary_halves(const RotaryArgs& a, const float* x, const float* cos, const float* sin,
                   float* y) {
  using V = V16<Arch>;
  const std::size_t half = a.dims / 2, other = a.full_tables ? half : 0;
  const V zero(-0.0f);
  for_steps<Arch>(half, [&](std::size_t i, auto n) {
    const V u = load<Arch>(x + i, n), w = load<Arch>(x + half + i, n);
    const V cu = load<Arch>(cos + i, n), su = load<Arch>(sin + i, n);
    const V cw = load<Arch>(cos + other + i, n), sw = load<Arch>(sin + other + i, n);
    store<Arch>(y + i, n, u * cu + (zero - w) * su);
    store<Arch>(y + half + i, n, w * cw + u * sw);
  });
}

template <class Arch>
void rotary_pairs(const RotaryArgs& a, const float* x, const float* cos, const float* sin,
                  float* y) {
  const std::size_t step = a.full_tables ? 2 : 1, other = a.full_tables ? 1 : 0;
  for (std::size_t i = 0; i < a.dims / 2; ++i) {
    const float u = x[2 * i], w = x[2 * i + 1];
    y[2 * i] = u * cos[step * i] + -w * sin[step * i];
    y[2 * i + 1] = w * cos[step * i + other] + u * sin[step * i + other];
  }
}

template <class Arch>
void rotary(const RotaryArgs& a) {
  for (std::size_t t = 0; t < a.tokens; ++t)
    for (std::size_t h = 0; h < a.heads; ++h) {
      const std::size_t at = t * a.stride + h * a.head_stride;
      const float *cos = a.cos + t * a.table_stride, *sin = a.sin + t * a.table_stride;
      if (a.interleaved)
        rotary_pairs<Arch>(a, a.x + at, cos, sin, a.y + at);
      else
        rotary_halves<Arch>(a, a.x + at, cos, sin, a.y + at);
      for (std::size_t i = a.dims; i < a.depth; ++i) a.y[at + i] = a.x[at + i];
    }
}

}  // namespace fold8::kernels::simd
