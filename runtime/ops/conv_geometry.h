// Extents and padding of a convolution.
#pragma once

#include "runtime/kernels/conv_shape.h"
#include "runtime/ops/common.h"

namespace fold8::ops {

// [N, M, spatial..], as far as the extents of x and w are known.
Result<Shape> conv_output_shape(const graph::Conv& op, const Shape& x, const Shape& w);
// The kernels' geometry; all shapes known, y as conv_output_shape() gives it.
Result<kernels::ConvShape> conv_shape(const graph::Conv& op, const Shape& x, const Shape& w, const Shape& y);

}  // namespace fold8::ops
