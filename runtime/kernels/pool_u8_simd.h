// Vector bodies of the u8 pools of pool.h. Include only from targets/*.cc.
#pragma once

#include <cstring>

#include "runtime/kernels/pool_window_simd.h"
#include "runtime/kernels/vector_io_simd.h"

namespace fold8::kernels::simd {

template <int kBytes>
struct ByteVector;
template <>
struct ByteVector<32> {
  using V = __m256i;
  static V load(const std::uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static void store(std::uint8_t* p, V v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  static V max(V a, V b) { return _mm256_max_epu8(a, b); }
};
template <>
struct ByteVector<16> {
  using V = __m128i;
  static V load(const std::uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static void store(std::uint8_t* p, V v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }
  static V max(V a, V b) { return _mm_max_epu8(a, b); }
};
template <>
struct ByteVector<8> {
  using V = __m128i;
  static V load(const std::uint8_t* p) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  }
  static void store(std::uint8_t* p, V v) { _mm_storel_epi64(reinterpret_cast<__m128i*>(p), v); }
  static V max(V a, V b) { return _mm_max_epu8(a, b); }
};

// All channels of one output, at least kBytes; the last vector may overlap the one before.
template <class Arch, int kBytes>
inline void max_output_u8(const PoolTaps& taps, const std::uint8_t* x, std::size_t channels,
                          std::uint8_t* y) {
  using B = ByteVector<kBytes>;
  for (std::size_t c = 0; c < channels; c += kBytes) {
    const std::size_t at = channels - c < kBytes ? channels - kBytes : c;
    typename B::V best{};
    for_taps<Arch>(
        taps, x + at, [&](const std::uint8_t* p) __attribute__((always_inline)) {
          best = B::max(best, B::load(p));
        });
    B::store(y + at, best);
  }
}

template <class Arch>
void max_pool_u8(const MaxPoolArgs<std::uint8_t>& args) {
  const std::size_t channels = args.channels;
  const PoolGeometry<Arch> geometry{args.window, static_cast<std::int64_t>(channels)};
  const std::size_t width = static_cast<std::size_t>(args.window.axis[2].out);
  for (std::size_t line = args.line_begin; line < args.line_end; ++line)
    for (std::size_t o = 0; o < width; ++o) {
      const PoolTaps taps =
          geometry.taps(static_cast<std::int64_t>(line), static_cast<std::int64_t>(o));
      std::uint8_t* const y = args.y + (line * width + o) * channels;
      if (channels >= 32) {
        max_output_u8<Arch, 32>(taps, args.x, channels, y);
      } else if (channels >= 16) {
        max_output_u8<Arch, 16>(taps, args.x, channels, y);
      } else if (channels >= 8) {
        max_output_u8<Arch, 8>(taps, args.x, channels, y);
      } else {
        for (std::size_t c = 0; c < channels; ++c) {
          std::uint8_t best = 0;
          for_taps<Arch>(
              taps, args.x + c, [&](const std::uint8_t* p) __attribute__((always_inline)) {
                best = best > *p ? best : *p;
              });
          y[c] = best;
        }
      }
    }
}

inline constexpr std::size_t kPoolChannelsU8 = 256;  // summed at once

// Sums of 16 * kVectors codes: in 16 bits for up to 256 positions, then in 32.
template <class Arch, int kVectors>
void sum_codes(const PoolTaps& taps, const std::uint8_t* x, std::int32_t* sum) {
  __m256i few[kVectors] = {}, all[2 * kVectors] = {};
  int left = 256;
  const auto flush = [&]() {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m128i low = _mm256_castsi256_si128(few[v]),
                    high = _mm256_extracti128_si256(few[v], 1);
      all[2 * v] = _mm256_add_epi32(all[2 * v], _mm256_cvtepu16_epi32(low));
      all[2 * v + 1] = _mm256_add_epi32(all[2 * v + 1], _mm256_cvtepu16_epi32(high));
      few[v] = _mm256_setzero_si256();
    }
    left = 256;
  };
  for_taps<Arch>(
      taps, x, [&](const std::uint8_t* p) __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v)
          few[v] = _mm256_add_epi16(few[v], _mm256_cvtepu8_epi16(ByteVector<16>::load(p + 16 * v)));
        if (--left == 0) flush();
      });
  flush();
#pragma GCC unroll 8
  for (int v = 0; v < 2 * kVectors; ++v)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sum + 8 * v), all[v]);
}

// All channels, where 16 codes are several whole positions that lie behind one another: sums of 16
// lanes as above, then of the lanes of a channel.
template <class Arch>
void sum_narrow_u8(const PoolTaps& t, const std::uint8_t* x, std::size_t cols, std::int32_t* sum) {
  const std::size_t bytes = static_cast<std::size_t>(t.taps[2]) * cols, whole = bytes / 16 * 16;
  alignas(32) std::int32_t lanes[16] = {};
  for (std::size_t c = 0; c < cols; ++c) sum[c] = 0;
  for (std::int64_t d = 0; d < t.taps[0]; ++d)
    for (std::int64_t h = 0; h < t.taps[1]; ++h) {
      const std::uint8_t* p = x + t.first + d * t.step[0] + h * t.step[1];
      PoolTaps run;
      run.taps[0] = run.taps[1] = 1, run.taps[2] = static_cast<std::int64_t>(whole / 16);
      run.step[2] = 16;
      std::int32_t some[16];
      sum_codes<Arch, 1>(run, p, some);
      for (std::size_t i = 0; i < 16; ++i) lanes[i] += some[i];
      for (std::size_t i = whole; i < bytes; ++i) sum[i % cols] += p[i];
    }
  for (std::size_t i = 0; i < 16; ++i) sum[i % cols] += lanes[i];
}

// Channels [0, cols) of one window. Sum is wide enough for 255 * inside.
template <class Arch, class Sum>
void sum_window_u8(const PoolTaps& taps, const std::uint8_t* x, std::size_t cols, Sum* sum) {
  std::size_t c = 0;
  if constexpr (sizeof(Sum) == 4) {
    const bool adjoin = taps.step[2] == static_cast<std::int64_t>(cols);
    if (adjoin && cols < 16 && 16 % cols == 0) return sum_narrow_u8<Arch>(taps, x, cols, sum);
    for (; c + 64 <= cols; c += 64) sum_codes<Arch, 4>(taps, x + c, sum + c);
    for (; c + 16 <= cols; c += 16) sum_codes<Arch, 1>(taps, x + c, sum + c);
    if (c < cols && cols >= 16) {  // overlaps what is done
      c = cols;
      sum_codes<Arch, 1>(taps, x + cols - 16, sum + cols - 16);
    }
  }
  if (c == cols) return;
  for (std::size_t i = c; i < cols; ++i) sum[i] = 0;
  for_taps<Arch>(
      taps, x, [&](const std::uint8_t* p) __attribute__((always_inline)) {
        for (std::size_t i = c; i < cols; ++i) sum[i] += p[i];
      });
}

// Channels [c0, c0 + cols) of one output.
template <class Arch, class Sum>
void average_output_u8(const AveragePoolU8Args& args, const PoolTaps& taps, std::size_t at,
                       std::size_t c0, std::size_t cols) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  alignas(64) Sum sum[kPoolChannelsU8];
  alignas(64) float r[kPoolChannelsU8];
  sum_window_u8<Arch, Sum>(taps, args.x + c0, cols, sum);
  const std::int64_t count = args.count_include_pad ? taps.with_pads : taps.inside;
  const Sum zeros = static_cast<Sum>(taps.inside * args.x_zero_point);
  const float m = count == 0 ? 0.0f : args.multipliers[count];
  for (std::size_t c = 0; c < cols; ++c)
    r[c] = static_cast<float>(static_cast<Sum>(sum[c] - zeros)) * m;
  if (args.output_kind == OutputKind::f32) {
    std::memcpy(static_cast<float*>(args.y) + at + c0, r, cols * sizeof(float));
    return;
  }
  const std::int32_t z = args.y_zero_point;
  for (std::size_t c = 0; c < cols; c += batch::size) {
    const batch v =
        Io::clamp(batch::load_aligned(r + c), static_cast<float>(-z), static_cast<float>(255 - z));
    Io::store_bytes(static_cast<std::uint8_t*>(args.y) + at + c0 + c, Io::add(Io::round(v), z),
                    cols - c);
  }
}

template <class Arch>
void average_pool_u8(const AveragePoolU8Args& args) {
  const PoolGeometry<Arch> geometry{args.window, static_cast<std::int64_t>(args.channels)};
  const std::int64_t width = args.window.axis[2].out;
  for (std::size_t line = args.line_begin; line < args.line_end; ++line)
    for (std::int64_t o = 0; o < width; ++o) {
      const PoolTaps taps = geometry.taps(static_cast<std::int64_t>(line), o);
      const std::size_t at =
          (line * static_cast<std::size_t>(width) + static_cast<std::size_t>(o)) * args.channels;
      for (std::size_t c = 0; c < args.channels; c += kPoolChannelsU8) {
        const std::size_t cols =
            args.channels - c < kPoolChannelsU8 ? args.channels - c : kPoolChannelsU8;
        if (taps.inside <= INT32_MAX / 255)
          average_output_u8<Arch, std::int32_t>(args, taps, at, c, cols);
        else
          average_output_u8<Arch, std::int64_t>(args, taps, at, c, cols);
      }
    }
}

}  // namespace fold8::kernels::simd
