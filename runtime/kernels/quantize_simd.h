#pragma once

#include "runtime/kernels/quantize.h"
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
      const V s(args.scales[c]);
      const RoundClamped<Arch> round(args.zero_points != nullptr ? args.zero_points[c] : 0, lowest,
                                     highest);
      for_steps<Arch>(cols, [&](std::size_t j, auto n) {
        store_u8<Arch>(q + at + j, n, round(load<Arch>(args.x + at + j, n) / s));
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
inline float row_scale_of(I16<Arch> largest_bits) {
  alignas(64) float lane[16];
  Memory16<Arch>::store(lane, Lanes<V16<Arch>>::from_bits(largest_bits));
  float m = 0;
  for (float v : lane) {
    if (!(v < __builtin_inff())) return __builtin_nanf("");
    m = v > m ? v : m;
  }
  const float s = m / 127.0f;
  return s < 0x1p-126f ? 0x1p-126f : s;
}

template <class Arch>
inline I16<Arch> magnitude_bits(V16<Arch> v) {
  return Lanes<V16<Arch>>::bits(v) & I16<Arch>(0x7fffffff);
}

template <class Arch>
void quantize_rows(const QuantizeRowsArgs& args) {
  const std::size_t x_stride = args.x_stride != 0 ? args.x_stride : args.cols;
  const std::size_t q_stride = args.q_stride != 0 ? args.q_stride : args.cols;
  const RoundClamped<Arch> round(128, 1, 255);
  for (std::size_t i = 0; i < args.rows; ++i) {
    const float* x = args.x + i * x_stride;
    std::uint8_t* q = args.q + i * q_stride;
    I16<Arch> largest(0);
    for_steps<Arch>(args.cols, [&](std::size_t j, auto n) {
      largest = Memory16<Arch>::max(largest, magnitude_bits<Arch>(load<Arch>(x + j, n)));
    });
    const float s = row_scale_of<Arch>(largest);
    const V16<Arch> scale(s);
    for_steps<Arch>(args.cols, [&](std::size_t j, auto n) {
      store_u8<Arch>(q + j, n, round(load<Arch>(x + j, n) / scale));
    });
    args.scales[i] = s;
  }
}

template <class Arch>
void map_u8(const MapU8Args& args) {
  const std::uint8_t *x = args.x, *table = args.table;
  std::uint8_t* y = args.y;
  std::size_t i = 0;
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
