// The AVX-512 engine of depthwise_strip_simd.h, for CPUs without VNNI: 16 channels of one output a
// vector, pieces of two rows as 16-bit numbers. Include only from
// depthwise_strip_simd.h.
#pragma once

#include "runtime/kernels/depthwise_strip_vnni.h"

#ifdef __AVX512F__
namespace fold8::kernels::simd {

template <class Arch>
struct StripAvx512 {
  static constexpr int kPieceRows = 2;
  static constexpr std::size_t kLanes = 16;
  static constexpr int kKeptWeights = 12;
  static constexpr int kPieces3 = 2;
  using Vector = __m512i;
  using Short = typename StripVnni<Arch>::Short;

  static Vector load(const void* p) { return _mm512_load_si512(p); }
  static Vector dot(Vector acc, Vector x, Vector w) {
    acc = _mm512_add_epi32(acc, _mm512_madd_epi16(x, w));
    asm("" : "+v"(acc));  // or g++ computes all products first, and spills them
    return acc;
  }
  static void store(std::int32_t* to, Vector v) { _mm512_store_si512(to, v); }

  // Bytes 0, 1 (half 0) or 2, 3 of every dword as 16-bit numbers.
  static Vector widened(Vector dwords, int half) {
    const Vector even = _mm512_srai_epi16(_mm512_slli_epi16(dwords, 8), 8),
                 odd = _mm512_srai_epi16(dwords, 8);
    constexpr __mmask32 kUpper = 0xaaaaaaaa;
    return half == 0 ? _mm512_mask_blend_epi16(kUpper, even, _mm512_slli_epi32(odd, 16))
                     : _mm512_mask_blend_epi16(kUpper, _mm512_srli_epi32(even, 16), odd);
  }
  // The weights of one tap: packed[i] holds kernel rows 4 i .. 4 i + 3.
  static void set_weights(const StripPlan& p, const std::int8_t* packed, int packed_pieces, int tap,
                          std::uint8_t* to) {
    Vector above = _mm512_setzero_si512();
    for (int i = 0; i < p.pieces; i += 2) {
      const Vector w = i / 2 < packed_pieces ? load(packed + 32 * i) : _mm512_setzero_si512();
      const Vector moved = _mm512_or_si512(_mm512_slli_epi32(w, 8), _mm512_srli_epi32(above, 24));
      for (int half = 0; half < 2 && i + half < p.pieces; ++half) {
        std::uint8_t* out = to + strip_weight_at(p, i + half, tap, 0) * 64;
        _mm512_store_si512(out, widened(w, half));
        if (p.lines > 1) _mm512_store_si512(out + 64, widened(moved, half));
      }
      above = w;
    }
  }
  static void set_init(std::int32_t x_zero_point, const std::int32_t* sums, std::uint8_t* to) {
    StripVnni<Arch>::set_init(x_zero_point, sums, to);
  }

  static void fill_padding(std::int32_t x_zero_point, std::size_t vectors, std::uint8_t* to) {
    const Vector v = _mm512_set1_epi16(static_cast<std::int16_t>(x_zero_point));
    for (; vectors > 0; --vectors, to += 64) _mm512_store_si512(to, v);
  }

  static void fill(const StripRows& source, int, std::size_t to_step, std::uint8_t* to) {
    StripRows s = source;  // a copy that stores through `to` cannot touch
    for (; s.count > 0; --s.count, to += to_step) {
      for (std::size_t c = 0; c < s.width; c += 16) {
        const __mmask16 lanes =
            static_cast<__mmask16>(s.width - c >= 16 ? 0xffff : (1u << (s.width - c)) - 1);
        const __m128i v = _mm_maskz_loadu_epi8(lanes, s.from[0] + c),
                      u = _mm_maskz_loadu_epi8(lanes, s.from[1] + c);
        const __m256i both = _mm256_set_m128i(_mm_unpackhi_epi8(v, u), _mm_unpacklo_epi8(v, u));
        _mm512_store_si512(to + 4 * c, _mm512_cvtepu8_epi16(both));
      }
      s.from[0] += s.step[0];
      s.from[1] += s.step[1];
    }
  }
};

}  // namespace fold8::kernels::simd
#endif
