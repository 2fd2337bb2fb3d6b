// Which epilogues of depthwise_strip_simd.h stay in registers: u8 outputs with none, clip or
// hard_swish as activation and nothing else. Include only from depthwise_strip_*.h.
#pragma once

#include "runtime/kernels/depthwise_strip.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/epilogue_bounds_simd.h"
#include "runtime/kernels/hard_swish_codes_simd.h"
#include "runtime/kernels/vector_io_simd.h"

namespace fold8::kernels::simd {

enum class StripFinish { sums, clipped, swished };

// clipped: rounding is monotone, so clamping codes to rounded bounds is clamping before it.
// swished: hard_swish_codes_simd.h.
struct StripEpilogue {
  const Epilogue* all;
  StripFinish finish;
  std::uint8_t lo, hi;  // bounds of q
  SwishCodes codes;     // swished
};

// The limits keep everything finite, and clipped r (|acc| < 2^22: at most 112 taps) below 2^31.
template <class Arch>
StripEpilogue strip_epilogue(const Epilogue& e, std::size_t channels) {
  StripEpilogue s{.all = &e, .finish = StripFinish::sums, .lo = 0, .hi = 255, .codes = {}};
  if (e.output_kind != OutputKind::u8 || e.row_scale || e.table ||
      e.residual_kind != ResidualKind::none)
    return s;
  if (!all_below<Arch>(e.multiplier, channels, 40)) return s;
  if (e.offset && !all_below<Arch>(e.offset, channels, 60)) return s;
  if (e.activation == Activation::hard_swish) {
    if (swish_codes<Arch>(e, e.y_zero_point, s.codes)) s.finish = StripFinish::swished;
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
