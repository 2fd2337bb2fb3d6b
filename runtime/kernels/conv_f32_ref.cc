#include <cmath>

#include "runtime/kernels/conv_f32.h"
#include "runtime/kernels/epilogue_ref.h"

namespace fold8::kernels::reference {
namespace {

// The input position tap t of output o reads along an axis, or -1 for padding (conv_shape.h).
std::int64_t input_position(const ConvShape& s, int axis, std::int64_t o, std::int64_t t) {
  std::int64_t i = o * s.stride[axis] - s.pad_begin[axis] + t * s.dilation[axis];
  if (s.transposed) {
    i = o + s.pad_begin[axis] - t * s.dilation[axis];
    if (i < 0 || i % s.stride[axis] != 0) return -1;
    i /= s.stride[axis];
  }
  return i >= 0 && i < s.in[axis] ? i : -1;
}

float chain(const ConvF32Args& args, std::int64_t row, std::int64_t o) {
  const ConvShape& s = args.shape;
  const std::int64_t c_count = s.in_channels / s.groups, n = s.out_channels / s.groups, g = o / n;
  const std::int64_t panels = (n + 15) / 16, panel = g * panels + o % n / 16;
  const std::int64_t o2 = row % s.out[2], o1 = row / s.out[2] % s.out[1];
  const std::int64_t o0 = row / (s.out[2] * s.out[1]) % s.out[0],
                     b = row / (s.out[2] * s.out[1] * s.out[0]);
  const float* w = args.w + panel * conv_taps(s) * c_count * 16 + o % n % 16;
  float acc = 0;
  for (std::int64_t kd = 0; kd < s.kernel[0]; ++kd)
    for (std::int64_t kh = 0; kh < s.kernel[1]; ++kh)
      for (std::int64_t kw = 0; kw < s.kernel[2]; ++kw, w += c_count * 16) {
        const std::int64_t i0 = input_position(s, 0, o0, kd), i1 = input_position(s, 1, o1, kh);
        const std::int64_t i2 = input_position(s, 2, o2, kw);
        if (i0 < 0 || i1 < 0 || i2 < 0) continue;
        const std::size_t pixel =
            static_cast<std::size_t>(((b * s.in[0] + i0) * s.in[1] + i1) * s.in[2] + i2);
        const float* x = args.x + pixel * args.x_stride + g * c_count;
        for (std::int64_t c = 0; c < c_count; ++c) acc = std::fma(x[c], w[c * 16], acc);
      }
  return acc;
}

}  // namespace

void conv_f32(const ConvF32Args& args) {
  const std::size_t n = static_cast<std::size_t>(args.shape.out_channels / args.shape.groups);
  const std::size_t panels = (n + kPanelF32 - 1) / kPanelF32;
  for (std::size_t m = args.row_begin; m < args.row_end; ++m)
    for (std::size_t p = args.panel_begin; p < args.panel_end; ++p)
      for (std::size_t j = p % panels * kPanelF32; j < n && j < (p % panels + 1) * kPanelF32; ++j) {
        const std::size_t o = p / panels * n + j;
        epilogue_ref(args.epilogue, m, o,
                     chain(args, static_cast<std::int64_t>(m), static_cast<std::int64_t>(o)));
      }
}

}  // namespace fold8::kernels::reference
