// Elementwise functions of one f32 tensor, with an optional u8 copy of the result made in the same
// pass.
//   t[i] = f(x[i]; a, b)            f32, the sequence of roundings given by math_generic.h /
//   activation_generic.h y[i] = t[i]                     if y is not null q[i] = quantize(t[i]) if
//   q is not null; see quantize.h
// x, y, q: n contiguous elements. y may be x. NaN in gives NaN out, and q_zero_point in q.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fold8::kernels {

// The first eleven are those of Activation (epilogue.h), with the same numbers. Append only: plans
// store them.
enum class UnaryKind : std::uint8_t {
  identity = 0,
  clip = 1,
  leaky_relu = 2,
  hard_sigmoid = 3,
  hard_swish = 4,
  sigmoid = 5,
  silu = 6,
  tanh = 7,
  gelu_erf = 8,
  gelu_tanh = 9,
  elu = 10,
  abs = 11,
  neg = 12,
  sqrt = 13,
  exp = 14,
  log = 15,
  reciprocal = 16,  // 1 / x
  floor = 17,
  ceil = 18,
  round = 19,  // half to even
  sign = 20,   // -1, 0, +1; NaN stays NaN; sign(-0) = +0
  erf = 21,
  softplus = 22,          // max(x, 0) + log1p(exp(-|x|))
  softsign = 23,          // x / (1 + |x|)
  mish = 24,              // x * tanh(softplus(x))
  selu = 25,              // b * (x < 0 ? a * (exp(x) - 1) : x)
  celu = 26,              // x < 0 ? a * (exp(x / a) - 1) : x
  thresholded_relu = 27,  // x > a ? x : 0
  square = 28,            // x * x
  trunc = 29,
  shrink = 30,         // ONNX Shrink, lambd = a, bias = b: x < -a ? x + b : x > a ? x - b : 0
  canonical_nan = 31,  // x, every NaN as 0x7fc00000: what a graph output gets
  affine = 32,         // fma(x, a, b)
  // From here on: f32(g(double(x))) by the routines of math_double.h, at scalar speed.
  sin = 40,
  cos = 41,
  tan = 42,
  asin = 43,
  acos = 44,
  atan = 45,
  sinh = 46,
  cosh = 47,
  asinh = 48,
  acosh = 49,
  atanh = 50,
};

struct UnaryArgs {
  UnaryKind kind = UnaryKind::identity;
  std::size_t n = 0;
  const float* x = nullptr;
  float* y = nullptr;             // or null
  float a = 0, b = 0;             // meaning by kind
  std::uint8_t* q = nullptr;      // or null
  float q_scale = 1;              // > 0, finite
  std::int32_t q_zero_point = 0;  // 0..255
};

using unary_fn = void(const UnaryArgs& args);

namespace reference {
unary_fn unary;
}

}  // namespace fold8::kernels
