// Geometry of sliding windows (convolution, pooling), one axis at a time. Kernels take three axes (depth, height,
// width); 1-d and 2-d operators leave the leading ones at their defaults.
#pragma once

#include <cstddef>

namespace fold8::kernels {

// Output position o looks at input positions  o * stride - pad_begin + k * dilation,  k = 0 .. kernel-1; those outside
// [0, in) are padding. Transposed (gathered): input position i = (o + pad_begin - k * dilation) / stride for every k
// where that division is exact and i lies in [0, in).
// `out` is given by the caller, who has already dealt with auto_pad, ceil_mode and output_padding. Pads may be negative
// (cropping). All extents and strides are > 0.
struct WindowAxis {
  std::size_t in = 1;
  std::size_t out = 1;
  std::size_t kernel = 1;
  std::size_t stride = 1;
  std::size_t dilation = 1;
  std::ptrdiff_t pad_begin = 0;
  std::ptrdiff_t pad_end = 0;  // average pooling that counts padding; nobody else looks at it
};

struct Window {
  WindowAxis axis[3];  // depth, height, width

  std::size_t in_pixels() const { return axis[0].in * axis[1].in * axis[2].in; }
  std::size_t out_pixels() const { return axis[0].out * axis[1].out * axis[2].out; }
  std::size_t taps() const { return axis[0].kernel * axis[1].kernel * axis[2].kernel; }
};

}  // namespace fold8::kernels
