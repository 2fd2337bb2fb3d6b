// What happens to an accumulator on its way to memory: data, the same for every matrix kernel and
// every target.
//
//   INT8 kernels, acc exact integer:      r = fma(f32(acc), multiplier[n], offset[n])
//     with row_scale (dynamic rows):      r = fma(f32(acc) * row_scale[m], multiplier[n],
//     offset[n])
//   f32 kernels, acc the FMA chain:       r = acc + offset[n]                      (multiplier is
//   null)
//     offset null stands for +0
//   residual f32:                         r = fma(residual[m,n], residual_scale, r)
//   residual u8:                          r = fma(f32(residual[m,n] - residual_zero_point),
//   residual_scale, r) activation:                           r = act(r) y f32: y = r y u8: if
//   (y_divisor != 0) r = r / y_divisor
//                                         r = min(max(r, -z), 255 - z);  q = round_half_even(r) +
//                                         z;  NaN -> z y = table ? table[q] : q
//   y s32 (INT8 kernels only):            y = acc (wrapping), nothing else applies
//
// A u8 output with activation none or clip has y's scale inside multiplier, offset, residual_scale
// and the bounds (y_divisor = 0); the other activations work on real values and divide by the scale
// afterwards. fma, +, -, *, /: one IEEE rounding each, in this order, on every target (the numeric
// contract).
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/core/activation.h"

namespace fold8::kernels {

enum class ResidualKind : std::uint8_t { none, f32, u8 };
enum class OutputKind : std::uint8_t { f32, u8, s32 };

struct Epilogue {
  const float* multiplier = nullptr;  // [N]; null in f32 kernels
  const float* offset = nullptr;      // [N] or null
  const float* row_scale = nullptr;   // [M] or null

  ResidualKind residual_kind = ResidualKind::none;
  const void* residual = nullptr;  // [M, N], rows residual_stride elements apart
  std::size_t residual_stride = 0;
  float residual_scale = 1.0f;
  std::int32_t residual_zero_point = 0;

  Activation activation = Activation::none;
  float a = 0, b = 0;

  OutputKind output_kind = OutputKind::f32;
  void* y = nullptr;  // [M, N], rows y_stride elements apart
  std::size_t y_stride = 0;
  std::int32_t y_zero_point = 0;
  float y_divisor = 0;
  const std::uint8_t* table = nullptr;  // 256 entries or null
};

}  // namespace fold8::kernels
