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

// kVectors vectors of channels, `last` of the last one.
template <class Arch, int kVectors>
void average_columns(const GlobalAverageF32Args& args, const float* x, std::size_t last, float* y) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  constexpr std::size_t kWhole = (kVectors - 1) * batch::size;
  batch sum[kVectors];
  for (batch& s : sum) s = batch(0.0f);
  for (std::size_t p = 0; p < args.positions; ++p, x += args.channels) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors - 1; ++v)
      sum[v] = sum[v] + batch::load_unaligned(x + static_cast<std::size_t>(v) * batch::size);
    sum[kVectors - 1] = sum[kVectors - 1] + Io::load(x + kWhole, last);
  }
  const batch count(static_cast<float>(args.positions));
  for (int v = 0; v < kVectors - 1; ++v)
    (sum[v] / count).store_unaligned(y + static_cast<std::size_t>(v) * batch::size);
  Io::store(y + kWhole, sum[kVectors - 1] / count, last);
}

template <class Arch>
void global_average_f32(const GlobalAverageF32Args& args) {
  constexpr std::size_t kLanes = Arch::f32::size;
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
      if (done > 4 * kLanes) done = 4 * kLanes;
      const std::size_t vectors = (done + kLanes - 1) / kLanes,
                        last = done - (vectors - 1) * kLanes;
      if (vectors == 4)
        average_columns<Arch, 4>(args, x, last, args.y + i);
      else if (vectors == 3)
        average_columns<Arch, 3>(args, x, last, args.y + i);
      else if (vectors == 2)
        average_columns<Arch, 2>(args, x, last, args.y + i);
      else
        average_columns<Arch, 1>(args, x, last, args.y + i);
    }
    i += done;
  }
}

}  // namespace fold8::kernels::simd
