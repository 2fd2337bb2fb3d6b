// Elementwise functions of two tensors with broadcasting; f32 arithmetic, u8 or f32 operands and
// results.
//   operand f32:  p = a[..]                 operand u8:  p = f32(a[..] - zero_point) * scale
//   t = act(f(p, q))                        f one IEEE operation (pow: see binary_generic.h), act
//   as in epilogue.h y = t  if y is not null;  u8 output = quantize(t) (quantize.h) if out_q is not
//   null
// min, max: NaN wins; max(-0, +0) = +0, min(-0, +0) = -0. prelu: p < 0 ? q * p : p.
// mod: fmod(p, q), exact, sign of p.
//
// Shape: up to kMaxBinaryRank extents, outermost first; strides in elements, 0 along broadcast
// axes, any value otherwise. The result is dense, row-major. Only output elements [begin, end)
// (row-major index) are computed, so threads share one set of arguments. y may be an operand that
// is dense and not broadcast.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/epilogue.h"

namespace fold8::kernels {

inline constexpr int kMaxBinaryRank = 8;

enum class BinaryKind : std::uint8_t {  // append only
  add = 0,
  sub = 1,
  mul = 2,
  div = 3,
  pow = 4,
  min = 5,
  max = 6,
  prelu = 7,
  mod = 8,
};

struct BinaryOperand {
  const float* f32 = nullptr;  // exactly one of f32 and u8
  const std::uint8_t* u8 = nullptr;
  float scale = 1;              // u8 only
  std::int32_t zero_point = 0;  // u8 only
  std::ptrdiff_t stride[kMaxBinaryRank] = {};
};

struct BinaryArgs {
  BinaryKind kind = BinaryKind::add;
  int rank = 0;
  std::size_t shape[kMaxBinaryRank] = {};
  BinaryOperand a, b;
  std::size_t begin = 0, end = 0;
  Activation activation = Activation::none;
  float act_a = 0, act_b = 0;
  float* y = nullptr;
  std::uint8_t* q = nullptr;
  float q_scale = 1;
  std::int32_t q_zero_point = 0;
};

using binary_fn = void(const BinaryArgs& args);

// u8 with u8 to u8, the scales folded into two (add) or one (mul) multipliers at convert time:
//   add: r = fma(f32(qa - za), m_a, f32(qb - zb) * m_b)       m_a = f32(double(s_a) / s_y), m_b
//   likewise mul: r = f32((qa - za) * (qb - zb)) * m_a                 m_a = f32(double(s_a) * s_b
//   / s_y) r = min(max(r, lo), hi)                                   a fused clip (bounds in units
//   of s_y); -inf, +inf if none y = round_half_even(min(max(r, -z), 255 - z)) + z
enum class BinaryU8Kind : std::uint8_t { add = 0, mul = 1 };

struct BinaryU8Args {
  BinaryU8Kind kind = BinaryU8Kind::add;
  int rank = 0;
  std::size_t shape[kMaxBinaryRank] = {};
  const std::uint8_t* a = nullptr;
  const std::uint8_t* b = nullptr;
  std::ptrdiff_t a_stride[kMaxBinaryRank] = {};
  std::ptrdiff_t b_stride[kMaxBinaryRank] = {};
  std::size_t begin = 0, end = 0;
  std::int32_t a_zero_point = 0, b_zero_point = 0, y_zero_point = 0;
  float m_a = 1, m_b = 1;
  float lo = -__builtin_inff(), hi = __builtin_inff();
  std::uint8_t* y = nullptr;
};

using binary_u8_fn = void(const BinaryU8Args& args);

// One multiply-add per channel, what is left of a BatchNorm without a linear neighbour:
//   t = act(fma(x, m[c], b[c]));  y = t and/or q = quantize(t)
// x, y, q: [outer, channels, inner] dense; inner = 1 is channels-last. y may be x.
struct AffineArgs {
  std::size_t outer = 0, channels = 0, inner = 1;
  const float* x = nullptr;
  const float* m = nullptr;
  const float* b = nullptr;  // null stands for +0
  Activation activation = Activation::none;
  float act_a = 0, act_b = 0;
  float* y = nullptr;
  std::uint8_t* q = nullptr;
  float q_scale = 1;
  std::int32_t q_zero_point = 0;
};

using affine_fn = void(const AffineArgs& args);

namespace reference {
binary_fn binary;
binary_u8_fn binary_u8;
affine_fn affine;
}  // namespace reference

}  // namespace fold8::kernels
