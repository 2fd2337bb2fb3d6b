// The AVX-512 VNNI engine of depthwise_strip_simd.h: 16 channels of one output a vector, pieces of
// four rows. Include only from depthwise_strip_simd.h.
#pragma once

#include "runtime/kernels/arch.h"
#include "runtime/kernels/depthwise_strip_epilogue.h"

#ifdef __AVX512F__  // without VNNI: for Short alone
namespace fold8::kernels::simd {

template <class Arch>
struct StripVnni {
  static constexpr int kPieceRows = 4;
  static constexpr std::size_t kLanes = 16;
  static constexpr int kKeptWeights = 10;
  static constexpr int kPieces3 = 1;  // of kernels 3 wide, if registers hold their weights
  using Vector = __m512i;

  static Vector load(const void* p) { return _mm512_load_si512(p); }
  static Vector dot(Vector acc, Vector x, Vector w) { return _mm512_dpbusd_epi32(acc, x, w); }
  static void store(std::int32_t* to, Vector v) { _mm512_store_si512(to, v); }

  // The weights of one tap: packed[i] holds kernel rows 4 i .. 4 i + 3.
  static void set_weights(const StripPlan& p, const std::int8_t* packed, int packed_pieces, int tap,
                          std::uint8_t* to) {
    __m512i above = _mm512_setzero_si512();
    for (int i = 0; i < p.pieces; ++i) {
      const __m512i w =
          i < packed_pieces ? _mm512_load_si512(packed + 64 * i) : _mm512_setzero_si512();
      std::uint8_t* out = to + strip_weight_at(p, i, tap, 0) * 64;
      _mm512_store_si512(out, w);
      if (p.lines > 1)
        _mm512_store_si512(out + 64,
                           _mm512_or_si512(_mm512_slli_epi32(w, 8), _mm512_srli_epi32(above, 24)));
      above = w;
    }
  }
  static void set_init(std::int32_t x_zero_point, const std::int32_t* sums, std::uint8_t* to) {
    _mm512_store_si512(
        to, _mm512_mullo_epi32(_mm512_set1_epi32(-x_zero_point), _mm512_load_si512(sums)));
  }

  static void fill_padding(std::int32_t x_zero_point, std::size_t vectors, std::uint8_t* to) {
    const __m512i v = _mm512_set1_epi8(static_cast<char>(x_zero_point));
    for (; vectors > 0; --vectors, to += 64) _mm512_store_si512(to, v);
  }

  // kRows: those that differ, the others' weights are 0. kGroups: vectors of entries a run.
  template <int kRows, int kGroups>
  static void fill_runs(const StripRows& source, std::size_t to_step, std::uint8_t* to) {
    StripRows s = source;  // a copy that stores through `to` cannot touch
    const __mmask64 mask = ~__mmask64{0} >> (64 - s.width);
    // So that unpacking within 128-bit lanes gives channels in their order.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (; s.count > 0; --s.count, to += to_step) {
      __m512i v[4];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        v[r] = _mm512_permutexvar_epi32(order, _mm512_maskz_loadu_epi8(mask, s.from[r]));
        s.from[r] += s.step[r];
      }
#pragma GCC unroll 4
      for (int r = kRows; r < 4; ++r) v[r] = v[r - 2 >= 0 ? r - 2 : 0];
      const __m512i low01 = _mm512_unpacklo_epi8(v[0], v[1]),
                    low23 = kRows > 2 ? _mm512_unpacklo_epi8(v[2], v[3]) : low01;
      _mm512_store_si512(to, _mm512_unpacklo_epi16(low01, low23));
      if constexpr (kGroups > 1) _mm512_store_si512(to + 64, _mm512_unpackhi_epi16(low01, low23));
      if constexpr (kGroups > 2) {
        const __m512i high01 = _mm512_unpackhi_epi8(v[0], v[1]),
                      high23 = kRows > 2 ? _mm512_unpackhi_epi8(v[2], v[3]) : high01;
        _mm512_store_si512(to + 128, _mm512_unpacklo_epi16(high01, high23));
        if constexpr (kGroups > 3)
          _mm512_store_si512(to + 192, _mm512_unpackhi_epi16(high01, high23));
      }
    }
  }
  template <int kRows>
  static void fill_rows(const StripRows& s, std::size_t to_step, std::uint8_t* to) {
    const std::size_t groups = (s.width + 15) / 16;
    if (groups == 4) return fill_runs<kRows, 4>(s, to_step, to);
    if (groups == 3) return fill_runs<kRows, 3>(s, to_step, to);
    if (groups == 2) return fill_runs<kRows, 2>(s, to_step, to);
    fill_runs<kRows, 1>(s, to_step, to);
  }
  static void fill(const StripRows& s, int rows, std::size_t to_step, std::uint8_t* to) {
    if (rows >= 4) return fill_rows<4>(s, to_step, to);
    if (rows == 3) return fill_rows<3>(s, to_step, to);
    if (rows == 2) return fill_rows<2>(s, to_step, to);
    fill_rows<1>(s, to_step, to);
  }

  struct Short {
    static constexpr bool kTwice = true;  // an output may be computed again
    __m512 multiplier, offset, a, b, most, shift;
    __m512i zero_point, lo, hi, close;
    const Epilogue* all;
    std::uint8_t* y;
    std::size_t y_stride;
    __mmask16 mask;
    bool whole;

    Short(const StripEpilogue& s, const StripGroup& g) {
      const std::size_t channel = g.channel, width = g.width;
      const Epilogue& e = *s.all;
      mask = static_cast<__mmask16>((1u << width) - 1);
      whole = width == 16;
      multiplier = _mm512_maskz_loadu_ps(mask, e.multiplier + channel);
      offset = e.offset ? _mm512_maskz_loadu_ps(mask, e.offset + channel) : _mm512_setzero_ps();
      hi = _mm512_set1_epi8(static_cast<char>(s.hi));
      a = _mm512_set1_ps(s.codes.a), b = _mm512_set1_ps(s.codes.b);
      most = _mm512_set1_ps(s.codes.most), shift = _mm512_set1_ps(s.codes.shift);
      close = _mm512_set1_epi32(s.codes.close);
      all = s.all;
      zero_point = _mm512_set1_epi16(static_cast<std::int16_t>(e.y_zero_point));
      lo = _mm512_set1_epi8(static_cast<char>(s.lo));
      y = static_cast<std::uint8_t*>(e.y) + channel;
      y_stride = e.y_stride;
    }

    [[gnu::always_inline]] __m512 scaled(__m512i acc) const {
      return _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc), multiplier, offset);
    }
    template <int kPixels>
    [[gnu::always_inline]] void clipped(const __m512i (&acc)[kPixels], __m512i (&q)[4]) const {
#pragma GCC unroll 4
      for (int i = 0; i < kPixels; ++i) q[i] = _mm512_cvtps_epi32(scaled(acc[i]));
    }
    // With the zero point.
    template <int kPixels>
    [[gnu::always_inline]] void swished(const __m512i (&acc)[kPixels], __m512i (&q)[4]) const {
      __m512i least = _mm512_set1_epi32(-1);
#pragma GCC unroll 4
      for (int i = 0; i < kPixels; ++i) {
        const __m512i g = swish_code(scaled(acc[i]), a, b, most, shift);
        least = _mm512_min_epu16(least, g);
        q[i] = _mm512_srai_epi32(g, 16);
      }
      if (__builtin_expect(swish_close(least, close), 0)) quotients<kPixels>(acc, q);
    }
    template <int kPixels>
    [[gnu::always_inline]] void quotients(const __m512i (&acc)[kPixels], __m512i (&q)[4]) const {
      const __m512 limit = _mm512_set1_ps(1024.0f), divisor = _mm512_set1_ps(all->y_divisor);
      const __m512i zero = _mm512_cvtepi16_epi32(_mm512_castsi512_si256(zero_point));
      for (int i = 0; i < kPixels; ++i) {
        const __m512 swish = hard_swish(scaled(acc[i]), all->a, all->b);
        q[i] = _mm512_add_epi32(
            zero, _mm512_cvtps_epi32(_mm512_min_ps(_mm512_div_ps(swish, divisor), limit)));
      }
    }

    using Cursor = std::uint8_t*;
    Cursor cursor(std::size_t m) const { return y + m * y_stride; }
    Cursor next(Cursor at, std::size_t pixels) const { return at + pixels * y_stride; }
    std::size_t step() const { return y_stride; }
    template <bool kSwish, class Outputs>
    [[gnu::always_inline]] void finish(Cursor to, const __m512i (&acc)[Outputs::kPixels],
                                       const Outputs& outputs) const {
      constexpr int kPixels = Outputs::kPixels;
      __m512i q[4];
      if constexpr (kSwish)
        swished<kPixels>(acc, q);
      else
        clipped<kPixels>(acc, q);
      if constexpr (kPixels == 3) q[3] = q[2];
      const auto words = [&](int i) __attribute__((always_inline)) {
        const __m512i w = _mm512_packs_epi32(q[i], q[i + 1]);
        return kSwish ? w : _mm512_adds_epi16(w, zero_point);
      };
      const __m512i low = words(0), high = words(2);
      const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
      const __m512i bytes = _mm512_permutexvar_epi32(
          order, _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(low, high), lo), hi));
      const auto put = [&](int i, __m128i v) __attribute__((always_inline)) {
        if (whole)
          _mm_storeu_si128(reinterpret_cast<__m128i*>(to), v);
        else
          _mm_mask_storeu_epi8(to, mask, v);
        to += outputs.step(i);
      };
      put(0, _mm512_castsi512_si128(bytes));
      put(1, _mm512_extracti32x4_epi32(bytes, 1));
      put(2, _mm512_extracti32x4_epi32(bytes, 2));
      if constexpr (kPixels > 3) put(3, _mm512_extracti32x4_epi32(bytes, 3));
    }
  };
};

}  // namespace fold8::kernels::simd
#endif
