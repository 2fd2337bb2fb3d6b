// Which epilogues of depthwise_strip_simd.h stay in registers: u8 outputs with none, clip or
// hard_swish as activation and nothing else. Include only from depthwise_strip_*.h.
#pragma once

#include "runtime/kernels/depthwise_strip.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/epilogue_bounds_simd.h"
#include "runtime/kernels/vector_io_simd.h"

namespace fold8::kernels::simd {

enum class StripFinish { sums, clipped, swished };

// clipped: rounding is monotone, so clamping codes to rounded bounds is clamping before it.
// swished: the code is the upper half of g = round(fma(r, 2^16 / s, shift)), shift = (z + 1/2) *
// 2^16
// + 6. Up to codes of 512 g is off from 2^16 * (r / s + z + 1/2) + 6 by less than 4 (the
// reciprocal's and the true quotient's rounding) + 1 (the fma's) + 1/2; beyond them every code
// saturates. So only where the lower half is below 12 can the quotient lie on a half or on its
// other side; there true quotients decide, and where g overflows to a lower half of 0.
struct StripEpilogue {
  const Epilogue* all;
  StripFinish finish;
  std::uint8_t lo, hi;  // bounds of q
  float scale, shift;   // swished
};
inline constexpr int kStripClose = 12;

// The limits keep everything finite, and clipped r (|acc| < 2^22: at most 112 taps) below 2^31.
template <class Arch>
StripEpilogue strip_epilogue(const Epilogue& e, std::size_t channels) {
  StripEpilogue s{
      .all = &e, .finish = StripFinish::sums, .lo = 0, .hi = 255, .scale = 0, .shift = 0};
  if (e.output_kind != OutputKind::u8 || e.row_scale || e.table ||
      e.residual_kind != ResidualKind::none)
    return s;
  if (!all_below<Arch>(e.multiplier, channels, 40)) return s;
  if (e.offset && !all_below<Arch>(e.offset, channels, 60)) return s;
  if (e.activation == Activation::hard_swish) {
    const bool moderate = e.y_divisor > 0x1p-40f && e.y_divisor < 0x1p40f &&
                          all_below<Arch>(&e.a, 1, 20) && all_below<Arch>(&e.b, 1, 20);
    if (!moderate) return s;
    constexpr int kOne = 1 << 16;
    s.finish = StripFinish::swished;
    s.scale = 1.0f / e.y_divisor * kOne;
    s.shift = static_cast<float>(e.y_zero_point * kOne + kOne / 2 + kStripClose / 2);
    return s;
  }
  if (e.y_divisor != 0 || !all_below<Arch>(e.multiplier, channels, 7)) return s;
  if (e.offset && !all_below<Arch>(e.offset, channels, 29)) return s;
  float lo, hi;
  if (!u8_bounds<Arch>(e, lo, hi)) return s;
  s.finish = StripFinish::clipped;
  s.lo = code_of_bound<Arch>(e, lo);
  s.hi = code_of_bound<Arch>(e, hi);
  return s;
}

}  // namespace fold8::kernels::simd
