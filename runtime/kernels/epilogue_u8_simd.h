// The common u8 epilogues kept in registers: no row scale, no table, and either activation none or
// clip, residual none or u8, no division; or hard_swish without a residual. Same bits as
// epilogue_simd.h: rounding is monotone, so clamping after it to rounded bounds is clamping before
// it; only the upper bound must come first, because the conversion overflows to the *lowest*
// integer. Include only from *_simd.h.
#pragma once

#include <bit>

#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/epilogue_bounds_simd.h"
#include "runtime/kernels/hard_swish_codes_simd.h"
#include "runtime/kernels/vec16_simd.h"
#include "runtime/kernels/vector_io_simd.h"

namespace fold8::kernels::simd {

enum class FinishU8 { clip, residual, swish };

struct EpilogueU8 {
  const float* multiplier;
  const float* offset;           // or null
  const std::uint8_t* residual;  // or null
  std::size_t residual_stride;
  float residual_scale;
  std::int32_t residual_zero_point;
  float hi;               // upper bound of r
  bool swish = false;     // hard_swish(r) / divisor, else r
  SwishCodes codes = {};  // less z
  float a = 0, b = 0, divisor = 0;
  std::int16_t zero_point;
  std::uint8_t lo;  // lower bound of q
  std::uint8_t* y;
  std::size_t y_stride;
};

template <class Arch>
bool epilogue_u8_swish(const Epilogue& e, std::size_t begin, std::size_t end, EpilogueU8& fast) {
  SwishCodes codes;
  if (e.output_kind != OutputKind::u8 || e.row_scale || e.table ||
      e.residual_kind != ResidualKind::none || !swish_codes<Arch>(e, 0, codes))
    return false;
  if (!all_below<Arch>(e.multiplier + begin, end - begin, 40) ||
      (e.offset && !all_below<Arch>(e.offset + begin, end - begin, 60)))
    return false;
  fast = {.multiplier = e.multiplier,
          .offset = e.offset,
          .residual = nullptr,
          .hi = static_cast<float>(255 - e.y_zero_point) * e.y_divisor,
          .swish = true,
          .codes = codes,
          .a = e.a,
          .b = e.b,
          .divisor = e.y_divisor,
          .zero_point = static_cast<std::int16_t>(e.y_zero_point),
          .lo = 0,
          .y = static_cast<std::uint8_t*>(e.y),
          .y_stride = e.y_stride};
  return true;
}

template <class Arch>
bool all_finite(const float* p, std::size_t n) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < n; ++i)
    bad |= (std::bit_cast<std::uint32_t>(p[i]) & 0x7f800000u) == 0x7f800000u;
  return bad == 0;
}

// Fills `fast` and returns true if columns [begin, end) of this epilogue can take the short way.
// NaN cannot arise there: every factor is finite.
template <class Arch>
bool epilogue_u8(const Epilogue& e, std::size_t begin, std::size_t end, EpilogueU8& fast) {
  if (e.output_kind != OutputKind::u8 || e.row_scale || e.table || e.y_divisor != 0) return false;
  if (e.residual_kind == ResidualKind::f32) return false;
  float lo, hi;
  if (!u8_bounds<Arch>(e, lo, hi)) return false;
  if (!all_finite<Arch>(e.multiplier + begin, end - begin)) return false;
  if (e.offset && !all_finite<Arch>(e.offset + begin, end - begin)) return false;
  if (!all_finite<Arch>(&e.residual_scale, 1)) return false;
  const bool residual = e.residual_kind == ResidualKind::u8;
  fast = {.multiplier = e.multiplier,
          .offset = e.offset,
          .residual = residual ? static_cast<const std::uint8_t*>(e.residual) : nullptr,
          .residual_stride = e.residual_stride,
          .residual_scale = e.residual_scale,
          .residual_zero_point = e.residual_zero_point,
          .hi = hi,
          .zero_point = static_cast<std::int16_t>(e.y_zero_point),
          .lo = code_of_bound<Arch>(e, lo),
          .y = static_cast<std::uint8_t*>(e.y),
          .y_stride = e.y_stride};
  return true;
}

// Either, for kernels that finish with epilogue_u8_tile.
template <class Arch>
bool epilogue_u8_tiles(const Epilogue& e, std::size_t begin, std::size_t end, EpilogueU8& fast) {
  return epilogue_u8<Arch>(e, begin, end, fast) || epilogue_u8_swish<Arch>(e, begin, end, fast);
}

// The same for the matrix of epilogue_shift.h.
[[gnu::always_inline]] static inline EpilogueU8 epilogue_u8_at(EpilogueU8 e, std::size_t m,
                                                               std::size_t n,
                                                               std::size_t row_step) {
  e.multiplier += n;
  if (e.offset) e.offset += n;
  if (e.residual) e.residual += m * e.residual_stride + n;
  e.y += m * e.y_stride + n;
  e.residual_stride *= row_step;
  e.y_stride *= row_step;
  return e;
}

#ifdef __AVX512F__
// Four vectors of rounded values as 64 codes. kVectors of them count.
template <int kVectors>
[[gnu::always_inline]] inline __m512i epilogue_u8_codes(const EpilogueU8& e, const __m512i* r) {
  const __m512i z = _mm512_set1_epi16(e.zero_point);
  const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(r[0], r[kVectors > 1 ? 1 : 0]), z);
  __m512i high = low;
  if constexpr (kVectors > 2)
    high = _mm512_adds_epi16(_mm512_packs_epi32(r[2], r[kVectors - 1]), z);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i q = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
  return _mm512_max_epu8(q, _mm512_set1_epi8(static_cast<char>(e.lo)));
}

template <int kVectors>
[[gnu::always_inline]] inline void epilogue_u8_store(std::uint8_t* y, __m512i q) {
  if constexpr (kVectors == 4) {
    _mm512_storeu_si512(y, q);
  } else if constexpr (kVectors >= 2) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_castsi512_si256(q));
    if constexpr (kVectors == 3)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y + 32), _mm512_extracti32x4_epi32(q, 2));
  } else {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm512_castsi512_si128(q));
  }
}

// Sums of kRows x 16 columns to round(hard_swish(r) / divisor), in place (hard_swish_codes_simd.h).
template <int kRows, int kPanels>
[[gnu::always_inline]] inline void epilogue_u8_swish_round(const EpilogueU8& e, __m512 multiplier,
                                                           __m512 offset, int v,
                                                           __m512i (&acc)[kRows][kPanels]) {
  const __m512 a = _mm512_set1_ps(e.codes.a), b = _mm512_set1_ps(e.codes.b),
               most = _mm512_set1_ps(e.codes.most), shift = _mm512_set1_ps(e.codes.shift);
  const auto scaled = [&](__m512i sum) __attribute__((always_inline)) {
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), multiplier, offset);
  };
  __m512i sums[kRows], least = _mm512_set1_epi32(-1);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    sums[r] = acc[r][v];
    const __m512i g = swish_code(scaled(sums[r]), a, b, most, shift);
    least = _mm512_min_epu16(least, g);
    acc[r][v] = _mm512_srai_epi32(g, 16);
  }
  if (__builtin_expect(swish_close(least, _mm512_set1_epi32(e.codes.close)), 0)) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512 most_r = _mm512_set1_ps(e.hi), t = hard_swish(scaled(sums[r]), e.a, e.b);
      acc[r][v] =
          _mm512_cvtps_epi32(_mm512_div_ps(_mm512_min_ps(t, most_r), _mm512_set1_ps(e.divisor)));
    }
  }
}

// Sums of kRows x 16 columns to rounded values, in place.
template <int kRows, int kPanels, FinishU8 kFinish>
[[gnu::always_inline]] inline void epilogue_u8_round(const EpilogueU8& e, std::size_t m,
                                                     std::size_t n, __mmask16 lanes, int v,
                                                     __m512i (&acc)[kRows][kPanels]) {
  const __m512 multiplier = _mm512_maskz_loadu_ps(lanes, e.multiplier + n);
  const __m512 offset = e.offset ? _mm512_maskz_loadu_ps(lanes, e.offset + n) : _mm512_setzero_ps();
  if constexpr (kFinish == FinishU8::swish)
    return epilogue_u8_swish_round<kRows, kPanels>(e, multiplier, offset, v, acc);
  const __m512 hi = _mm512_set1_ps(e.hi);
  constexpr bool kResidual = kFinish == FinishU8::residual;
  const std::uint8_t* residual = kResidual ? e.residual + m * e.residual_stride + n : nullptr;
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    __m512 f = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[r][v]), multiplier, offset);
    if constexpr (kResidual) {
      const __m512i q = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes, residual));
      const __m512i centred = _mm512_sub_epi32(q, _mm512_set1_epi32(e.residual_zero_point));
      f = _mm512_fmadd_ps(_mm512_cvtepi32_ps(centred), _mm512_set1_ps(e.residual_scale), f);
      residual += e.residual_stride;
    }
    acc[r][v] = _mm512_cvtps_epi32(_mm512_min_ps(f, hi));
  }
}

// Rows [m, m + kRows), columns [n, n + count) with count <= 16 * kPanels.
template <int kRows, int kPanels>
[[gnu::always_inline]] inline void epilogue_u8_tile(const EpilogueU8& fast, std::size_t m,
                                                    std::size_t n, __m512i (&acc)[kRows][kPanels],
                                                    std::size_t count) {
  const EpilogueU8 e = fast;  // a copy that stores to y cannot touch
  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - count);
#pragma GCC unroll 4
  for (int v = 0; v < kPanels; ++v) {
    const __mmask16 lanes = static_cast<__mmask16>(mask >> (16 * v));
    const std::size_t at = n + 16 * static_cast<std::size_t>(v);
    if (e.swish)
      epilogue_u8_round<kRows, kPanels, FinishU8::swish>(e, m, at, lanes, v, acc);
    else if (e.residual != nullptr)
      epilogue_u8_round<kRows, kPanels, FinishU8::residual>(e, m, at, lanes, v, acc);
    else
      epilogue_u8_round<kRows, kPanels, FinishU8::clip>(e, m, at, lanes, v, acc);
  }
  std::uint8_t* y = e.y + m * e.y_stride + n;
  if constexpr (kPanels == 1 && kRows % 4 == 0) {  // the codes of four rows at once
    const __mmask16 lanes = static_cast<__mmask16>(mask);
#pragma GCC unroll 3
    for (int r = 0; r < kRows; r += 4, y += 4 * e.y_stride) {
      const __m512i rows[4] = {acc[r][0], acc[r + 1][0], acc[r + 2][0], acc[r + 3][0]};
      const __m512i q = epilogue_u8_codes<4>(e, rows);
      _mm_mask_storeu_epi8(y, lanes, _mm512_castsi512_si128(q));
      _mm_mask_storeu_epi8(y + e.y_stride, lanes, _mm512_extracti32x4_epi32(q, 1));
      _mm_mask_storeu_epi8(y + 2 * e.y_stride, lanes, _mm512_extracti32x4_epi32(q, 2));
      _mm_mask_storeu_epi8(y + 3 * e.y_stride, lanes, _mm512_extracti32x4_epi32(q, 3));
    }
  } else if (count == 16 * kPanels) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r, y += e.y_stride)
      epilogue_u8_store<kPanels>(y, epilogue_u8_codes<kPanels>(e, acc[r]));
  } else {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r, y += e.y_stride)
      _mm512_mask_storeu_epi8(y, mask, epilogue_u8_codes<kPanels>(e, acc[r]));
  }
}

// One row.
template <int kVectors>
[[gnu::always_inline]] inline void epilogue_u8_row(const EpilogueU8& e, std::size_t m,
                                                   std::size_t n, const __m512i* acc,
                                                   std::size_t count) {
  __m512i row[1][kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) row[0][v] = acc[v];
  epilogue_u8_tile<1, kVectors>(e, m, n, row, count);
}
#endif

template <int kRows>
[[gnu::always_inline]] inline void epilogue_u8_swish_round(const EpilogueU8& e, __m256 multiplier,
                                                           __m256 offset, int h,
                                                           __m256i (&acc)[kRows][2]) {
  const __m256 a = _mm256_set1_ps(e.codes.a), b = _mm256_set1_ps(e.codes.b),
               most = _mm256_set1_ps(e.codes.most), shift = _mm256_set1_ps(e.codes.shift);
  const auto scaled = [&](__m256i sum) __attribute__((always_inline)) {
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), multiplier, offset);
  };
  __m256i sums[kRows], least = _mm256_set1_epi32(-1);
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    sums[r] = acc[r][h];
    const __m256i g = swish_code(scaled(sums[r]), a, b, most, shift);
    least = _mm256_min_epu16(least, g);
    acc[r][h] = _mm256_srai_epi32(g, 16);
  }
  if (__builtin_expect(swish_close(least, _mm256_set1_epi32(e.codes.close)), 0)) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m256 most_r = _mm256_set1_ps(e.hi), t = hard_swish(scaled(sums[r]), e.a, e.b);
      acc[r][h] =
          _mm256_cvtps_epi32(_mm256_div_ps(_mm256_min_ps(t, most_r), _mm256_set1_ps(e.divisor)));
    }
  }
}

// The same for 8 columns of AVX2; count of them are valid.
template <int kRows, FinishU8 kFinish>
[[gnu::always_inline]] inline void epilogue_u8_round(const EpilogueU8& e, std::size_t m,
                                                     std::size_t n, std::size_t count, int h,
                                                     __m256i (&acc)[kRows][2]) {
  using Io = VectorIo<Avx2::f32>;
  const __m256 multiplier = Io::load(e.multiplier + n, count);
  const __m256 offset = e.offset ? __m256(Io::load(e.offset + n, count)) : _mm256_setzero_ps();
  if constexpr (kFinish == FinishU8::swish)
    return epilogue_u8_swish_round<kRows>(e, multiplier, offset, h, acc);
  constexpr bool kResidual = kFinish == FinishU8::residual;
  const std::uint8_t* residual = kResidual ? e.residual + m * e.residual_stride + n : nullptr;
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    __m256 f = _mm256_fmadd_ps(_mm256_cvtepi32_ps(acc[r][h]), multiplier, offset);
    if constexpr (kResidual) {
      const __m256i q = Io::add(Io::load(residual, count), -e.residual_zero_point);
      f = _mm256_fmadd_ps(_mm256_cvtepi32_ps(q), _mm256_set1_ps(e.residual_scale), f);
      residual += e.residual_stride;
    }
    acc[r][h] = _mm256_cvtps_epi32(_mm256_min_ps(f, _mm256_set1_ps(e.hi)));
  }
}

// Rows [m, m + kRows), columns [n, n + count) with count <= 16, from the sums of columns 0..7 and
// 8..15.
template <int kRows>
[[gnu::always_inline]] inline void epilogue_u8_tile(const EpilogueU8& fast, std::size_t m,
                                                    std::size_t n, __m256i (&acc)[kRows][2],
                                                    std::size_t count) {
  const EpilogueU8 e = fast;  // a copy that stores to y cannot touch
  const std::size_t counts[2] = {count < 8 ? count : 8, count > 8 ? count - 8 : 0};
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    if (counts[h] == 0) break;  // those columns are not stored
    const std::size_t at = n + 8 * static_cast<std::size_t>(h);
    if (e.swish)
      epilogue_u8_round<kRows, FinishU8::swish>(e, m, at, counts[h], h, acc);
    else if (e.residual != nullptr)
      epilogue_u8_round<kRows, FinishU8::residual>(e, m, at, counts[h], h, acc);
    else
      epilogue_u8_round<kRows, FinishU8::clip>(e, m, at, counts[h], h, acc);
  }
  const __m256i z = _mm256_set1_epi16(e.zero_point), lo = _mm256_set1_epi8(static_cast<char>(e.lo));
  const auto store = [&](std::uint8_t * to, __m128i q) __attribute__((always_inline)) {
    if (count >= 16)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), q);
    else
      Memory16<Avx2>::store_bytes(to, static_cast<int>(count), q);
  };
  std::uint8_t* y = e.y + m * e.y_stride + n;
  // Two rows at a time: packing leaves columns 0..3 and 8..11 of both in the low half.
#pragma GCC unroll 3
  for (int r = 0; r < kRows; r += 2, y += 2 * e.y_stride) {
    const int next = r + 1 < kRows ? r + 1 : r;
    const __m256i words = _mm256_adds_epi16(_mm256_packs_epi32(acc[r][0], acc[r][1]), z),
                  more = _mm256_adds_epi16(_mm256_packs_epi32(acc[next][0], acc[next][1]), z);
    const __m256i q =
        _mm256_permutevar8x32_epi32(_mm256_max_epu8(_mm256_packus_epi16(words, more), lo),
                                    _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    store(y, _mm256_castsi256_si128(q));
    if (next > r) store(y + e.y_stride, _mm256_extracti128_si256(q, 1));
  }
}

[[gnu::always_inline]] static inline void epilogue_u8_row(const EpilogueU8& e, std::size_t m,
                                                          std::size_t n, __m256i acc0, __m256i acc1,
                                                          std::size_t count) {
  __m256i row[1][2] = {{acc0, acc1}};
  epilogue_u8_tile<1>(e, m, n, row, count);
}

}  // namespace fold8::kernels::simd
