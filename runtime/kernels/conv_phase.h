// A convolution as one or more "phases", each an ordinary gathered convolution. A plain convolution
// is its only phase. In a transposed one the output positions o with the same o mod stride meet the
// same taps, so each residue is a phase: with o = out_first + out_step * j and tap = tap_first +
// tap_step * i, both kinds read x at
//   in_base + in_stride * j + in_step * i         (on each axis; in_step may be negative)
#pragma once

#include "runtime/kernels/conv_shape.h"

namespace fold8::kernels {

struct ConvAxis {
  std::int64_t taps = 0, tap_first = 0, tap_step = 1;
  std::int64_t out = 0, out_first = 0, out_step = 1;  // `out` positions of this phase
  std::int64_t in = 0, in_base = 0, in_stride = 1, in_step = 1;
};

struct ConvPhase {
  ConvAxis axis[3];
};

constexpr std::int64_t conv_taps(const ConvPhase& p) {
  return p.axis[0].taps * p.axis[1].taps * p.axis[2].taps;
}

std::int64_t conv_phases(const ConvShape& shape);
ConvPhase conv_phase(const ConvShape& shape,
                     std::int64_t index);  // index = (r0 * stride[1] + r1) * stride[2] + r2

}  // namespace fold8::kernels
