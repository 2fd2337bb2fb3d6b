#pragma once

#include "runtime/kernels/quantize_quotient_simd.h"
#include "runtime/kernels/scalar_functions.h"
#include "runtime/kernels/unary_generic.h"
#include "runtime/kernels/vec16_simd.h"

namespace fold8::kernels::simd {

// Stores t as f32 and/or u8, whichever is asked for.
template <class Arch>
struct StoreF32U8 {
  float* y;
  std::uint8_t* q;
  RoundQuotient<Arch> codes;
  StoreF32U8(float* y_, std::uint8_t* q_, float q_scale, std::int32_t q_zero_point)
      : y(y_), q(q_), codes(q_scale, q_zero_point, 0, 255) {}
  template <class N>
  FOLD8_INLINE void operator()(std::size_t j, N n, V16<Arch> t) const {
    if (y != nullptr) store<Arch>(y + j, n, t);
    if (q != nullptr) store_u8_saturated<Arch>(q + j, n, codes.unclamped(t));
  }
};

// f of each of the 16 values, one at a time; only the first n are computed.
template <class Arch, class Function>
inline V16<Arch> one_by_one(V16<Arch> x, int n, Function&& f) {
  alignas(64) float t[16];
  Memory16<Arch>::store(t, x);
  for (int i = 0; i < n; ++i) t[i] = f(t[i], i);
  return Memory16<Arch>::load(t);
}
inline constexpr int count(Full) { return 16; }
inline constexpr int count(int n) { return n; }

template <class Arch>
void unary(const UnaryArgs& args) {
  using V = V16<Arch>;
  const float* x = args.x;
  const StoreF32U8<Arch> write(args.y, args.q, args.q_scale, args.q_zero_point);
  if (generic::is_scalar_kind(args.kind)) {
    for_steps<Arch>(args.n, [&](std::size_t j, auto n) {
      write(j, n, one_by_one<Arch>(load<Arch>(x + j, n), count(n), [&](float v, int) {
              return unary_scalar(args.kind, v);
            }));
    });
    return;
  }
  const V a(args.a), b(args.b);
  generic::with_unary(args.kind, [&]<UnaryKind kind>() {
    if (args.q == nullptr) {
      float* y = args.y;
      for_steps<Arch>(args.n, [&](std::size_t j, auto n) {
        store<Arch>(y + j, n, generic::unary<kind>(load<Arch>(x + j, n), a, b));
      });
      return;
    }
    for_steps<Arch>(args.n, [&](std::size_t j, auto n) {
      write(j, n, generic::unary<kind>(load<Arch>(x + j, n), a, b));
    });
  });
}

}  // namespace fold8::kernels::simd
