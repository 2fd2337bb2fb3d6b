// Vector body of affine (binary.h). Include only from targets/*.cc.
#pragma once

#include "runtime/kernels/binary_simd.h"

namespace fold8::kernels::simd {

// One value a channel, channels last.
template <class Arch>
void affine_repeated(const AffineArgs& args) {
  using V = V16<Arch>;
  const StoreF32U8<Arch> write(args.y, args.q, args.q_scale, args.q_zero_point);
  Repeated<Arch> scale(args.channels, [&](std::size_t i) { return args.m[i]; });
  Repeated<Arch> shift(args.channels,
                       [&](std::size_t i) { return args.b != nullptr ? args.b[i] : 0.0f; });
  for_steps<Arch>(args.outer * args.channels, [&](std::size_t j, auto n) FOLD8_INLINE_LAMBDA {
    const V t = Lanes<V>::fma(load<Arch>(args.x + j, n), scale.next(), shift.next());
    write(j, n, finish<Arch>(args.activation, args.act_a, args.act_b, t));
  });
}

template <class Arch>
void affine(const AffineArgs& args) {
  using V = V16<Arch>;
  if (args.inner == 1 && args.channels > 0 && args.channels <= kMostRepeated)
    return affine_repeated<Arch>(args);
  const StoreF32U8<Arch> write(args.y, args.q, args.q_scale, args.q_zero_point);
  const bool last = args.inner == 1;
  const std::size_t rows = last ? args.outer : args.outer * args.channels;
  const std::size_t cols = last ? args.channels : args.inner;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t c = last ? 0 : i % args.channels;
    for_steps<Arch>(cols, [&](std::size_t j, auto n) {
      const V x = load<Arch>(args.x + i * cols + j, n);
      const V m = last ? load<Arch>(args.m + j, n) : V(args.m[c]);
      V shift(0.0f);
      if (args.b != nullptr) shift = last ? load<Arch>(args.b + j, n) : V(args.b[c]);
      const V t = Lanes<V>::fma(x, m, shift);
      write(i * cols + j, n, finish<Arch>(args.activation, args.act_a, args.act_b, t));
    });
  }
}

}  // namespace fold8::kernels::simd
