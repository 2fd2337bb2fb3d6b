// What decides whether an epilogue may take a short way: how large its numbers are, and where a u8
// result ends. Include only from *_simd.h and depthwise_strip_*.h.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "runtime/kernels/epilogue.h"

namespace fold8::kernels::simd {

// All |p[i]| < 2^exponent; not for NaN.
template <class Arch>
bool all_below(const float* p, std::size_t n, int exponent) {
  const std::uint32_t bound = static_cast<std::uint32_t>(127 + exponent) << 23;
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < n; ++i)
    bad |= (std::bit_cast<std::uint32_t>(p[i]) & 0x7fffffffu) >= bound;
  return bad == 0;
}

// Bounds of r in units of y's scale, those of the codes and of a clip; false for any other
// activation and for a clip without values.
template <class Arch>
bool u8_bounds(const Epilogue& e, float& lo, float& hi) {
  const float smallest = static_cast<float>(-e.y_zero_point), largest = 255 + smallest;
  lo = smallest;
  hi = largest;
  if (e.activation == Activation::none) return true;
  if (e.activation != Activation::clip || !(e.a <= e.b)) return false;
  lo = e.a < smallest ? smallest : e.a > largest ? largest : e.a;
  hi = e.b < smallest ? smallest : e.b > largest ? largest : e.b;
  return true;
}

// The code of such a bound.
template <class Arch>
std::uint8_t code_of_bound(const Epilogue& e, float r) {
  return static_cast<std::uint8_t>(static_cast<std::int32_t>(__builtin_rintf(r)) + e.y_zero_point);
}

}  // namespace fold8::kernels::simd
