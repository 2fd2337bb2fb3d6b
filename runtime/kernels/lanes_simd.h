// lanes_ref.h for batches. Include only from *_simd.h.
#pragma once

#include "runtime/kernels/arch.h"
#include "runtime/kernels/lanes_ref.h"

namespace fold8::kernels {

template <>
struct Lanes<Avx2::f32> {
  using F = Avx2::f32;
  using Int = Avx2::s32;
  using Mask = xsimd::batch_bool<float, Avx2::xsimd_arch>;
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F select(Mask m, F a, F b) { return _mm256_blendv_ps(b, a, m); }
  // Not a != a: xsimd's comparison is the ordered one, false for NaN.
  static Mask is_nan(F a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
  static F sqrt(F a) { return _mm256_sqrt_ps(a); }
  static F floor(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
  static F ceil(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
  static F trunc(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
  static F round(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Int bits(F a) { return _mm256_castps_si256(a); }
  static F from_bits(Int a) { return _mm256_castsi256_ps(a); }
  static Int to_int(F a) { return _mm256_cvttps_epi32(a); }
  static F to_float(Int a) { return _mm256_cvtepi32_ps(a); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F scale2(F a, F n) {
    const __m256i k = _mm256_cvttps_epi32(n), h = _mm256_srai_epi32(k, 1),
                  bias = _mm256_set1_epi32(127);
    const __m256i g = _mm256_sub_epi32(k, h);
    const F p = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(h, bias), 23));
    const F q = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(g, bias), 23));
    return (a * p) * q;
  }
};

#ifdef __AVX512F__
template <>
struct Lanes<Avx512::f32> {
  using F = Avx512::f32;
  using Int = Avx512::s32;
  using Mask = xsimd::batch_bool<float, Avx512::xsimd_arch>;
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F select(Mask m, F a, F b) {
    return _mm512_mask_blend_ps(static_cast<__mmask16>(m.data), b, a);
  }
  static Mask is_nan(F a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
  static F sqrt(F a) { return _mm512_sqrt_ps(a); }
  static F floor(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
  static F ceil(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
  static F trunc(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
  static F round(F a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Int bits(F a) { return _mm512_castps_si512(a); }
  static F from_bits(Int a) { return _mm512_castsi512_ps(a); }
  static Int to_int(F a) { return _mm512_cvttps_epi32(a); }
  static F to_float(Int a) { return _mm512_cvtepi32_ps(a); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F scale2(F a, F n) { return _mm512_scalef_ps(a, n); }
  static F permute(F a, Int from) { return _mm512_permutexvar_ps(from, a); }
};
#endif

}  // namespace fold8::kernels
