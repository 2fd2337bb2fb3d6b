// The AVX-VNNI engine of depthwise_strip_simd.h: 8 channels of one output a vector as on AVX2,
// pieces of four rows as on AVX-512 VNNI. Include only from depthwise_strip_simd.h.
#pragma once

#include "runtime/kernels/depthwise_strip_avx2.h"

#ifdef __AVXVNNI__
namespace fold8::kernels::simd {

template <class Arch>
struct StripAvxVnni {
  static constexpr int kPieceRows = 4;
  static constexpr std::size_t kLanes = 8;
  static constexpr int kKeptWeights = 0;
  static constexpr int kPieces3 = 0;
  using Vector = __m256i;
  using Short = typename StripAvx2<Arch>::Short;

  static Vector load(const void* p) { return _mm256_load_si256(static_cast<const Vector*>(p)); }
  static Vector dot(Vector acc, Vector x, Vector w) { return _mm256_dpbusd_avx_epi32(acc, x, w); }
  static void store(void* to, Vector v) { _mm256_store_si256(static_cast<Vector*>(to), v); }

  // The weights of one tap: packed[i] holds kernel rows 4 i .. 4 i + 3 of 16 channels.
  static void set_weights(const StripPlan& p, const std::int8_t* packed, int packed_pieces, int tap,
                          std::uint8_t* to) {
    for (int h = 0; h < 2; ++h) {
      Vector above = _mm256_setzero_si256();
      for (int i = 0; i < p.pieces; ++i) {
        const Vector w =
            i < packed_pieces ? load(packed + 64 * i + 32 * h) : _mm256_setzero_si256();
        std::uint8_t* out = to + static_cast<std::size_t>(h) * p.weight_bytes / 2 +
                            strip_weight_at(p, i, tap, 0) * 32;
        store(out, w);
        if (p.lines > 1)
          store(out + 32, _mm256_or_si256(_mm256_slli_epi32(w, 8), _mm256_srli_epi32(above, 24)));
        above = w;
      }
    }
  }
  static void set_init(std::int32_t x_zero_point, const std::int32_t* sums, std::uint8_t* to) {
    for (int h = 0; h < 2; ++h)
      store(to + 32 * h, _mm256_mullo_epi32(_mm256_set1_epi32(-x_zero_point), load(sums + 8 * h)));
  }

  static void fill_padding(std::int32_t x_zero_point, std::size_t vectors, std::uint8_t* to) {
    std::memset(to, x_zero_point, vectors * 64);
  }

  // kRows: those that differ, the others' weights are 0.
  template <int kRows, bool kCareful>
  static void fill_runs(const StripRows& source, std::size_t to_step, std::uint8_t* to) {
    StripRows s = source;  // a copy that stores through `to` cannot touch
    for (; s.count > 0; --s.count, to += to_step) {
      for (std::size_t c = 0; c < s.width; c += 16) {
        __m128i v[4];
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r)
          v[r] = r < kRows
                     ? StripAvx2<Arch>::template load_bytes<kCareful>(s.from[r] + c, s.width - c)
                     : v[r >= 2 ? r - 2 : 0];
        const __m128i low01 = _mm_unpacklo_epi8(v[0], v[1]), high01 = _mm_unpackhi_epi8(v[0], v[1]),
                      low23 = _mm_unpacklo_epi8(v[2], v[3]), high23 = _mm_unpackhi_epi8(v[2], v[3]);
        store(to + 4 * c,
              _mm256_set_m128i(_mm_unpackhi_epi16(low01, low23), _mm_unpacklo_epi16(low01, low23)));
        store(to + 4 * c + 32, _mm256_set_m128i(_mm_unpackhi_epi16(high01, high23),
                                                _mm_unpacklo_epi16(high01, high23)));
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) s.from[r] += s.step[r];
    }
  }
  template <bool kCareful>
  static void fill_rows(const StripRows& s, int rows, std::size_t to_step, std::uint8_t* to) {
    if (rows >= 4) return fill_runs<4, kCareful>(s, to_step, to);
    if (rows == 3) return fill_runs<3, kCareful>(s, to_step, to);
    if (rows == 2) return fill_runs<2, kCareful>(s, to_step, to);
    fill_runs<1, kCareful>(s, to_step, to);
  }
  static void fill(const StripRows& s, int rows, std::size_t to_step, std::uint8_t* to) {
    const std::size_t whole = strip_whole_runs(s, 4);
    fill_rows<false>(strip_runs(s, 0, whole), rows, to_step, to);
    fill_rows<true>(strip_runs(s, whole, s.count - whole), rows, to_step, to + whole * to_step);
  }
};

}  // namespace fold8::kernels::simd
#endif
