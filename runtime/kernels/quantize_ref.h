// One value from real to integer and back; the equations of quantize.h and epilogue.h, callable
// from any file.
#pragma once

#include <cstdint>

#include "runtime/kernels/lanes_ref.h"

namespace fold8::kernels {

// r is already divided by the scale: clamp, round half to even, add the zero point z; NaN -> z.
inline std::int32_t round_clamped(float r, std::int32_t z, std::int32_t lowest,
                                  std::int32_t highest) {
  if (r != r) return z;
  const float lo = static_cast<float>(lowest - z), hi = static_cast<float>(highest - z);
  const float c = Lanes<float>::min(hi, Lanes<float>::max(lo, r));
  return static_cast<std::int32_t>(__builtin_rintf(c)) + z;
}

inline std::uint8_t quantize_u8(float x, float scale, std::int32_t zero_point) {
  return static_cast<std::uint8_t>(round_clamped(x / scale, zero_point, 0, 255));
}

inline std::int8_t quantize_s8(float x, float scale, std::int32_t zero_point) {
  return static_cast<std::int8_t>(round_clamped(x / scale, zero_point, -128, 127));
}

inline float dequantize(std::int32_t q, float scale, std::int32_t zero_point) {
  return static_cast<float>(q - zero_point) * scale;
}

// Scale of a dynamically quantized row, from its largest magnitude; NaN if that is not finite.
inline float dynamic_row_scale(float max_abs) {
  if (!(max_abs < __builtin_inff())) return __builtin_nanf("");
  const float s = max_abs / 127.0f;
  return s < 0x1p-126f ? 0x1p-126f : s;
}

// The value 128 (zero) where the row's scale is NaN.
inline std::uint8_t quantize_in_row(float x, float row_scale) {
  return static_cast<std::uint8_t>(round_clamped(x / row_scale, 128, 1, 255));
}

}  // namespace fold8::kernels
