// Which epilogues of depthwise_strip_simd.h stay in registers: u8 outputs with none, clip or
// hard_swish as activation and nothing else. Include only from depthwise_strip_*.h.
#pragma once

#include <bit>

#include "runtime/kernels/depthwise_strip.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/vector_io_simd.h"

namespace fold8::kernels::simd {

enum class StripFinish { sums, clipped, swished };

// clipped: rounding is monotone, so clamping codes to rounded bounds is clamping before it.
// swished: r / s is rounded from r * (1 / s). Both differ by less than 3 * 2^-24 of themselves,
// which is less than 2^-13 up to 512; beyond that every code saturates. Where r * (1 / s) comes
// that close to a half, true quotients decide.
struct StripEpilogue {
  const Epilogue* all;
  StripFinish finish;
  std::uint8_t lo, hi;  // bounds of q
  float inverse;        // 1 / y_divisor; swished
};
inline constexpr float kStripMost = 1024, kStripClose = 0.5f - 0x1p-13f;

// All |p[i]| < 2^exponent; not for NaN.
template <class Arch>
bool all_below(const float* p, std::size_t n, int exponent) {
  const std::uint32_t bound = static_cast<std::uint32_t>(127 + exponent) << 23;
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < n; ++i)
    bad |= (std::bit_cast<std::uint32_t>(p[i]) & 0x7fffffffu) >= bound;
  return bad == 0;
}

// The limits keep everything finite, and clipped r (|acc| < 2^22: at most 112 taps) below 2^31.
template <class Arch>
StripEpilogue strip_epilogue(const Epilogue& e, std::size_t channels) {
  StripEpilogue s{.all = &e, .finish = StripFinish::sums, .lo = 0, .hi = 255, .inverse = 0};
  if (e.output_kind != OutputKind::u8 || e.row_scale || e.table ||
      e.residual_kind != ResidualKind::none)
    return s;
  if (!all_below<Arch>(e.multiplier, channels, 40)) return s;
  if (e.offset && !all_below<Arch>(e.offset, channels, 60)) return s;
  if (e.activation == Activation::hard_swish) {
    const bool moderate = e.y_divisor > 0x1p-50f && e.y_divisor < 0x1p50f &&
                          all_below<Arch>(&e.a, 1, 20) && all_below<Arch>(&e.b, 1, 20);
    if (moderate) s.finish = StripFinish::swished, s.inverse = 1.0f / e.y_divisor;
    return s;
  }
  if (e.y_divisor != 0 || !all_below<Arch>(e.multiplier, channels, 7)) return s;
  if (e.offset && !all_below<Arch>(e.offset, channels, 29)) return s;
  const float smallest = static_cast<float>(-e.y_zero_point), largest = 255 + smallest;
  float lo = smallest, hi = largest;
  if (e.activation == Activation::clip) {
    if (!(e.a <= e.b)) return s;
    lo = e.a < smallest ? smallest : e.a > largest ? largest : e.a;
    hi = e.b < smallest ? smallest : e.b > largest ? largest : e.b;
  } else if (e.activation != Activation::none) {
    return s;
  }
  s.finish = StripFinish::clipped;
  const auto code = [&](float r) {
    return static_cast<std::uint8_t>(static_cast<std::int32_t>(__builtin_rintf(r)) +
                                     e.y_zero_point);
  };
  s.lo = code(lo);
  s.hi = code(hi);
  return s;
}

}  // namespace fold8::kernels::simd
