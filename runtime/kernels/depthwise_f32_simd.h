// Vector body of depthwise_f32.h. Include only from targets/*.cc.
#pragma once

#include "runtime/kernels/depthwise_f32.h"
#include "runtime/kernels/finish_f32_simd.h"
#include "runtime/kernels/window_simd.h"

namespace fold8::kernels::simd {

inline constexpr std::size_t kDepthwisePixels = 8;     // outputs of a line at once, at most
inline constexpr std::size_t kDepthwiseChannels = 256;  // channels before the epilogue runs

// Outputs 0 .. U-1 of a line, channels 0 .. cols-1; all distances in floats, all taps inside the input.
struct DepthwiseTile {
  const float* x = nullptr;      // first tap of output 0
  std::size_t x_tap[3] = {};     // from tap to tap along an axis
  std::size_t x_output = 0;      // from output to output
  const float* w = nullptr;      // first tap
  std::size_t w_tap[3] = {};
  std::int64_t taps[3] = {};
  std::size_t cols = 0;
  float* acc = nullptr;          // [U][kDepthwiseChannels]
  const StoreF32* store = nullptr;  // finish in registers instead
};

// KW, S: taps along the line and stride where they are known (dilation 1), so that neighbours share loads; else 0.
// kWhole: a whole vector of channels, else `left` of them.
template <class Arch, int U, int KW, int S, bool kWhole>
[[gnu::always_inline]] inline void depthwise_line(const DepthwiseTile& t, const float* x, const float* w, std::size_t left,
                                                  typename Arch::f32 (&acc)[U][1]) {
  using batch = typename Arch::f32;
  const auto load = [left](const float* p) __attribute__((always_inline)) {
    if constexpr (kWhole) return batch::load_unaligned(p);
    else return VectorIo<batch>::load(p, left);
  };
  if constexpr (KW > 0) {
    batch wv[KW];
#pragma GCC unroll 8
    for (int k = 0; k < KW; ++k) wv[k] = batch::load_unaligned(w + static_cast<std::size_t>(k) * t.w_tap[2]);
#pragma GCC unroll 32
    for (int i = 0; i < (U - 1) * S + KW; ++i) {
      const batch xv = load(x + static_cast<std::size_t>(i) * t.x_tap[2]);
#pragma GCC unroll 8
      for (int k = 0; k < KW; ++k)
        if (i >= k && (i - k) % S == 0 && (i - k) / S < U)
          acc[(i - k) / S][0] = Lanes<batch>::fma(xv, wv[k], acc[(i - k) / S][0]);
    }
  } else {
    for (std::int64_t k = 0; k < t.taps[2]; ++k, x += t.x_tap[2], w += t.w_tap[2]) {
      const batch wv = batch::load_unaligned(w);
#pragma GCC unroll 8
      for (int u = 0; u < U; ++u)
        acc[u][0] = Lanes<batch>::fma(load(x + static_cast<std::size_t>(u) * t.x_output), wv, acc[u][0]);
    }
  }
}

template <class Arch, int U, int KW, int S, bool kWhole>
[[gnu::always_inline]] inline void depthwise_channels(const DepthwiseTile& t, std::size_t c, std::size_t left) {
  using batch = typename Arch::f32;
  batch acc[U][1];
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) acc[u][0] = batch(0.0f);
  for (std::int64_t d = 0; d < t.taps[0]; ++d) {
    const float* x = t.x + c + static_cast<std::size_t>(d) * t.x_tap[0];
    const float* w = t.w + c + static_cast<std::size_t>(d) * t.w_tap[0];
    for (std::int64_t h = 0; h < t.taps[1]; ++h, x += t.x_tap[1], w += t.w_tap[1])
      depthwise_line<Arch, U, KW, S, kWhole>(t, x, w, left, acc);
  }
  if (t.store) return store_tile_f32<Arch, U, 1>(*t.store, acc, c);
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) acc[u][0].store_aligned(t.acc + static_cast<std::size_t>(u) * kDepthwiseChannels + c);
}

template <class Arch, int U, int KW, int S>
void depthwise_tile(const DepthwiseTile& t) {
  constexpr std::size_t kWidth = Arch::f32::size;
  std::size_t c = 0;
  for (; c + kWidth <= t.cols; c += kWidth) depthwise_channels<Arch, U, KW, S, true>(t, c, kWidth);
  if (c < t.cols) depthwise_channels<Arch, U, KW, S, false>(t, c, t.cols - c);
}

template <class Arch, int KW, int S>
void depthwise_pixels(const DepthwiseTile& t, std::size_t pixels) {
  if (pixels == 8) return depthwise_tile<Arch, 8, KW, S>(t);
  if (pixels == 4) return depthwise_tile<Arch, 4, KW, S>(t);
  if (pixels == 2) return depthwise_tile<Arch, 2, KW, S>(t);
  return depthwise_tile<Arch, 1, KW, S>(t);
}

template <class Arch>
void depthwise_any(const DepthwiseTile& t, std::size_t pixels, std::int64_t stride) {
  const bool plain = t.x_output == static_cast<std::size_t>(stride) * t.x_tap[2];
  if (plain && t.taps[2] == 3 && stride == 1) return depthwise_pixels<Arch, 3, 1>(t, pixels);
  if (plain && t.taps[2] == 3 && stride == 2) return depthwise_pixels<Arch, 3, 2>(t, pixels);
  if (plain && t.taps[2] == 5 && stride == 1) return depthwise_pixels<Arch, 5, 1>(t, pixels);
  if (plain && t.taps[2] == 5 && stride == 2) return depthwise_pixels<Arch, 5, 2>(t, pixels);
  return depthwise_pixels<Arch, 0, 1>(t, pixels);
}

// One output line, or a part of it: outputs [begin, end) along the last axis.
template <class Arch>
void depthwise_outputs(const DepthwiseF32Args& args, std::int64_t line, std::int64_t begin, std::int64_t end) {
  const ConvShape& s = args.shape;
  const std::size_t channels = static_cast<std::size_t>(s.in_channels);
  const std::size_t w_stride = (channels + kPanelF32 - 1) / kPanelF32 * kPanelF32;
  const std::int64_t o1 = line % s.out[1], o0 = line / s.out[1] % s.out[0], b = line / (s.out[1] * s.out[0]);
  const std::int64_t i0 = o0 * s.stride[0] - s.pad_begin[0], i1 = o1 * s.stride[1] - s.pad_begin[1];
  const Span k0 = inside<Arch>(i0, s.kernel[0], s.dilation[0], s.in[0]);
  const Span k1 = inside<Arch>(i1, s.kernel[1], s.dilation[1], s.in[1]);
  alignas(64) float acc[kDepthwisePixels * kDepthwiseChannels];
  DepthwiseTile t;
  t.acc = acc;
  t.taps[0] = k0.size();
  t.taps[1] = k1.size();
  t.x_tap[2] = static_cast<std::size_t>(s.dilation[2]) * args.x_stride;
  t.x_tap[1] = static_cast<std::size_t>(s.dilation[1] * s.in[2]) * args.x_stride;
  t.x_tap[0] = static_cast<std::size_t>(s.dilation[0] * s.in[1] * s.in[2]) * args.x_stride;
  t.x_output = static_cast<std::size_t>(s.stride[2]) * args.x_stride;
  t.w_tap[2] = w_stride;
  t.w_tap[1] = w_stride * static_cast<std::size_t>(s.kernel[2]);
  t.w_tap[0] = t.w_tap[1] * static_cast<std::size_t>(s.kernel[1]);
  for (std::int64_t o = begin, pixels = 1; o < end; o += pixels) {
    const std::int64_t i2 = o * s.stride[2] - s.pad_begin[2];
    const Span k2 = inside<Arch>(i2, s.kernel[2], s.dilation[2], s.in[2]);
    pixels = 1;  // doubled while all its windows are whole along the line
    while (k2.size() == s.kernel[2] && pixels < static_cast<std::int64_t>(kDepthwisePixels) && o + 2 * pixels <= end &&
           i2 + (2 * pixels - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] < s.in[2])
      pixels *= 2;
    t.taps[2] = k2.size();
    if (k0.size() * k1.size() == 0) t.taps[2] = 0;
    const std::int64_t d = i0 + k0.begin * s.dilation[0], h = i1 + k1.begin * s.dilation[1];
    const std::int64_t first = ((b * s.in[0] + d) * s.in[1] + h) * s.in[2] + i2 + k2.begin * s.dilation[2];
    for (std::size_t c = 0; c < channels; c += kDepthwiseChannels) {
      t.cols = channels - c < kDepthwiseChannels ? channels - c : kDepthwiseChannels;
      const bool any = t.taps[2] > 0;
      t.x = any ? args.x + static_cast<std::size_t>(first) * args.x_stride + c : args.x;
      t.w = args.w + c + static_cast<std::size_t>(k0.begin) * t.w_tap[0] +
            static_cast<std::size_t>(k1.begin) * t.w_tap[1] + static_cast<std::size_t>(k2.begin) * t.w_tap[2];
      StoreF32 store;
      t.store = make_store_f32<Arch>(args.epilogue, c, t.cols, store) ? &store : nullptr;
      store.m = static_cast<std::size_t>(line * s.out[2] + o);
      depthwise_any<Arch>(t, static_cast<std::size_t>(pixels), s.stride[2]);
      if (t.store) continue;
      finish_f32<Arch>(args.epilogue, {static_cast<std::size_t>(line * s.out[2] + o), nullptr,
                                       static_cast<std::size_t>(pixels), c, t.cols, acc, kDepthwiseChannels});
    }
  }
}

template <class Arch>
void depthwise_f32(const DepthwiseF32Args& args) {
  const std::int64_t width = args.shape.out[2];
  const std::int64_t end = static_cast<std::int64_t>(args.row_end);
  for (std::int64_t m = static_cast<std::int64_t>(args.row_begin); m < end;) {
    const std::int64_t line = m / width, stop = (line + 1) * width < end ? (line + 1) * width : end;
    depthwise_outputs<Arch>(args, line, m - line * width, stop - line * width);
    m = stop;
  }
}

}  // namespace fold8::kernels::simd
