#include "runtime/kernels/conv_phase.h"

#include <algorithm>
#include <numeric>

namespace fold8::kernels {

namespace {

ConvAxis plain_axis(const ConvShape& s, int a) {
  return {.taps = s.kernel[a],
          .out = s.out[a],
          .in = s.in[a],
          .in_base = -s.pad_begin[a],
          .in_stride = s.stride[a],
          .in_step = s.dilation[a]};
}

// Positions o = residue + stride * j; taps with (residue + pad - tap * dilation) divisible by the
// stride.
ConvAxis transposed_axis(const ConvShape& s, int a, std::int64_t residue) {
  const std::int64_t stride = s.stride[a], dilation = s.dilation[a];
  ConvAxis x{.out = (s.out[a] - residue + stride - 1) / stride,
             .out_first = residue,
             .out_step = stride,
             .in = s.in[a]};
  if (s.out[a] <= residue) x.out = 0;
  x.tap_step = stride / std::gcd(stride, dilation);
  x.in_step = -(x.tap_step * dilation / stride);
  const auto reach = [&](std::int64_t tap) { return residue + s.pad_begin[a] - tap * dilation; };
  const std::int64_t candidates = std::min(x.tap_step, s.kernel[a]);
  while (x.tap_first < candidates && reach(x.tap_first) % stride != 0) ++x.tap_first;
  if (x.tap_first < candidates) {
    x.taps = (s.kernel[a] - x.tap_first + x.tap_step - 1) / x.tap_step;
    x.in_base = reach(x.tap_first) / stride;
  }
  return x;
}

}  // namespace

std::int64_t conv_phases(const ConvShape& s) {
  return s.transposed ? s.stride[0] * s.stride[1] * s.stride[2] : 1;
}

ConvPhase conv_phase(const ConvShape& s, std::int64_t index) {
  ConvPhase phase;
  for (int a = 2; a >= 0; --a) {
    phase.axis[a] = s.transposed ? transposed_axis(s, a, index % s.stride[a]) : plain_axis(s, a);
    index /= s.stride[a];
  }
  return phase;
}

}  // namespace fold8::kernels
