// The geometry of a convolution over channels-last tensors: x [batch, in[0], in[1], in[2],
// in_channels], the axes being depth, height, width; 1-d and 2-d convolutions set the leading axes
// to extent 1, kernel 1, stride 1, dilation 1, pad 0.
//   convolution:  y at o sums over taps t   x at  i = o * stride - pad_begin + t * dilation
//   transposed:   y at o sums over taps t with (o + pad_begin - t * dilation) divisible by stride,
//                                           x at  i = (o + pad_begin - t * dilation) / stride
// Positions outside x are padding. Trailing padding is implied by `out`. Output rows are positions:
// row index
// ((b * out[0] + o0) * out[1] + o1) * out[2] + o2.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fold8::kernels {

struct ConvShape {
  std::int64_t batch = 1;
  std::int64_t in_channels = 1, out_channels = 1, groups = 1;  // groups divides both
  std::int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  std::int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  std::int64_t pad_begin[3] = {0, 0, 0};  // may be negative (a crop)
  bool transposed = false;
};

constexpr std::int64_t conv_taps(const ConvShape& s) {
  return s.kernel[0] * s.kernel[1] * s.kernel[2];
}
constexpr std::int64_t conv_rows(const ConvShape& s) {
  return s.batch * s.out[0] * s.out[1] * s.out[2];
}

}  // namespace fold8::kernels
