// f32 functions as fixed sequences of IEEE operations (+ - * / sqrt fma, one rounding each) and bit
// operations, written once for one float and for batches: F is float (lanes_ref.h) or a batch
// (lanes_simd.h). That is the numeric contract: every target computes the same bits. NaN in gives
// NaN out everywhere.
#pragma once

#include "runtime/kernels/lanes_ref.h"

namespace fold8::kernels::generic {

// The maxima of the contract: NaN wins; max(-0, +0) = +0, min(-0, +0) = -0.
template <class F>
inline F max(F a, F b) {
  using L = Lanes<F>;
  // Where a == b only the sign of a zero can differ: and keeps -0 only if both have it.
  const F tie = L::from_bits(L::bits(a) & L::bits(b));
  const F m = L::select(a == b, tie, L::max(a, b));  // b if a is NaN or b is
  return L::select(L::is_nan(a), a, m);
}
template <class F>
inline F min(F a, F b) {
  using L = Lanes<F>;
  const F tie = L::from_bits(L::bits(a) | L::bits(b));
  const F m = L::select(a == b, tie, L::min(a, b));
  return L::select(L::is_nan(a), a, m);
}

template <class F>
inline F abs(F x) {
  using L = Lanes<F>;
  return L::from_bits(L::bits(x) & typename L::Int(0x7fffffff));
}
template <class F>
inline F neg(F x) {
  using L = Lanes<F>;
  return L::from_bits(L::bits(x) ^ typename L::Int(std::int32_t(0x80000000)));
}
template <class F>
inline F with_sign_of(F magnitude, F sign) {  // magnitude >= +0
  using L = Lanes<F>;
  return L::from_bits(L::bits(magnitude) |
                      (L::bits(sign) & typename L::Int(std::int32_t(0x80000000))));
}

// e^x, at most 1.1 ulp; overflow to inf above 88.72, gradual underflow to 0 below -103.97.
// x = n ln2 + r, |r| <= ln2 / 2; e^r = 1 + (r + r^2 P(r)).
template <class F>
inline F exp_of_clamped(F c) {
  using L = Lanes<F>;
  const F n = L::round(c * F(0x1.715476p+0f));
  F r = L::fma(n, F(-0x1.62e400p-1f), c);  // ln2 in two parts; n times the first is exact
  r = L::fma(n, F(-0x1.7f7d1cp-20f), r);
  F p = F(0x1.6a23cep-10f);
  p = L::fma(p, r, F(0x1.123a20p-7f));
  p = L::fma(p, r, F(0x1.5558f2p-5f));
  p = L::fma(p, r, F(0x1.555492p-3f));
  p = L::fma(p, r, F(0x1.fffffcp-2f));
  p = L::fma(p, r * r, r) + F(1.0f);
  return L::scale2(p, n);
}
template <class F>
inline F exp(F x) {
  using L = Lanes<F>;
  return generic::exp_of_clamped(L::max(F(-104.0f), L::min(F(89.0f), x)));
}
// The same for x <= 0 (or NaN).
template <class F>
inline F exp_not_above_one(F x) {
  return generic::exp_of_clamped(Lanes<F>::max(F(-104.0f), x));
}

// Natural logarithm, at most 1 ulp. log(0) = -inf, log(x < 0) = NaN.
// x = 2^e m, m in [sqrt(1/2), sqrt(2)), f = m - 1; log(1 + f) = f - f^2/2 + f^3 P(f).
template <class F>
inline F log(F x) {
  using L = Lanes<F>;
  using I = typename L::Int;
  const auto tiny = x < F(0x1p-126f);
  const F scaled = L::select(tiny, x * F(0x1p23f), x);
  const I bits = L::bits(scaled);
  const I e = (bits - I(0x3f3504f3)) >> 23;
  const F f = L::from_bits(bits - (e << 23)) - F(1.0f);
  const F k = L::to_float(e) - L::select(tiny, F(23.0f), F(0.0f));
  F p = F(-0x1.38b576p-4f);
  p = L::fma(p, f, F(0x1.055b68p-3f));
  p = L::fma(p, f, F(-0x1.0d8542p-3f));
  p = L::fma(p, f, F(0x1.22da1ep-3f));
  p = L::fma(p, f, F(-0x1.547244p-3f));
  p = L::fma(p, f, F(0x1.99a008p-3f));
  p = L::fma(p, f, F(-0x1.000226p-2f));
  p = L::fma(p, f, F(0x1.555554p-2f));
  const F ff = f * f;
  F y = L::fma(ff * f, p, k * F(0x1.7f7d1cp-20f));
  y = L::fma(F(-0.5f), ff, y) + f;
  y = L::fma(k, F(0x1.62e400p-1f), y);
  const F inf = F(__builtin_inff());
  y = L::select(x == F(0.0f), generic::neg(inf), y);
  y = L::select(x == inf, inf, y);
  return L::select(x >= F(0.0f), y, F(__builtin_nanf("")));
}

// log(1 + u) for u in [0, 1], at most 3 ulp: 2 atanh(s), s = u / (2 + u).
template <class F>
inline F log1p_unit(F u) {
  using L = Lanes<F>;
  const F s = u / (F(2.0f) + u);
  const F z = s * s;
  F p = F(0x1.1f0a4ep-2f);
  p = L::fma(p, z, F(0x1.1eb2b8p-2f));
  p = L::fma(p, z, F(0x1.99d2acp-2f));
  p = L::fma(p, z, F(0x1.555500p-1f));
  return L::fma(s * z, p, s + s);
}

// Error function, at most 6 ulp (3.3e-7 absolute): x P(x^2) / Q(x^2) up to where it rounds to 1.
template <class F>
inline F erf(F x) {
  using L = Lanes<F>;
  const F t = L::min(F(0x1.f5c28ep+1f), generic::abs(x));
  const F u = t * t;
  F p = F(0x1.132674p-19f), q = F(0x1.3f85ecp-15f);
  p = L::fma(p, u, F(0x1.2ab398p-12f)), q = L::fma(q, u, F(0x1.30b886p-10f));
  p = L::fma(p, u, F(0x1.ed8344p-9f)), q = L::fma(q, u, F(0x1.ea7c00p-7f));
  p = L::fma(p, u, F(0x1.b01b58p-5f)), q = L::fma(q, u, F(0x1.d3604ap-4f));
  p = L::fma(p, u, F(0x1.85ef7cp-3f)), q = L::fma(q, u, F(0x1.010f28p-1f));
  p = L::fma(p, u, F(0x1.20dd74p+0f)), q = L::fma(q, u, F(1.0f));
  return generic::with_sign_of(L::min(F(1.0f), (t * p) / q), x);
}

// Hyperbolic tangent, at most 6 ulp: x P(x^2) / Q(x^2) up to where it rounds to 1.
template <class F>
inline F tanh(F x) {
  using L = Lanes<F>;
  const F t = L::min(F(0x1.20a3d6p+3f), generic::abs(x));
  const F u = t * t;
  F p = F(-0x1.ad54c8p-37f), q = F(0x1.59901ep-20f);
  p = L::fma(p, u, F(0x1.06b5cep-25f)), q = L::fma(q, u, F(0x1.9cfd5cp-12f));
  p = L::fma(p, u, F(0x1.d5e06cp-16f)), q = L::fma(q, u, F(0x1.be64dcp-6f));
  p = L::fma(p, u, F(0x1.fb0682p-9f)), q = L::fma(q, u, F(0x1.e16a58p-2f));
  p = L::fma(p, u, F(0x1.182a06p-3f)), q = L::fma(q, u, F(1.0f));
  p = L::fma(p, u, F(1.0f));
  return generic::with_sign_of(L::min(F(1.0f), (t * p) / q), x);
}

// 1 / (1 + e^-x), at most 3 ulp; 0 below -88.72, where e^-x overflows.
template <class F>
inline F sigmoid(F x) {
  return F(1.0f) / (F(1.0f) + generic::exp(generic::neg(x)));
}

// max(x, 0) + log(1 + e^-|x|), at most 3 ulp.
template <class F>
inline F softplus(F x) {
  return Lanes<F>::max(F(0.0f), x) +
         generic::log1p_unit(generic::exp(generic::neg(generic::abs(x))));
}

}  // namespace fold8::kernels::generic
