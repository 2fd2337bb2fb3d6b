#include <cmath>

#include "runtime/kernels/depthwise_f32.h"
#include "runtime/kernels/epilogue_ref.h"

namespace fold8::kernels::reference {
namespace {

float chain(const DepthwiseF32Args& args, std::int64_t row, std::int64_t c) {
  const ConvShape& s = args.shape;
  const std::int64_t o[3] = {row / (s.out[2] * s.out[1]) % s.out[0], row / s.out[2] % s.out[1],
                             row % s.out[2]};
  const std::int64_t b = row / (s.out[2] * s.out[1] * s.out[0]);
  const std::int64_t w_stride = (s.in_channels + 15) / 16 * 16;
  const float* w = args.w + c;
  float acc = 0;
  for (std::int64_t kd = 0; kd < s.kernel[0]; ++kd)
    for (std::int64_t kh = 0; kh < s.kernel[1]; ++kh)
      for (std::int64_t kw = 0; kw < s.kernel[2]; ++kw, w += w_stride) {
        const std::int64_t i0 = o[0] * s.stride[0] - s.pad_begin[0] + kd * s.dilation[0];
        const std::int64_t i1 = o[1] * s.stride[1] - s.pad_begin[1] + kh * s.dilation[1];
        const std::int64_t i2 = o[2] * s.stride[2] - s.pad_begin[2] + kw * s.dilation[2];
        if (i0 < 0 || i0 >= s.in[0] || i1 < 0 || i1 >= s.in[1] || i2 < 0 || i2 >= s.in[2]) continue;
        const std::int64_t pixel = ((b * s.in[0] + i0) * s.in[1] + i1) * s.in[2] + i2;
        acc = std::fma(
            args.x[static_cast<std::size_t>(pixel) * args.x_stride + static_cast<std::size_t>(c)],
            *w, acc);
      }
  return acc;
}

}  // namespace

void depthwise_f32(const DepthwiseF32Args& args) {
  for (std::size_t m = args.row_begin; m < args.row_end; ++m)
    for (std::int64_t c = 0; c < args.shape.in_channels; ++c)
      epilogue_ref(args.epilogue, m, static_cast<std::size_t>(c),
                   chain(args, static_cast<std::int64_t>(m), c));
}

}  // namespace fold8::kernels::reference
