// Max and average pooling, 1 to 3 spatial axes, channels-last or plain.
//
//   max_pool_*:        y = max over the window's positions inside the input
//                      f32: NaN wins (stored as 0x7fc00000), max(-0,+0) = +0; a window without any:
//                      -inf (u8: 0)
//   average_pool_f32:  y = sum / f32(count); sum = one chain of additions from +0, positions
//   ascending in (d, h, w) average_pool_u8:   r = f32(sum(q) - inside*x_zero_point) *
//   multipliers[count]     sum exact, one rounding to f32
//                      y u8:  min(max(r, -z), 255 - z) rounded half to even + z       z =
//                      y_zero_point y f32: r
//     inside: positions inside the input. count: the same, or with count_include_pad the positions
//     inside the input and its pads (pad_begin, pad_end of the window). count = 0: r = 0.
//     multipliers[c] = f32(double(s_x) / s_y / c) for c = 1 .. taps ([0] is unused); s_y = 1 for
//     f32.
//
// channels-last: x [outer, D, H, W, channels]; plain: x [outer, D, H, W] with channels = 1 and
// outer = N*C. x and y are dense. Output lines: line = (o*OD + d)*OH + h, each OW * channels
// elements; only lines [line_begin, line_end) are computed. A global pool is a window as large as
// the input. global_average_f32 splits by channels, too: see its arguments.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/epilogue.h"

namespace fold8::kernels {

// Along one axis, output o looks at inputs  o * stride - pad_begin + k * dilation,  k = 0 ..
// kernel-1; those outside [0, in) are padding. `out` is the caller's, who has dealt with auto_pad
// and ceil_mode.
struct PoolAxis {
  std::int64_t in = 1, out = 1;
  std::int64_t kernel = 1, stride = 1, dilation = 1;
  std::int64_t pad_begin = 0, pad_end = 0;
};
struct PoolWindow {
  PoolAxis axis[3];  // depth, height, width; 1-d and 2-d leave the leading ones at their defaults
};

template <class T>
struct MaxPoolArgs {
  std::size_t outer = 1, channels = 1;
  PoolWindow window;
  const T* x = nullptr;
  T* y = nullptr;
  std::size_t line_begin = 0, line_end = 0;
};
using max_pool_f32_fn = void(const MaxPoolArgs<float>& args);
using max_pool_u8_fn = void(const MaxPoolArgs<std::uint8_t>& args);

struct AveragePoolF32Args {
  std::size_t outer = 1, channels = 1;
  PoolWindow window;
  bool count_include_pad = false;
  const float* x = nullptr;
  float* y = nullptr;
  std::size_t line_begin = 0, line_end = 0;
};
using average_pool_f32_fn = void(const AveragePoolF32Args& args);

struct AveragePoolU8Args {
  std::size_t outer = 1, channels = 1;
  PoolWindow window;
  bool count_include_pad = false;
  const std::uint8_t* x = nullptr;
  std::int32_t x_zero_point = 0;
  const float* multipliers = nullptr;  // [taps + 1]
  OutputKind output_kind = OutputKind::u8;
  void* y = nullptr;
  std::int32_t y_zero_point = 0;
  std::size_t line_begin = 0, line_end = 0;
};
using average_pool_u8_fn = void(const AveragePoolU8Args& args);

// y[o,c] = sum / f32(positions); sum = one chain of additions from +0, positions ascending.
// x: [outer, positions, channels] (plain: channels = 1, outer = N*C). Outputs o*channels + c in
// [begin, end).
struct GlobalAverageF32Args {
  std::size_t outer = 1, positions = 0, channels = 1;
  const float* x = nullptr;
  float* y = nullptr;
  std::size_t begin = 0, end = 0;
};
using global_average_f32_fn = void(const GlobalAverageF32Args& args);

namespace reference {
max_pool_f32_fn max_pool_f32;
max_pool_u8_fn max_pool_u8;
average_pool_f32_fn average_pool_f32;
average_pool_u8_fn average_pool_u8;
global_average_f32_fn global_average_f32;
}  // namespace reference

}  // namespace fold8::kernels
