// Vector bodies of pool.h. Include only from targets/*.cc.
#pragma once

#include <cstring>

#include "runtime/kernels/lanes_simd.h"
#include "runtime/kernels/pool_window_simd.h"
#include "runtime/kernels/transpose_tile_simd.h"
#include "runtime/kernels/vector_io_simd.h"

namespace fold8::kernels::simd {

// The larger, +0 above -0, without regard to NaN.
template <class Arch>
inline typename Arch::f32 larger(typename Arch::f32 a, typename Arch::f32 b) {
  using L = Lanes<typename Arch::f32>;
  return L::select(a == b, L::from_bits(L::bits(a) & L::bits(b)), L::max(a, b));
}

template <class Arch>
void max_pool_f32(const MaxPoolArgs<float>& args) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  using L = Lanes<batch>;
  const PoolGeometry<Arch> geometry{args.window, static_cast<std::int64_t>(args.channels)};
  const std::int64_t width = args.window.axis[2].out;
  for (std::size_t line = args.line_begin; line < args.line_end; ++line)
    for (std::int64_t o = 0; o < width; ++o) {
      const PoolTaps taps = geometry.taps(static_cast<std::int64_t>(line), o);
      float* y = args.y + (line * static_cast<std::size_t>(width) + static_cast<std::size_t>(o)) * args.channels;
      for (std::size_t c = 0; c < args.channels; c += batch::size) {
        const std::size_t left = args.channels - c;
        batch best(-__builtin_inff());
        batch poison(0.0f);  // NaN wherever one was seen
        for_taps<Arch>(taps, args.x + c, [&](const float* p) __attribute__((always_inline)) {
          const batch v = Io::load(p, left);
          poison = L::select(v == v, poison, v);
          best = larger<Arch>(v, best);
        });
        Io::store(y + c, L::select(poison == poison, best, batch(__builtin_nanf(""))), left);
      }
    }
}

template <class Arch>
void max_pool_u8(const MaxPoolArgs<std::uint8_t>& args) {
  const PoolGeometry<Arch> geometry{args.window, static_cast<std::int64_t>(args.channels)};
  const std::int64_t width = args.window.axis[2].out;
  for (std::size_t line = args.line_begin; line < args.line_end; ++line)
    for (std::int64_t o = 0; o < width; ++o) {
      const PoolTaps taps = geometry.taps(static_cast<std::int64_t>(line), o);
      std::uint8_t* y = args.y + (line * static_cast<std::size_t>(width) + static_cast<std::size_t>(o)) * args.channels;
      std::memset(y, 0, args.channels);
      for_taps<Arch>(taps, args.x, [&](const std::uint8_t* p) __attribute__((always_inline)) {
        for (std::size_t c = 0; c < args.channels; ++c) y[c] = y[c] > p[c] ? y[c] : p[c];
      });
    }
}

template <class Arch>
void average_pool_f32(const AveragePoolF32Args& args) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  const PoolGeometry<Arch> geometry{args.window, static_cast<std::int64_t>(args.channels)};
  const std::int64_t width = args.window.axis[2].out;
  for (std::size_t line = args.line_begin; line < args.line_end; ++line)
    for (std::int64_t o = 0; o < width; ++o) {
      const PoolTaps taps = geometry.taps(static_cast<std::int64_t>(line), o);
      float* y = args.y + (line * static_cast<std::size_t>(width) + static_cast<std::size_t>(o)) * args.channels;
      const batch count(static_cast<float>(args.count_include_pad ? taps.with_pads : taps.inside));
      for (std::size_t c = 0; c < args.channels; c += batch::size) {
        const std::size_t left = args.channels - c;
        batch sum(0.0f);
        for_taps<Arch>(taps, args.x + c, [&](const float* p) __attribute__((always_inline)) { sum = sum + Io::load(p, left); });
        Io::store(y + c, sum / count, left);
      }
    }
}

inline constexpr std::size_t kPoolChannelsU8 = 256;  // summed at once

// Sum is wide enough for 255 * inside. Channels [c0, c0 + cols) of one output.
template <class Arch, class Sum>
void average_output_u8(const AveragePoolU8Args& args, const PoolTaps& taps, std::size_t at, std::size_t c0, std::size_t cols) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  alignas(64) Sum sum[kPoolChannelsU8];
  alignas(64) float r[kPoolChannelsU8];
  for (std::size_t c = 0; c < cols; ++c) sum[c] = 0;
  for_taps<Arch>(taps, args.x + c0, [&](const std::uint8_t* p) __attribute__((always_inline)) {
    for (std::size_t c = 0; c < cols; ++c) sum[c] += p[c];
  });
  const std::int64_t count = args.count_include_pad ? taps.with_pads : taps.inside;
  const Sum zeros = static_cast<Sum>(taps.inside * args.x_zero_point);
  const float m = count == 0 ? 0.0f : args.multipliers[count];
  for (std::size_t c = 0; c < cols; ++c) r[c] = static_cast<float>(static_cast<Sum>(sum[c] - zeros)) * m;
  if (args.output_kind == OutputKind::f32) {
    std::memcpy(static_cast<float*>(args.y) + at + c0, r, cols * sizeof(float));
    return;
  }
  const std::int32_t z = args.y_zero_point;
  for (std::size_t c = 0; c < cols; c += batch::size) {
    const batch v = Io::clamp(batch::load_aligned(r + c), static_cast<float>(-z), static_cast<float>(255 - z));
    Io::store_bytes(static_cast<std::uint8_t*>(args.y) + at + c0 + c, Io::add(Io::round(v), z), cols - c);
  }
}

template <class Arch>
void average_pool_u8(const AveragePoolU8Args& args) {
  const PoolGeometry<Arch> geometry{args.window, static_cast<std::int64_t>(args.channels)};
  const std::int64_t width = args.window.axis[2].out;
  for (std::size_t line = args.line_begin; line < args.line_end; ++line)
    for (std::int64_t o = 0; o < width; ++o) {
      const PoolTaps taps = geometry.taps(static_cast<std::int64_t>(line), o);
      const std::size_t at = (line * static_cast<std::size_t>(width) + static_cast<std::size_t>(o)) * args.channels;
      for (std::size_t c = 0; c < args.channels; c += kPoolChannelsU8) {
        const std::size_t cols = args.channels - c < kPoolChannelsU8 ? args.channels - c : kPoolChannelsU8;
        if (taps.inside <= INT32_MAX / 255) average_output_u8<Arch, std::int32_t>(args, taps, at, c, cols);
        else average_output_u8<Arch, std::int64_t>(args, taps, at, c, cols);
      }
    }
}

// Eight rows of `positions` adjacent floats, each summed in its own lane.
template <class Arch>
void sum_eight_rows(const float* x, std::size_t positions, float* sums) {
  __m256 sum = _mm256_setzero_ps();
  alignas(32) float columns[64];
  std::size_t p = 0;
  for (; p + 8 <= positions; p += 8) {
    transpose_8x8<Arch>(x + p, positions, columns, 8);
    for (std::size_t i = 0; i < 8; ++i) sum = _mm256_add_ps(sum, _mm256_load_ps(columns + 8 * i));
  }
  _mm256_storeu_ps(sums, sum);
  for (; p < positions; ++p)
    for (std::size_t i = 0; i < 8; ++i) sums[i] += x[i * positions + p];
}

template <class Arch>
void global_average_f32(const GlobalAverageF32Args& args) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  const float count = static_cast<float>(args.positions);
  for (std::size_t i = args.begin; i < args.end;) {
    const std::size_t o = i / args.channels, c = i % args.channels;
    const float* x = args.x + o * args.positions * args.channels + c;
    std::size_t done = 8;
    if (args.channels == 1 && i + 8 <= args.end) {
      float sums[8];
      sum_eight_rows<Arch>(x, args.positions, sums);
      for (std::size_t r = 0; r < 8; ++r) args.y[i + r] = sums[r] / count;
    } else {
      done = args.channels - c < args.end - i ? args.channels - c : args.end - i;
      if (done > batch::size) done = batch::size;
      batch sum(0.0f);
      for (std::size_t p = 0; p < args.positions; ++p) sum = sum + Io::load(x + p * args.channels, done);
      Io::store(args.y + i, sum / batch(count), done);
    }
    i += done;
  }
}

}  // namespace fold8::kernels::simd
