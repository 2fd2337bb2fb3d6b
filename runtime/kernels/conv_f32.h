// f32 convolution over channels-last activations, 1 to 3 spatial axes, groups, strides, dilations,
// any pads; transposed too (gathered: every output is computed once, from the inputs that reach
// it).
//   acc[m,n] = fma(x[pixel(m, tap), g*C + c], w[g,n,tap,c], acc[m,n])
//              tap ascending in (kd, kh, kw), then c = 0 .. C-1, from +0; taps that fall on padding
//              are skipped (or multiplied as +0: with finite weights the stored result is the same)
//   then epilogue.h (multiplier null)
// Geometry and output rows m: conv_shape.h; column n = g*N + j. x: [batch, D, H, W, groups*C],
// pixels x_stride floats apart. w: pack_conv_f32, weights must be finite. Work is split by rows
// [row_begin, row_end) and panels [panel_begin, panel_end) of groups * ceil(N/16); the split never
// changes a bit. y must not overlap x. scratch: conv_f32_scratch_bytes(shape) bytes, 64-byte
// aligned, one per thread, contents need not survive.
#pragma once

#include <cstddef>

#include "runtime/kernels/conv_shape.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/pack_f32.h"

namespace fold8::kernels {

struct ConvF32Args {
  ConvShape shape;
  const float* x = nullptr;
  std::size_t x_stride = 0;
  const float* w = nullptr;
  Epilogue epilogue;
  std::size_t row_begin = 0, row_end = 0;
  std::size_t panel_begin = 0, panel_end = 0;
  void* scratch = nullptr;
};
using conv_f32_fn = void(const ConvF32Args& args);

std::size_t conv_f32_panels(const ConvShape& shape);         // groups * ceil(N/16)
std::size_t conv_f32_scratch_bytes(const ConvShape& shape);  // the same for every target

namespace reference {
conv_f32_fn conv_f32;
}

}  // namespace fold8::kernels
