// round_clamped(x / s) of quantize_ref.h, mostly without the division. Include only from *_simd.h.
#pragma once

#include "runtime/kernels/vec16_simd.h"

namespace fold8::kernels {

// x * (1 / s) and x / s differ by less than 3 * 2^-24 of themselves, so up to 255 by less than
// 2^-13: they round to the same code unless the former lies that close to a half; then true
// quotients decide. Scales so extreme that 1 / s or a product could be subnormal always divide.
template <class Arch>
struct RoundQuotient {
  using V = V16<Arch>;
  using L = Lanes<V>;
  RoundClamped<Arch> round;
  V scale, inverse, close;

  RoundQuotient(float s, std::int32_t zero_point, std::int32_t lowest, std::int32_t highest)
      : round(zero_point, lowest, highest),
        scale(s),
        inverse(1.0f / s),
        close(s > 0x1p-100f && s < 0x1p100f ? 0.5f - 0x1p-13f : -1.0f) {}

  FOLD8_INLINE I16<Arch> operator()(V x) const {
    const V t = x * inverse;
    const V c = L::min(round.hi, L::max(round.lo, L::select(L::is_nan(t), V(0.0f), t)));
    const V n = L::round(c);
    if (__builtin_expect(Memory16<Arch>::any_mask(close < L::max(c - n, n - c)) != 0, 0))
      return round(x / scale);
    return L::to_int(n + round.z);
  }
};

// The same for x of a row whose own dynamic scale s is: |x / s| <= 127 (or all NaN, s being NaN),
// so that nothing has to be clamped. The code without a zero point, -127 .. 127; of NaN 0 in the
// low byte.
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
