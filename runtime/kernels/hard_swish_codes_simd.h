// hard_swish straight to u8 codes in fixed point. Include only from *_simd.h and
// depthwise_strip_*.h.
//
//   definition: h = f(a r + b) clamped to [0, 1], t = f(r h), code = round(f(t / s)) + z
//   here:       G = fma(a K, r, b K) clamped to [0, K], K = 2^16 / s; g = round(fma(r, G, shift)),
//               shift = z' * 2^16 + 2^15 + near; the code is the upper half of g (z' = z, or 0:
//               then it is the code less z)
//
// How far g is from 2^16 * (t / s + z' + 1/2) + near, in units of u = 2^-24 unless said, codes
// being below 256 (what lies beyond saturates): roundings of t and of the quotient and of K 2^24 u
// = 1 each; g itself less than 1. Where the gate is not clamped, |r| <= R = max(|b|, |1 - b|) / a,
// and G is off by less than (|a r| + |b| + 2) u K (its two constants, its own rounding, the
// definition's): R (R a + |b| + 2) / (256 s) in g. All together stay below `near`, so only where
// the lower half is below 2 near can the quotient lie on a half or on its other side; there the
// definition decides. So it does where g overflows: its lower half is 0 then.
#pragma once

#include "runtime/kernels/arch.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/epilogue_bounds_simd.h"

namespace fold8::kernels::simd {

struct SwishCodes {
  float a, b, most;  // a K, b K, K
  float shift;
  std::int32_t close;  // 2 near
};

// False: not for this epilogue. Then, and where multipliers are below 2^40 and offsets below 2^60,
// no NaN can arise.
template <class Arch>
bool swish_codes(const Epilogue& e, std::int32_t zero_point, SwishCodes& codes) {
  const float s = e.y_divisor;
  if (e.activation != Activation::hard_swish || !(s > 0x1p-40f && s < 0x1p40f)) return false;
  if (!all_below<Arch>(&e.a, 1, 20) || !all_below<Arch>(&e.b, 1, 20) || !(e.a > 0)) return false;
  const double a = e.a, b = e.b, size = b < 0 ? -b : b, rest = b < 1 ? 1 - b : b - 1,
               reach = size > rest ? size : rest, k = 0x1p16 / s,
               off = reach / a * (reach + size + 2) / (256 * double{s});
  if (!(off < 100)) return false;
  const int near = 7 + static_cast<int>(off);
  codes = {.a = static_cast<float>(a * k),
           .b = static_cast<float>(b * k),
           .most = static_cast<float>(k),
           .shift = static_cast<float>(zero_point * 65536 + 32768 + near),
           .close = 2 * near};
  return true;
}

// g of r. The gate is no NaN: its bits are ordered as it is, but for the sign.
[[gnu::always_inline]] static inline __m256i swish_code(__m256 r, __m256 a, __m256 b, __m256 most,
                                                        __m256 shift) {
  const __m256i gate = _mm256_castps_si256(_mm256_fmadd_ps(a, r, b)),
                g = _mm256_min_epi32(_mm256_max_epi32(gate, _mm256_setzero_si256()),
                                     _mm256_castps_si256(most));
  return _mm256_cvtps_epi32(_mm256_fmadd_ps(r, _mm256_castsi256_ps(g), shift));
}

// t of r, by the definition. r, a and b are finite.
[[gnu::always_inline]] static inline __m256 hard_swish(__m256 r, float a, float b) {
  const __m256i gate =
      _mm256_castps_si256(_mm256_fmadd_ps(_mm256_set1_ps(a), r, _mm256_set1_ps(b)));
  const __m256i one = _mm256_castps_si256(_mm256_set1_ps(1.0f)),
                h = _mm256_min_epi32(_mm256_max_epi32(gate, _mm256_setzero_si256()), one);
  return _mm256_mul_ps(r, _mm256_castsi256_ps(h));
}

// Whether any lower half is close; `least`: the minima of words.
[[gnu::always_inline]] static inline bool swish_close(__m256i least, __m256i close) {
  const __m256i below = _mm256_subs_epu16(close, least);
  return _mm256_testz_si256(below, below) == 0;
}

#ifdef __AVX512F__
[[gnu::always_inline]] static inline __m512i swish_code(__m512 r, __m512 a, __m512 b, __m512 most,
                                                        __m512 shift) {
  const __m512i gate = _mm512_castps_si512(_mm512_fmadd_ps(a, r, b)),
                g = _mm512_min_epi32(_mm512_max_epi32(gate, _mm512_setzero_si512()),
                                     _mm512_castps_si512(most));
  return _mm512_cvtps_epi32(_mm512_fmadd_ps(r, _mm512_castsi512_ps(g), shift));
}

[[gnu::always_inline]] static inline __m512 hard_swish(__m512 r, float a, float b) {
  const __m512i gate =
      _mm512_castps_si512(_mm512_fmadd_ps(_mm512_set1_ps(a), r, _mm512_set1_ps(b)));
  const __m512i one = _mm512_castps_si512(_mm512_set1_ps(1.0f)),
                h = _mm512_min_epi32(_mm512_max_epi32(gate, _mm512_setzero_si512()), one);
  return _mm512_mul_ps(r, _mm512_castsi512_ps(h));
}

[[gnu::always_inline]] static inline bool swish_close(__m512i least, __m512i close) {
  return _mm512_cmplt_epu16_mask(least, close) != 0;
}
#endif

}  // namespace fold8::kernels::simd
