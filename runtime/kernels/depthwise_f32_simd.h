// Vector body of depthwise_f32.h. Include only from targets/*.cc.
#pragma once

#include "runtime/kernels/depthwise_f32.h"
#include "runtime/kernels/finish_f32_simd.h"
#include "runtime/kernels/window_simd.h"

namespace fold8::kernels::simd {

inline constexpr std::size_t kDepthwisePixels = 8;      // outputs of a line at once, at most
inline constexpr std::size_t kDepthwiseChannels = 256;  // channels before the epilogue runs

// Outputs 0 .. U-1 of a line, channels `channel` .. cols-1; all distances in floats.
struct DepthwiseTile {
  const float* x =
      nullptr;  // first tap of output 0; KW > 0: pixel 0 of the input line under the first tap
  std::int64_t first = 0;  // KW > 0: the pixel under the first tap of output 0, perhaps outside ...
  std::int64_t width = 0;  // ... [0, width)
  std::size_t x_tap[3] = {};  // from tap to tap along an axis
  std::size_t x_output = 0;   // from output to output
  const float* w = nullptr;   // first tap
  std::size_t w_tap[3] = {};
  std::int64_t taps[3] = {};
  std::size_t channel = 0, cols = 0;
  std::size_t live = 0;             // outputs that exist: U, or fewer of 4 if not kInside
  std::size_t count = 1;            // such tiles along the line (KW > 0 only)
  float* acc = nullptr;             // [U][kDepthwiseChannels]
  const StoreF32* store = nullptr;  // finish in registers instead
};

// KW, S: taps along the line and stride where they are known (dilation 1): neighbours share loads,
// and pixels outside the line are left out unless all are inside. KW = 0: any, with all taps
// inside.
template <class Arch, int U, int KW, int S, bool kInside, class Columns>
[[gnu::always_inline]] inline void depthwise_line(const DepthwiseTile& t, const float* x,
                                                  const float* w, const Columns& columns,
                                                  typename Arch::f32 (&acc)[U][1]) {
  using batch = typename Arch::f32;
  if constexpr (KW > 0) {
    batch wv[KW];
#pragma GCC unroll 8
    for (int k = 0; k < KW; ++k)
      wv[k] = batch::load_unaligned(w + static_cast<std::size_t>(k) * t.w_tap[2]);
    const std::size_t pixel = t.x_tap[2];
    x += t.first * static_cast<std::int64_t>(pixel);
#pragma GCC unroll 32
    for (int i = 0; i < (U - 1) * S + KW; ++i) {
      if (i % 3 == 0) {
        if (i > 0) x += 3 * pixel;
        asm("" : "+r"(x));  // one pointer that moves, not one per pixel
      }
      if (!kInside &&
          static_cast<std::uint64_t>(t.first + i) >= static_cast<std::uint64_t>(t.width))
        continue;
      const float* const at = x + static_cast<std::size_t>(i % 3) * pixel;
      const batch xv = columns.load(at);
      // The lines of the next but one vector: 17 places at a time, of half a line, are more than
      // the hardware foresees. (Elsewhere, and for whole lines, this costs more than it gains.)
      if (kInside && S == 2 && Width256<Arch>) __builtin_prefetch(at + 24, 0, 3);
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
        acc[u][0] = Lanes<batch>::fma(columns.load(x + static_cast<std::size_t>(u) * t.x_output),
                                      wv, acc[u][0]);
    }
  }
}

template <class Arch, int U, int KW, int S, bool kInside, class Columns>
[[gnu::always_inline]] inline void depthwise_channels(const DepthwiseTile& t, const StoreF32& store,
                                                      std::size_t c) {
  using batch = typename Arch::f32;
  const Columns columns(t.cols - c);
  batch acc[U][1];
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) acc[u][0] = batch(0.0f);
  for (std::int64_t d = 0; d < t.taps[0]; ++d) {
    const float* x = t.x + c + static_cast<std::size_t>(d) * t.x_tap[0];
    const float* w = t.w + c + static_cast<std::size_t>(d) * t.w_tap[0];
    for (std::int64_t h = 0; h < t.taps[1]; ++h, x += t.x_tap[1], w += t.w_tap[1])
      depthwise_line<Arch, U, KW, S, kInside>(t, x, w, columns, acc);
  }
  if (t.store)
    return store_registers_f32 < Arch, U, 1, Columns,
           kInside || (U > 4) > (store, acc, c, static_cast<int>(t.live));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u)
    acc[u][0].store_aligned(t.acc + static_cast<std::size_t>(u) * kDepthwiseChannels + c);
}

template <class Arch, int U, int KW, int S, bool kInside, class Columns>
[[gnu::noinline]] void depthwise_tile(const DepthwiseTile& tile) {
  constexpr std::size_t kWidth = Arch::f32::size;
  DepthwiseTile t = tile;  // copies, which stores to y cannot touch
  StoreF32 store = t.store ? *t.store : StoreF32{};
  for (std::size_t i = 0; i < tile.count; ++i) {
    for (std::size_t c = t.channel; c < t.cols; c += kWidth)
      depthwise_channels<Arch, U, KW, S, kInside, Columns>(t, store, c);
    t.first += U * S;
    store.m += U;
  }
}

// t.live: 8, 7, or up to 4, where what is computed beyond it is dropped (KW = 0: 8, 4 or 1).
template <class Arch, int KW, int S, class Columns>
void depthwise_outputs(const DepthwiseTile& t) {
  if constexpr (KW == 0) {
    if (t.live == 8) return depthwise_tile<Arch, 8, 0, S, true, Columns>(t);
    if (t.live == 4) return depthwise_tile<Arch, 4, 0, S, true, Columns>(t);
    return depthwise_tile<Arch, 1, 0, S, true, Columns>(t);
  } else {
    if (KW < 7 && t.live == 8 && t.first >= 0 && t.first + 7 * S + KW <= t.width)
      return depthwise_tile<Arch, 8, KW, S, (KW < 7), Columns>(t);
    if (t.live == 8) return depthwise_tile<Arch, 8, KW, S, false, Columns>(t);
    if (t.live == 7) return depthwise_tile<Arch, 7, KW, S, false, Columns>(t);
    return depthwise_tile<Arch, 4, KW, S, false, Columns>(t);
  }
}

// Channels that fill no register, where masks are not free: few outputs at a time.
template <class Arch, int KW, int S>
[[gnu::noinline]] void depthwise_rest(DepthwiseTile t) {
  constexpr std::size_t kAtOnce = KW == 0 ? 1 : 4;
  const std::size_t all = t.live * t.count;
  StoreF32 store = t.store ? *t.store : StoreF32{};
  if (t.store) t.store = &store;
  t.count = 1;
  for (std::size_t i = 0; i < all; i += kAtOnce) {
    t.live = all - i < kAtOnce ? all - i : kAtOnce;
    depthwise_tile<Arch, kAtOnce, KW, S, KW == 0, SomeLanes<typename Arch::f32>>(t);
    t.first += static_cast<std::int64_t>(kAtOnce) * S;
    if (KW == 0) t.x += t.x_output;
    t.acc += kAtOnce * kDepthwiseChannels;
    store.m += kAtOnce;
  }
}

template <class Arch, int KW, int S>
void depthwise_pixels(const DepthwiseTile& all) {
  if constexpr (Width512<Arch>) {
    depthwise_outputs<Arch, KW, S, SomeLanes<typename Arch::f32>>(all);
  } else if (all.cols % Arch::f32::size == 0) {
    depthwise_outputs<Arch, KW, S, AllLanes<typename Arch::f32>>(all);
  } else {
    DepthwiseTile t = all;
    t.cols = all.cols / Arch::f32::size * Arch::f32::size;
    if (t.cols > 0) depthwise_outputs<Arch, KW, S, AllLanes<typename Arch::f32>>(t);
    t.channel = t.cols;
    t.cols = all.cols;
    depthwise_rest<Arch, KW, S>(t);
  }
}

// How many of `left` outputs to take: a number depthwise_outputs knows; 14 = 7 + 7.
inline std::int64_t depthwise_step(std::int64_t left) {
  if (left == 7 || left == 14) return 7;
  return left >= 8 ? 8 : left > 4 ? 4 : left;
}

template <class Arch>
using depthwise_pixels_fn = void(const DepthwiseTile& t);

// The body for kernels it knows, or null.
template <class Arch>
depthwise_pixels_fn<Arch>* depthwise_known(const ConvShape& s) {
  if (s.dilation[2] != 1) return nullptr;
  if (s.kernel[2] == 3 && s.stride[2] == 1) return &depthwise_pixels<Arch, 3, 1>;
  if (s.kernel[2] == 3 && s.stride[2] == 2) return &depthwise_pixels<Arch, 3, 2>;
  if (s.kernel[2] == 5 && s.stride[2] == 1) return &depthwise_pixels<Arch, 5, 1>;
  if (s.kernel[2] == 5 && s.stride[2] == 2) return &depthwise_pixels<Arch, 5, 2>;
  if (s.kernel[2] == 7 && s.stride[2] == 1) return &depthwise_pixels<Arch, 7, 1>;
  return nullptr;
}

template <class Arch>
class DepthwiseLine {
 public:
  DepthwiseLine(const DepthwiseF32Args& args, std::int64_t line)
      : args_(args),
        s_(args.shape),
        line_(line),
        channels_(static_cast<std::size_t>(s_.in_channels)),
        known_(depthwise_known<Arch>(s_)) {
    const std::int64_t o1 = line % s_.out[1], o0 = line / s_.out[1] % s_.out[0],
                       b = line / (s_.out[1] * s_.out[0]);
    const std::int64_t i0 = o0 * s_.stride[0] - s_.pad_begin[0],
                       i1 = o1 * s_.stride[1] - s_.pad_begin[1];
    const Span k0 = inside<Arch>(i0, s_.kernel[0], s_.dilation[0], s_.in[0]);
    const Span k1 = inside<Arch>(i1, s_.kernel[1], s_.dilation[1], s_.in[1]);
    t_.acc = acc_;
    t_.taps[0] = k0.size();
    t_.taps[1] = k1.size();
    t_.width = s_.in[2];
    t_.x_tap[2] = static_cast<std::size_t>(s_.dilation[2]) * args.x_stride;
    t_.x_tap[1] = static_cast<std::size_t>(s_.dilation[1] * s_.in[2]) * args.x_stride;
    t_.x_tap[0] = static_cast<std::size_t>(s_.dilation[0] * s_.in[1] * s_.in[2]) * args.x_stride;
    t_.x_output = static_cast<std::size_t>(s_.stride[2]) * args.x_stride;
    t_.w_tap[2] = (channels_ + kPanelF32 - 1) / kPanelF32 * kPanelF32;
    t_.w_tap[1] = t_.w_tap[2] * static_cast<std::size_t>(s_.kernel[2]);
    t_.w_tap[0] = t_.w_tap[1] * static_cast<std::size_t>(s_.kernel[1]);
    x_ = args.x;
    w_ = args.w;
    empty_ = k0.size() == 0 || k1.size() == 0;
    if (empty_) return;
    const std::int64_t d = i0 + k0.begin * s_.dilation[0], h = i1 + k1.begin * s_.dilation[1];
    x_ += static_cast<std::size_t>(((b * s_.in[0] + d) * s_.in[1] + h) * s_.in[2]) * args.x_stride;
    w_ += static_cast<std::size_t>(k0.begin) * t_.w_tap[0] +
          static_cast<std::size_t>(k1.begin) * t_.w_tap[1];
  }

  // Outputs [begin, end) along the line.
  void run(std::int64_t begin, std::int64_t end) {
    for (std::size_t c = 0; c < channels_; c += kDepthwiseChannels) {
      t_.cols = channels_ - c < kDepthwiseChannels ? channels_ - c : kDepthwiseChannels;
      t_.store = make_store_f32<Arch>(args_.epilogue, c, t_.cols, store_) ? &store_ : nullptr;
      channels(c, begin, end);
    }
  }

 private:
  // t_.cols channels from c on.
  void channels(std::size_t c, std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin, pixels = 1; o < end; o += pixels) {
      t_.first = o * s_.stride[2] - s_.pad_begin[2];
      t_.x = x_ + c;
      t_.w = w_ + c;
      if (known_) {
        pixels = depthwise_step(end - o);
        t_.count = tiles_alike(pixels, end - o);
        outputs(c, o, pixels, known_);
        pixels *= static_cast<std::int64_t>(t_.count);
        continue;
      }
      const Span k = inside<Arch>(t_.first, s_.kernel[2], s_.dilation[2], s_.in[2]);
      pixels = k.size() == s_.kernel[2] ? whole_outputs(end - o) : 1;
      t_.taps[2] = empty_ ? 0 : k.size();
      if (t_.taps[2] > 0)
        t_.x += static_cast<std::size_t>(t_.first + k.begin * s_.dilation[2]) * args_.x_stride;
      t_.w += static_cast<std::size_t>(k.begin) * t_.w_tap[2];
      outputs(c, o, pixels, &depthwise_pixels<Arch, 0, 1>);
    }
  }

  // How many of `left` outputs to take whose windows are whole along the line, for the first one's
  // is: 8, 4 or 1.
  std::int64_t whole_outputs(std::int64_t left) const {
    const std::int64_t reach = (s_.kernel[2] - 1) * s_.dilation[2];
    for (std::int64_t n : {8, 4})
      if (n <= left && t_.first + (n - 1) * s_.stride[2] + reach < s_.in[2]) return n;
    return 1;
  }

  // How many tiles of `pixels` outputs, from t_.first on, lie inside and can be done in one go.
  std::size_t tiles_alike(std::int64_t pixels, std::int64_t left) const {
    const std::int64_t step = pixels * s_.stride[2],
                       reach = (pixels - 1) * s_.stride[2] + s_.kernel[2];
    if (!t_.store || pixels < 8 || t_.first < 0 || t_.first + reach > t_.width) return 1;
    const std::int64_t fit = (t_.width - reach - t_.first) / step + 1, most = left / pixels;
    return static_cast<std::size_t>(fit < most ? fit : most);
  }

  void outputs(std::size_t c, std::int64_t o, std::int64_t pixels,
               depthwise_pixels_fn<Arch>* body) {
    store_.m = static_cast<std::size_t>(line_ * s_.out[2] + o);
    t_.live = static_cast<std::size_t>(pixels);
    body(t_);
    if (t_.store) return;
    finish_f32<Arch>(args_.epilogue, {store_.m, nullptr, static_cast<std::size_t>(pixels), c,
                                      t_.cols, acc_, kDepthwiseChannels});
  }

  const DepthwiseF32Args& args_;
  const ConvShape& s_;
  const std::int64_t line_;
  const std::size_t channels_;
  depthwise_pixels_fn<Arch>* const known_;
  DepthwiseTile t_;
  StoreF32 store_;
  const float* x_;
  const float* w_;
  bool empty_;  // padding only
  alignas(64) float acc_[kDepthwisePixels * kDepthwiseChannels];
};

template <class Arch>
void depthwise_f32(const DepthwiseF32Args& args) {
  const std::int64_t width = args.shape.out[2];
  const std::int64_t end = static_cast<std::int64_t>(args.row_end);
  for (std::int64_t m = static_cast<std::int64_t>(args.row_begin); m < end;) {
    const std::int64_t line = m / width, stop = (line + 1) * width < end ? (line + 1) * width : end;
    DepthwiseLine<Arch>(args, line).run(m - line * width, stop - line * width);
    m = stop;
  }
}

}  // namespace fold8::kernels::simd
