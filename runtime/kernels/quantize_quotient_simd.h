// round_clamped(x / s) of quantize_ref.h, mostly without the division. Include only from *_simd.h.
#pragma once

#include "runtime/kernels/vec16_simd.h"

namespace fold8::kernels {

// The code is g >> 12 with g = round(fma(x, 4096 / s, (z + 1/2) * 4096 + 1)), clamped. Up to codes
// of 512, g is off from 4096 * (x / s + z + 1/2) + 1 by less than 1/4 (the reciprocal's and the
// true quotient's rounding) + 1/8 (the fma's) + 1/2; beyond them every code saturates. So only
// where g is a multiple of 4096 or the next number can the quotient lie on a half or on its other
// side; there true quotients decide. So they do for NaN and where g overflows: it becomes such a
// multiple. Scales so extreme that 1 / s or a product could be subnormal always divide.
template <class Arch>
struct RoundQuotient {
  using V = V16<Arch>;
  using L = Lanes<V>;
  using M = Memory16<Arch>;
  RoundClamped<Arch> round;
  V scale, inverse, shift;
  I16<Arch> lowest, highest;

  RoundQuotient(float s, std::int32_t zero_point, std::int32_t lowest_code,
                std::int32_t highest_code)
      : round(zero_point, lowest_code, highest_code),
        scale(s),
        inverse(moderate(s) ? 1.0f / s * 4096.0f : 0.0f),
        shift(moderate(s) ? static_cast<float>(zero_point * 4096 + 2049) : 0x1p30f),
        lowest(lowest_code),
        highest(highest_code) {}

  static bool moderate(float s) { return s > 0x1p-100f && s < 0x1p100f; }

  // Before clamping.
  FOLD8_INLINE I16<Arch> unclamped(V x) const {
    const I16<Arch> g = M::nearest(L::fma(x, inverse, shift));
    if (__builtin_expect(M::any_zero(g & I16<Arch>(4094)), 0)) return round(x / scale);
    return g >> 12;
  }
  FOLD8_INLINE I16<Arch> operator()(V x) const {
    return M::max(lowest, M::min(highest, unclamped(x)));
  }
};

// The same for x of a row whose own dynamic scale s is: |x / s| <= 127 (or all NaN, s being NaN),
// so that nothing has to be clamped. The code without a zero point, -127 .. 127; of NaN 0 in the
// low byte. Not RoundQuotient::unclamped, since a head's row is a few vectors long and what is set
// up per row counts: with that MiniLM takes 2 % longer (AVX-512 VNNI).
template <class Arch>
struct RowQuotient {
  using V = V16<Arch>;
  using L = Lanes<V>;
  V scale, inverse;

  FOLD8_INLINE explicit RowQuotient(float s) : scale(s), inverse(1.0f / s) {}

  FOLD8_INLINE I16<Arch> operator()(V x) const {
    const V t = x * inverse;
    V n = L::round(t);
    const V off = L::from_bits(L::bits(t - n) & I16<Arch>(0x7fffffff));
    if (__builtin_expect(Memory16<Arch>::any_mask(V(0.5f - 0x1p-13f) < off) != 0, 0))
      n = L::round(x / scale);
    return L::to_int(n);
  }
};

}  // namespace fold8::kernels
