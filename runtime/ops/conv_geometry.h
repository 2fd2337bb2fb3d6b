// Extents and padding of a convolution.
#pragma once

#include "runtime/kernels/conv_shape.h"
#include "runtime/ops/common.h"

namespace fold8::ops {

// [N, M, spatial..], as far as the extents of x and w are known.
Result<Shape> conv_output_shape(const graph::Conv& op, const Shape& x, const Shape& w);
// The part of the geometry that packed weights depend on: kernel, strides, dilations, groups,
// channels, and for transposed convolutions the leading pads. Extents are 1.
Result<kernels::ConvShape> conv_weight_shape(const graph::Conv& op, const Shape& w);
// Transposed INT8 weights are ordered by phase, which depends on the pads; those that output_shape
// implies are known only with the input's extents.
bool packing_depends_on_extents(const graph::Conv& op);
// The kernels' geometry; all shapes known, y as conv_output_shape() gives it.
Result<kernels::ConvShape> conv_shape(const graph::Conv& op, const Shape& x, const Shape& w,
                                      const Shape& y);

}  // namespace fold8::ops
