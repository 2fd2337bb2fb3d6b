// The AVX2 engine of depthwise_strip_simd.h: 8 channels of one output a vector, pieces of two rows
// as 16-bit numbers. Include only from depthwise_strip_simd.h.
#pragma once

#include "runtime/kernels/arch.h"
#include "runtime/kernels/depthwise_strip_epilogue.h"

namespace fold8::kernels::simd {

template <class Arch>
struct StripAvx2 {
  static constexpr int kPieceRows = 2;
  static constexpr std::size_t kLanes = 8;
  static constexpr int kKeptWeights = 0;
  static constexpr int kPieces3 = 0;
  using Vector = __m256i;

  static Vector load(const void* p) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Vector dot(Vector acc, Vector x, Vector w) {
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(x, w));
    asm("" : "+x"(acc));  // or g++ computes all products first, and spills them
    return acc;
  }
  static void store(std::int32_t* to, Vector v) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), v);
  }

  // Bytes 0, 1 (half 0) or 2, 3 of every dword as 16-bit numbers.
  static Vector widened(Vector dwords, int half) {
    const Vector even = _mm256_srai_epi16(_mm256_slli_epi16(dwords, 8), 8),
                 odd = _mm256_srai_epi16(dwords, 8);
    return half == 0 ? _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa)
                     : _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
  }
  // The weights of one tap: packed[i] holds kernel rows 4 i .. 4 i + 3 of 16 channels.
  static void set_weights(const StripPlan& p, const std::int8_t* packed, int packed_pieces, int tap,
                          std::uint8_t* to) {
    for (int h = 0; h < 2; ++h) {
      __m256i* from =
          reinterpret_cast<__m256i*>(to + static_cast<std::size_t>(h) * p.weight_bytes / 2);
      Vector above = _mm256_setzero_si256();
      for (int i = 0; i < p.pieces; i += 2) {
        const Vector w =
            i / 2 < packed_pieces ? load(packed + 32 * i + 32 * h) : _mm256_setzero_si256();
        const Vector moved = _mm256_or_si256(_mm256_slli_epi32(w, 8), _mm256_srli_epi32(above, 24));
        for (int half = 0; half < 2 && i + half < p.pieces; ++half) {
          __m256i* out = from + strip_weight_at(p, i + half, tap, 0);
          _mm256_store_si256(out, widened(w, half));
          if (p.lines > 1) _mm256_store_si256(out + 1, widened(moved, half));
        }
        above = w;
      }
    }
  }
  static void set_init(std::int32_t x_zero_point, const std::int32_t* sums, std::uint8_t* to) {
    for (int h = 0; h < 2; ++h)
      _mm256_store_si256(reinterpret_cast<__m256i*>(to) + h,
                         _mm256_mullo_epi32(_mm256_set1_epi32(-x_zero_point), load(sums + 8 * h)));
  }

  static void fill_padding(std::int32_t x_zero_point, std::size_t vectors, std::uint8_t* to) {
    const __m256i v = _mm256_set1_epi16(static_cast<std::int16_t>(x_zero_point));
    for (__m256i* out = reinterpret_cast<__m256i*>(to); vectors > 0; --vectors, out += 2)
      _mm256_store_si256(out, v), _mm256_store_si256(out + 1, v);
  }

  // 16 bytes of which `width` count; the others may be anything.
  template <bool kCareful>
  [[gnu::always_inline]] static __m128i load_bytes(const std::uint8_t* from, std::size_t width) {
    if (!kCareful || width >= 16) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    alignas(16) std::uint8_t bytes[16] = {};
    for (std::size_t i = 0; i < width; ++i) bytes[i] = from[i];
    return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
  }
  template <bool kCareful>
  static void fill_runs(const StripRows& s, std::size_t to_step, std::uint8_t* to) {
    const std::uint8_t *a = s.from[0], *b = s.from[1];
    const std::size_t a_step = s.step[0], b_step = s.step[1], width = s.width;
    for (std::size_t n = s.count; n > 0; --n, to += to_step, a += a_step, b += b_step)
      for (std::size_t c = 0; c < width; c += 16) {
        const __m128i v = load_bytes<kCareful>(a + c, width - c),
                      u = load_bytes<kCareful>(b + c, width - c);
        __m256i* out = reinterpret_cast<__m256i*>(to + 4 * c);
        _mm256_store_si256(out, _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(v, u)));
        _mm256_store_si256(out + 1, _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(v, u)));
      }
  }
  static void fill(const StripRows& s, int, std::size_t to_step, std::uint8_t* to) {
    const std::size_t whole = strip_whole_runs(s, 2);
    fill_runs<false>(strip_runs(s, 0, whole), to_step, to);
    fill_runs<true>(strip_runs(s, whole, s.count - whole), to_step, to + whole * to_step);
  }

  struct Short {
    static constexpr bool kTwice = true;  // an output may be computed again
    __m256 multiplier, offset, a, b, most, shift;
    __m256i zero_point, lo, hi, close;
    const Epilogue* all;
    std::uint8_t* y;
    std::size_t y_stride, width;

    Short(const StripEpilogue& s, const StripGroup& g) : width(g.width) {
      const std::size_t channel = g.channel, count = g.width;
      const Epilogue& e = *s.all;
      using Io = VectorIo<Avx2::f32>;
      multiplier = Io::load(e.multiplier + channel, count);
      offset = e.offset ? Io::load(e.offset + channel, count) : Avx2::f32(0.0f);
      hi = _mm256_set1_epi8(static_cast<char>(s.hi));
      a = _mm256_set1_ps(s.codes.a), b = _mm256_set1_ps(s.codes.b);
      most = _mm256_set1_ps(s.codes.most), shift = _mm256_set1_ps(s.codes.shift);
      close = _mm256_set1_epi32(s.codes.close);
      all = s.all;
      zero_point = _mm256_set1_epi16(static_cast<std::int16_t>(e.y_zero_point));
      lo = _mm256_set1_epi8(static_cast<char>(s.lo));
      y = static_cast<std::uint8_t*>(e.y) + channel;
      y_stride = e.y_stride;
    }

    [[gnu::always_inline]] __m256 scaled(__m256i acc) const {
      return _mm256_fmadd_ps(_mm256_cvtepi32_ps(acc), multiplier, offset);
    }
    template <int kPixels>
    [[gnu::always_inline]] void clipped(const __m256i (&acc)[kPixels], __m256i (&q)[4]) const {
#pragma GCC unroll 4
      for (int i = 0; i < kPixels; ++i) q[i] = _mm256_cvtps_epi32(scaled(acc[i]));
    }
    // Codes in the upper halves. Where true quotients decide, too.
    template <int kPixels>
    [[gnu::always_inline]] void swished(const __m256i (&acc)[kPixels], __m256i (&g)[4]) const {
#pragma GCC unroll 4
      for (int i = 0; i < kPixels; ++i) g[i] = swish_code(scaled(acc[i]), a, b, most, shift);
      __m256i least = g[0];
#pragma GCC unroll 4
      for (int i = 1; i < kPixels; ++i) least = _mm256_min_epu16(least, g[i]);
      if (__builtin_expect(swish_close(least, close), 0)) quotients<kPixels>(acc, g);
    }
    template <int kPixels>
    [[gnu::always_inline]] void quotients(const __m256i (&acc)[kPixels], __m256i (&g)[4]) const {
      const __m256 limit = _mm256_set1_ps(1024.0f), divisor = _mm256_set1_ps(all->y_divisor);
      const __m256i zero = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(zero_point));
      for (int i = 0; i < kPixels; ++i) {
        const __m256 swish = hard_swish(scaled(acc[i]), all->a, all->b),
                     quotient = _mm256_min_ps(_mm256_div_ps(swish, divisor), limit);
        const __m256i code = _mm256_add_epi32(zero, _mm256_cvtps_epi32(quotient));
        g[i] = _mm256_slli_epi32(_mm256_max_epi32(code, _mm256_set1_epi32(-1)), 16);
      }
    }

    using Cursor = std::uint8_t*;
    Cursor cursor(std::size_t m) const { return y + m * y_stride; }
    Cursor next(Cursor at, std::size_t pixels) const { return at + pixels * y_stride; }
    std::size_t step() const { return y_stride; }
    template <bool kSwish, class Outputs>
    [[gnu::always_inline]] void finish(Cursor to, const __m256i (&acc)[Outputs::kPixels],
                                       const Outputs& outputs) const {
      constexpr int kPixels = Outputs::kPixels;
      __m256i q[4];
      if constexpr (kSwish)
        swished<kPixels>(acc, q);
      else
        clipped<kPixels>(acc, q);
      if constexpr (kPixels == 3) q[3] = q[2];
      const auto words = [&](int i) __attribute__((always_inline)) {
        if constexpr (kSwish)  // pixels i and i + 1 in turns
          return _mm256_blend_epi16(_mm256_srli_epi32(q[i], 16), q[i + 1], 0xaa);
        return _mm256_adds_epi16(_mm256_packs_epi32(q[i], q[i + 1]), zero_point);
      };
      const __m256i low = words(0), high = words(2);
      // Pixels 0 1 2 3, channels 0..3 in the low half and 4..7 in the high one.
      __m256i bytes = _mm256_packus_epi16(low, high);
      if constexpr (kSwish)
        bytes =
            _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                           0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15)));
      else
        bytes = _mm256_min_epu8(_mm256_max_epu8(bytes, lo), hi);
      bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
      if (width < 8) return narrow(to, bytes, outputs);
      const __m128d pair[2] = {_mm_castsi128_pd(_mm256_castsi256_si128(bytes)),
                               _mm_castsi128_pd(_mm256_extracti128_si256(bytes, 1))};
#pragma GCC unroll 4
      for (int i = 0; i < kPixels; to += outputs.step(i++)) {
        if (i % 2 == 0)
          _mm_storel_pd(reinterpret_cast<double*>(to), pair[i / 2]);
        else
          _mm_storeh_pd(reinterpret_cast<double*>(to), pair[i / 2]);
      }
    }
    template <class Outputs>
    [[gnu::noinline]] void narrow(Cursor to, __m256i bytes, const Outputs& outputs) const {
      alignas(32) std::uint8_t codes[32];
      _mm256_store_si256(reinterpret_cast<__m256i*>(codes), bytes);
      for (int i = 0; i < Outputs::kPixels; to += outputs.step(i++))
        for (std::size_t c = 0; c < width; ++c) to[c] = codes[static_cast<std::size_t>(8 * i) + c];
    }
  };
};

}  // namespace fold8::kernels::simd
