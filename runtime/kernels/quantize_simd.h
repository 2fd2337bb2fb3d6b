#pragma once

#include "runtime/core/rotation.h"
#include "runtime/kernels/quantize.h"
#include "runtime/kernels/quantize_quotient_simd.h"
#include "runtime/kernels/unary_simd.h"

namespace fold8::kernels::simd {

template <class Arch>
void quantize(const QuantizeArgs& args) {
  using V = V16<Arch>;
  const bool u8 = args.type == QType::u8, last = args.inner == 1 && args.channels > 1;
  const std::int32_t lowest = u8 ? 0 : -128, highest = u8 ? 255 : 127;
  auto* q = static_cast<std::uint8_t*>(args.q);
  const std::size_t rows = last ? args.outer : args.outer * args.channels;
  const std::size_t cols = last ? args.channels : args.inner;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t at = i * cols;
    if (!last) {
      const std::size_t c = i % args.channels;
      const RoundQuotient<Arch> codes(
          args.scales[c], args.zero_points != nullptr ? args.zero_points[c] : 0, lowest, highest);
      for_steps<Arch>(cols, [&](std::size_t j, auto n) {
        store_u8<Arch>(q + at + j, n, codes(load<Arch>(args.x + at + j, n)));
      });
      continue;
    }
    for_steps<Arch>(cols, [&](std::size_t j, auto n) {
      RoundClamped<Arch> round(0, lowest, highest);
      if (args.zero_points != nullptr)
        round.z = Lanes<V>::to_float(load<Arch>(args.zero_points + j, n));
      round.lo = round.lo - round.z;
      round.hi = round.hi - round.z;
      store_u8<Arch>(q + at + j, n,
                     round(load<Arch>(args.x + at + j, n) / load<Arch>(args.scales + j, n)));
    });
  }
}

template <class Arch, QType type, class N>
inline I16<Arch> load_codes(const void* q, std::size_t at, N n) {
  if constexpr (type == QType::u8)
    return load_u8<Arch>(static_cast<const std::uint8_t*>(q) + at, n);
  if constexpr (type == QType::s8) return load_s8<Arch>(static_cast<const std::int8_t*>(q) + at, n);
  if constexpr (type == QType::s32) return load<Arch>(static_cast<const std::int32_t*>(q) + at, n);
}

template <class Arch, QType type>
inline void dequantize_run(const DequantizeArgs& args) {
  using V = V16<Arch>;
  using L = Lanes<V>;
  const bool last = args.inner == 1 && args.channels > 1,
             zero = args.zero_points != nullptr && type != QType::s32;
  const std::size_t rows = last ? args.outer : args.outer * args.channels;
  const std::size_t cols = last ? args.channels : args.inner;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t at = i * cols, c = last ? 0 : i % args.channels;
    const V s_row(args.scales[c]);
    const I16<Arch> z_row(zero ? args.zero_points[c] : 0);
    for_steps<Arch>(cols, [&](std::size_t j, auto n) {
      const V s = last ? load<Arch>(args.scales + j, n) : s_row;
      const I16<Arch> z = last && zero ? load<Arch>(args.zero_points + j, n) : z_row;
      const I16<Arch> q = load_codes<Arch, type>(args.q, at + j, n);
      store<Arch>(args.y + at + j, n, L::to_float(q - z) * s);
    });
  }
}

template <class Arch>
void dequantize(const DequantizeArgs& args) {
  switch (args.type) {
    case QType::u8:
      return dequantize_run<Arch, QType::u8>(args);
    case QType::s8:
      return dequantize_run<Arch, QType::s8>(args);
    case QType::s32:
      return dequantize_run<Arch, QType::s32>(args);
  }
}

// dynamic_row_scale of quantize_ref.h from the largest magnitude's bits (NaN and Inf are the
// largest of all).
template <class Arch>
FOLD8_INLINE float row_scale_of(I16<Arch> largest_bits) {
  const float m = __builtin_bit_cast(float, Memory16<Arch>::fold_max(largest_bits)), s = m / 127.0f;
  return !(m < __builtin_inff()) ? __builtin_nanf("") : s < 0x1p-126f ? 0x1p-126f : s;
}

template <class Arch>
inline I16<Arch> magnitude_bits(V16<Arch> v) {
  return Lanes<V16<Arch>>::bits(v) & I16<Arch>(0x7fffffff);
}

// The elements k m + j .. of all segments k, times their factors.
template <class Arch, class N, std::size_t... k>
FOLD8_INLINE void load_segments(V16<Arch> (&v)[kRotatedSegments], const float* x,
                                const float* factors, std::size_t m, N n,
                                std::index_sequence<k...>) {
  ((v[k] = load<Arch>(x + k * m, n)), ...);
  if (factors != nullptr) ((v[k] = v[k] * load<Arch>(factors + k * m, n)), ...);
}

template <class Arch, std::size_t... k>
FOLD8_INLINE void store_segments(const V16<Arch> (&v)[kRotatedSegments], float* y, std::size_t m,
                                 std::index_sequence<k...>) {
  (store<Arch>(y + k * m, Full{}, v[k]), ...);
}

// y [cols + 16] = the row x behind its factors (or null), rotated. The rest of a segment comes
// first: what its stores write beyond is written again. One body for all, since the library's
// size counts.
template <class Arch>
[[gnu::noinline]] void rotate_row(std::size_t cols, const float* x, const float* factors,
                                  float* y) {
  constexpr std::make_index_sequence<kRotatedSegments> all;
  const std::size_t m = cols / kRotatedSegments, rest = m % 16, whole = m - rest;
  for (std::size_t step = rest != 0 ? 0 : 1; step <= whole / 16; ++step) {
    const std::size_t j = step == 0 ? whole : (step - 1) * 16;
    const float* scaled_by = factors != nullptr ? factors + j : nullptr;
    V16<Arch> v[kRotatedSegments];
    if (step == 0)
      load_segments<Arch>(v, x + j, scaled_by, m, static_cast<int>(rest), all);
    else
      load_segments<Arch>(v, x + j, scaled_by, m, Full{}, all);
    rotate_segments(v);
    store_segments<Arch>(v, y + j, m, all);
  }
}

// value(j, n): elements of the row.
template <class Arch, class Value>
FOLD8_INLINE float quantize_row(std::size_t cols, std::uint8_t* q, const Value& value) {
  I16<Arch> largest(0);
  for_steps<Arch>(cols, [&](std::size_t j, auto n) {
    largest = Memory16<Arch>::max(largest, magnitude_bits<Arch>(value(j, n)));
  });
  const float s = row_scale_of<Arch>(largest);
  const RowQuotient<Arch> codes(s);
  for_steps<Arch>(cols, [&](std::size_t j, auto n) {
    store_u8<Arch>(q + j, n, codes(value(j, n)) + I16<Arch>(128));
  });
  return s;
}

template <class Arch>
void quantize_rows(const QuantizeRowsArgs& args) {
  const std::size_t x_stride = args.x_stride != 0 ? args.x_stride : args.cols;
  const std::size_t q_stride = args.q_stride != 0 ? args.q_stride : args.cols;
  for (std::size_t i = 0; i < args.rows; ++i) {
    const float* x = args.x + i * x_stride;
    std::uint8_t* q = args.q + i * q_stride;
    if (args.rotated) {
      rotate_row<Arch>(args.cols, x, args.factors, args.scratch);
      x = args.scratch;
    }
    if (args.factors == nullptr || args.rotated)
      args.scales[i] = quantize_row<Arch>(
          args.cols, q, [&](std::size_t j, auto n) { return load<Arch>(x + j, n); });
    else
      args.scales[i] = quantize_row<Arch>(args.cols, q, [&](std::size_t j, auto n) {
        return load<Arch>(x + j, n) * load<Arch>(args.factors + j, n);
      });
  }
}

#ifdef __AVX512BW__
// The table as 128 words in four registers; 64 codes at a time, the even ones and the odd ones.
template <class Arch>
class MapWords {
 public:
  explicit MapWords(const std::uint8_t* table) {
    for (int i = 0; i < 4; ++i) part_[i] = _mm512_loadu_si512(table + 64 * i);
  }
  __m512i operator()(__m512i x) const {
    const __m512i bytes = _mm512_set1_epi16(255);
    const __m512i even = word(_mm512_and_si512(x, bytes)), odd = word(_mm512_srli_epi16(x, 8));
    return _mm512_or_si512(_mm512_and_si512(even, bytes), _mm512_slli_epi16(odd, 8));
  }

 private:
  // Words 0 .. 255 to their entries, in the low byte.
  __m512i word(__m512i code) const {
    const __m512i at = _mm512_srli_epi16(code, 1);
    const __m512i low = _mm512_permutex2var_epi16(part_[0], at, part_[1]);
    const __m512i high = _mm512_permutex2var_epi16(part_[2], at, part_[3]);
    const __m512i both =
        _mm512_mask_blend_epi16(_mm512_test_epi16_mask(code, _mm512_set1_epi16(128)), low, high);
    const __m512i odd = _mm512_slli_epi16(_mm512_and_si512(code, _mm512_set1_epi16(1)), 3);
    return _mm512_srlv_epi16(both, odd);
  }
  __m512i part_[4];
};
#endif

template <class Arch>
void map_u8(const MapU8Args& args) {
  const std::uint8_t *x = args.x, *table = args.table;
  std::uint8_t* y = args.y;
  std::size_t i = 0;
#ifdef __AVX512BW__
  if (args.n >= 64) {
    const MapWords<Arch> map(table);
    for (; i + 64 <= args.n; i += 64) _mm512_storeu_si512(y + i, map(_mm512_loadu_si512(x + i)));
  }
#endif
  for (; i + 4 <= args.n; i += 4) {
    const std::uint8_t a = table[x[i]], b = table[x[i + 1]], c = table[x[i + 2]],
                       d = table[x[i + 3]];
    y[i] = a, y[i + 1] = b, y[i + 2] = c, y[i + 3] = d;
  }
  for (; i < args.n; ++i) y[i] = table[x[i]];
}

template <class Arch>
void requantize(const RequantizeArgs& args) {
  using V = V16<Arch>;
  using L = Lanes<V>;
  const RoundClamped<Arch> round(args.q_zero_point, 0, 255);
  for (std::size_t i = 0; i < args.rows; ++i) {
    const std::size_t at = i * args.cols;
    const V s(args.row_scale != nullptr ? args.row_scale[i] : 1.0f);
    for_steps<Arch>(args.cols, [&](std::size_t j, auto n) {
      V v = L::to_float(load<Arch>(args.acc + at + j, n));
      if (args.row_scale != nullptr) v = v * s;
      const V r = L::fma(v, load<Arch>(args.m + j, n),
                         args.b != nullptr ? load<Arch>(args.b + j, n) : V(0.0f));
      if (args.y != nullptr) store<Arch>(args.y + at + j, n, r);
      if (args.q != nullptr) store_u8<Arch>(args.q + at + j, n, round(r));
    });
  }
}

}  // namespace fold8::kernels::simd
