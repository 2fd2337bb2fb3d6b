// Loads and stores of up to one vector of floats, ints or bytes that touch nothing past `count`
// elements. Include only from *_simd.h. F is Arch::f32; a vector has F::size lanes; lanes past
// count are 0 after a load.
#pragma once

#include <cstring>

#include "runtime/kernels/arch.h"

namespace fold8::kernels::simd {

template <class F>
struct VectorIo;

template <>
struct VectorIo<Avx2::f32> {
  using F = Avx2::f32;
  using Int = __m256i;
  static constexpr std::size_t kLanes = 8;

  static Int lane_mask(std::size_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static F load(const float* p, std::size_t count) {
    return count >= kLanes ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, lane_mask(count));
  }
  static Int load(const std::int32_t* p, std::size_t count) {
    return count >= kLanes ? _mm256_loadu_si256(reinterpret_cast<const Int*>(p))
                           : _mm256_maskload_epi32(p, lane_mask(count));
  }
  static Int load(const std::uint8_t* p, std::size_t count) {  // zero-extended to 32 bits
    std::uint64_t bytes = 0;
    if (count >= kLanes)
      std::memcpy(&bytes, p, kLanes);
    else
      for (std::size_t i = 0; i < count; ++i) bytes |= std::uint64_t{p[i]} << (8 * i);
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(bytes)));
  }
  static void store(float* p, F v, std::size_t count) {
    if (count >= kLanes)
      _mm256_storeu_ps(p, v);
    else
      _mm256_maskstore_ps(p, lane_mask(count), v);
  }
  static void store(std::int32_t* p, Int v, std::size_t count) {
    if (count >= kLanes)
      _mm256_storeu_si256(reinterpret_cast<Int*>(p), v);
    else
      _mm256_maskstore_epi32(p, lane_mask(count), v);
  }
  static void store_bytes(std::uint8_t* p, Int v, std::size_t count) {  // lanes are 0..255
    const __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm_packus_epi16(words, words)));
    if (count >= kLanes)
      std::memcpy(p, &bytes, kLanes);
    else
      for (std::size_t i = 0; i < count; ++i) p[i] = static_cast<std::uint8_t>(bytes >> (8 * i));
  }
  static F to_float(Int v) { return _mm256_cvtepi32_ps(v); }
  static Int add(Int v, std::int32_t c) { return _mm256_add_epi32(v, _mm256_set1_epi32(c)); }
  // Rounded half to even; 0 where r is NaN. |r| < 2^31.
  static Int round(F r) {
    const __m256 ordered = _mm256_cmp_ps(r, r, _CMP_ORD_Q);
    return _mm256_and_si256(_mm256_cvtps_epi32(r), _mm256_castps_si256(ordered));
  }
  // min(max(r, lo), hi), NaN stays NaN (the second operand of vmaxps, vminps).
  static F clamp(F r, F lo, F hi) { return _mm256_min_ps(hi, _mm256_max_ps(lo, r)); }
};

#ifdef __AVX512F__
template <>
struct VectorIo<xsimd::batch<float, xsimd::avx512bw>> {
  using F = xsimd::batch<float, xsimd::avx512bw>;
  using Int = __m512i;
  static constexpr std::size_t kLanes = 16;

  static __mmask16 lane_mask(std::size_t count) {
    return count >= kLanes ? __mmask16{0xffff} : static_cast<__mmask16>((1u << count) - 1);
  }
  static F load(const float* p, std::size_t count) {
    return count >= kLanes ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(lane_mask(count), p);
  }
  static Int load(const std::int32_t* p, std::size_t count) {
    return count >= kLanes ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi32(lane_mask(count), p);
  }
  static Int load(const std::uint8_t* p, std::size_t count) {
    const __m128i bytes = count >= kLanes ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))
                                          : _mm_maskz_loadu_epi8(lane_mask(count), p);
    return _mm512_cvtepu8_epi32(bytes);
  }
  static void store(float* p, F v, std::size_t count) {
    if (count >= kLanes)
      _mm512_storeu_ps(p, v);
    else
      _mm512_mask_storeu_ps(p, lane_mask(count), v);
  }
  static void store(std::int32_t* p, Int v, std::size_t count) {
    if (count >= kLanes)
      _mm512_storeu_si512(p, v);
    else
      _mm512_mask_storeu_epi32(p, lane_mask(count), v);
  }
  static void store_bytes(std::uint8_t* p, Int v, std::size_t count) {
    const __m128i bytes = _mm512_cvtepi32_epi8(v);
    if (count >= kLanes)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
    else
      _mm_mask_storeu_epi8(p, lane_mask(count), bytes);
  }
  static F to_float(Int v) { return _mm512_cvtepi32_ps(v); }
  static Int add(Int v, std::int32_t c) { return _mm512_add_epi32(v, _mm512_set1_epi32(c)); }
  static Int round(F r) {
    return _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(r, r, _CMP_ORD_Q), r);
  }
  static F clamp(F r, F lo, F hi) { return _mm512_min_ps(hi, _mm512_max_ps(lo, r)); }
};
#endif

// The lanes of a vector of floats that count, for several loads and stores: all of them, ...
template <class F>
struct AllLanes {
  AllLanes() = default;
  [[gnu::always_inline]] explicit AllLanes(std::size_t) {}
  [[gnu::always_inline]] F load(const float* p) const { return F::load_unaligned(p); }
  [[gnu::always_inline]] void store(float* p, F v) const { v.store_unaligned(p); }
};
// ... or all or none of them, ...
template <class F>
struct AllOrNoLanes {
  bool all;
  AllOrNoLanes() = default;
  [[gnu::always_inline]] explicit AllOrNoLanes(std::size_t count) : all(count != 0) {}
  [[gnu::always_inline]] F load(const float* p) const {
    return all ? F::load_unaligned(p) : F(0.0f);
  }
  [[gnu::always_inline]] void store(float* p, F v) const {
    if (all) v.store_unaligned(p);
  }
};
// ... or the first `count`, more than there are meaning all. The others are 0 after a load.
template <class F>
struct SomeLanes;
template <>
struct SomeLanes<Avx2::f32> {
  using F = Avx2::f32;
  __m256i mask;
  SomeLanes() = default;
  [[gnu::always_inline]] explicit SomeLanes(std::size_t count)
      : mask(VectorIo<F>::lane_mask(count < F::size ? count : F::size)) {}
  [[gnu::always_inline]] F load(const float* p) const { return _mm256_maskload_ps(p, mask); }
  [[gnu::always_inline]] void store(float* p, F v) const { _mm256_maskstore_ps(p, mask, v); }
};
#ifdef __AVX512F__
template <>
struct SomeLanes<Avx512::f32> {
  using F = Avx512::f32;
  __mmask16 mask;
  SomeLanes() = default;
  [[gnu::always_inline]] explicit SomeLanes(std::size_t count)
      : mask(VectorIo<F>::lane_mask(count)) {}
  [[gnu::always_inline]] F load(const float* p) const { return _mm512_maskz_loadu_ps(mask, p); }
  [[gnu::always_inline]] void store(float* p, F v) const { _mm512_mask_storeu_ps(p, mask, v); }
};
#endif

}  // namespace fold8::kernels::simd
