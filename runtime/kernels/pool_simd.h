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

// Eight neighbouring outputs of a plain line at once, where their windows are whole along the line
// and equal in what the other axes cut off; strides 1 and 2.
template <class Arch>
class PlainEight {
 public:
  template <class Args>
  explicit PlainEight(const Args& args)
      : axis_(args.window.axis[2]),
        x_(args.x),
        x_size_(static_cast<std::int64_t>(args.outer) * args.window.axis[0].in *
                args.window.axis[1].in * axis_.in),
        usable_(args.channels == 1 && axis_.stride <= 2) {}

  // taps: of output o, the first of the eight.
  bool can(const PoolTaps& taps, std::int64_t o) const {
    if (!usable_ || o + 8 > axis_.out || taps.taps[2] != axis_.kernel || taps.inside == 0)
      return false;
    const std::int64_t start = o * axis_.stride - axis_.pad_begin,
                       reach = (axis_.kernel - 1) * axis_.dilation;
    const std::int64_t last =
        taps.first + (taps.taps[0] - 1) * taps.step[0] + (taps.taps[1] - 1) * taps.step[1] + reach;
    return start + 7 * axis_.stride + reach < axis_.in && last + 8 * axis_.stride <= x_size_;
  }
  void maximum(const PoolTaps& taps, float* y) const {
    __m256 best = _mm256_set1_ps(-__builtin_inff()), poison = _mm256_setzero_ps();
    for_taps<Arch>(
        taps, x_, [&](const float* p) __attribute__((always_inline)) {
          const __m256 v = load(p);
          poison = _mm256_or_ps(poison, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
          const __m256 equal = _mm256_cmp_ps(v, best, _CMP_EQ_OQ);
          best = _mm256_blendv_ps(_mm256_max_ps(v, best), _mm256_and_ps(v, best), equal);
        });
    _mm256_storeu_ps(y, _mm256_blendv_ps(best, _mm256_set1_ps(__builtin_nanf("")), poison));
  }
  void average(const PoolTaps& taps, float count, float* y) const {
    __m256 sum = _mm256_setzero_ps();
    for_taps<Arch>(
        taps, x_, [&](const float* p) __attribute__((always_inline)) {
          sum = _mm256_add_ps(sum, load(p));
        });
    _mm256_storeu_ps(y, _mm256_div_ps(sum, _mm256_set1_ps(count)));
  }

 private:
  // p[0], p[stride], ..., p[7 * stride]; reads 8 * stride floats.
  __m256 load(const float* p) const {
    const __m256 lo = _mm256_loadu_ps(p);
    if (axis_.stride == 1) return lo;
    const __m256 pairs = _mm256_shuffle_ps(lo, _mm256_loadu_ps(p + 8), 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(pairs), 0xD8));
  }

  const PoolAxis& axis_;
  const float* x_;
  std::int64_t x_size_;
  bool usable_;
};

template <class Arch>
void max_pool_f32(const MaxPoolArgs<float>& args) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  using L = Lanes<batch>;
  const PoolGeometry<Arch> geometry{args.window, static_cast<std::int64_t>(args.channels)};
  const std::int64_t width = args.window.axis[2].out;
  const PlainEight<Arch> plain(args);
  for (std::size_t line = args.line_begin; line < args.line_end; ++line)
    for (std::int64_t o = 0; o < width; ++o) {
      const PoolTaps taps = geometry.taps(static_cast<std::int64_t>(line), o);
      float* y = args.y + (line * static_cast<std::size_t>(width) + static_cast<std::size_t>(o)) *
                              args.channels;
      if (plain.can(taps, o)) {
        plain.maximum(taps, y);
        o += 7;
        continue;
      }
      for (std::size_t c = 0; c < args.channels; c += batch::size) {
        const std::size_t left = args.channels - c;
        batch best(-__builtin_inff());
        batch poison(0.0f);  // NaN wherever one was seen
        for_taps<Arch>(
            taps, args.x + c, [&](const float* p) __attribute__((always_inline)) {
              const batch v = Io::load(p, left);
              poison = L::select(v == v, poison, v);
              best = larger<Arch>(v, best);
            });
        Io::store(y + c, L::select(poison == poison, best, batch(__builtin_nanf(""))), left);
      }
    }
}

// Channels [c, c + cols) of one output, cols <= 32.
template <class Arch>
inline void max_output_u8(const PoolTaps& taps, const std::uint8_t* x, std::size_t cols,
                          std::uint8_t* y) {
  if (cols == 32) {
    __m256i best = _mm256_setzero_si256();
    for_taps<Arch>(
        taps, x, [&](const std::uint8_t* p) __attribute__((always_inline)) {
          best = _mm256_max_epu8(best, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
        });
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), best);
    return;
  }
  std::uint8_t best[32] = {};
  for_taps<Arch>(
      taps, x, [&](const std::uint8_t* p) __attribute__((always_inline)) {
        for (std::size_t c = 0; c < cols; ++c) best[c] = best[c] > p[c] ? best[c] : p[c];
      });
  for (std::size_t c = 0; c < cols; ++c) y[c] = best[c];
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
      for (std::size_t c = 0; c < channels; c += 32)
        max_output_u8<Arch>(taps, args.x + c, channels - c < 32 ? channels - c : 32, y + c);
    }
}

template <class Arch>
void average_pool_f32(const AveragePoolF32Args& args) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  const PoolGeometry<Arch> geometry{args.window, static_cast<std::int64_t>(args.channels)};
  const std::int64_t width = args.window.axis[2].out;
  const PlainEight<Arch> plain(args);
  for (std::size_t line = args.line_begin; line < args.line_end; ++line)
    for (std::int64_t o = 0; o < width; ++o) {
      const PoolTaps taps = geometry.taps(static_cast<std::int64_t>(line), o);
      float* y = args.y + (line * static_cast<std::size_t>(width) + static_cast<std::size_t>(o)) *
                              args.channels;
      const float count = static_cast<float>(args.count_include_pad ? taps.with_pads : taps.inside);
      if (plain.can(taps, o)) {
        plain.average(taps, count, y);
        o += 7;
        continue;
      }
      for (std::size_t c = 0; c < args.channels; c += batch::size) {
        const std::size_t left = args.channels - c;
        batch sum(0.0f);
        for_taps<Arch>(
            taps, args.x + c, [&](const float* p) __attribute__((always_inline)) {
              sum = sum + Io::load(p, left);
            });
        Io::store(y + c, sum / batch(count), left);
      }
    }
}

inline constexpr std::size_t kPoolChannelsU8 = 256;  // summed at once

// Sum is wide enough for 255 * inside. Channels [c0, c0 + cols) of one output.
template <class Arch, class Sum>
void average_output_u8(const AveragePoolU8Args& args, const PoolTaps& taps, std::size_t at,
                       std::size_t c0, std::size_t cols) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  alignas(64) Sum sum[kPoolChannelsU8];
  alignas(64) float r[kPoolChannelsU8];
  for (std::size_t c = 0; c < cols; ++c) sum[c] = 0;
  for_taps<Arch>(
      taps, args.x + c0, [&](const std::uint8_t* p) __attribute__((always_inline)) {
        for (std::size_t c = 0; c < cols; ++c) sum[c] += p[c];
      });
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
      for (std::size_t p = 0; p < args.positions; ++p)
        sum = sum + Io::load(x + p * args.channels, done);
      Io::store(args.y + i, sum / batch(count), done);
    }
    i += done;
  }
}

}  // namespace fold8::kernels::simd
