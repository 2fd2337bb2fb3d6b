// Depthwise f32 convolution (groups = input channels = output channels), channels-last.
//   acc[m,c] = fma(x[pixel(m, tap), c], w[tap,c], acc[m,c])     tap ascending in (kd, kh, kw), from
//   +0; padding skipped then epilogue.h (multiplier null)
// x: [batch, D, H, W, C], pixels x_stride floats apart; w: pack_depthwise_f32, finite. Geometry and
// output rows: conv_shape.h, split by rows [row_begin, row_end). y must not overlap x. No scratch.
#pragma once

#include <cstddef>

#include "runtime/kernels/conv_shape.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/pack_f32.h"

namespace fold8::kernels {

struct DepthwiseF32Args {
  ConvShape shape;  // groups = in_channels = out_channels; not transposed
  const float* x = nullptr;
  std::size_t x_stride = 0;
  const float* w = nullptr;
  Epilogue epilogue;
  std::size_t row_begin = 0, row_end = 0;
};
using depthwise_f32_fn = void(const DepthwiseF32Args& args);

namespace reference {
depthwise_f32_fn depthwise_f32;
}

}  // namespace fold8::kernels
