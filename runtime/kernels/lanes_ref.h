// The words math_generic.h and activation_generic.h are written in, for one float at a time.
// lanes_simd.h has the same words for a batch. Each is exactly one IEEE operation or a bit
// operation, so both give the same bits.
#pragma once

#include <bit>
#include <cstdint>

namespace fold8::kernels {

template <class F>
struct Lanes;

template <>
struct Lanes<float> {
  using Int = std::int32_t;
  using Mask = bool;
  static float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static float select(Mask m, float a, float b) { return m ? a : b; }
  static Mask is_nan(float a) { return a != a; }
  static float sqrt(float a) { return __builtin_sqrtf(a); }
  static float floor(float a) { return __builtin_floorf(a); }
  static float ceil(float a) { return __builtin_ceilf(a); }
  static float trunc(float a) { return __builtin_truncf(a); }
  static float round(float a) { return __builtin_rintf(a); }  // half to even: MXCSR at its default
  static Int bits(float a) { return std::bit_cast<Int>(a); }
  static float from_bits(Int a) { return std::bit_cast<float>(a); }
  static Int to_int(float a) { return a == a ? static_cast<Int>(a) : 0; }  // |a| < 2^31; NaN: any
  static float to_float(Int a) { return static_cast<float>(a); }
  // Of b where a is NaN or equal: what vminps and vmaxps do.
  static float min(float a, float b) { return a < b ? a : b; }
  static float max(float a, float b) { return a > b ? a : b; }
  // a * 2^n, n integral and |n| <= 252, rounded once (the first product is exact).
  static float scale2(float a, float n) {
    const Int k = to_int(n), h = k >> 1;
    return a * from_bits((h + 127) << 23) * from_bits((k - h + 127) << 23);
  }
};

}  // namespace fold8::kernels
