// INT8 depthwise convolution: groups == in_channels == out_channels, any kernel, stride and dilation, channels-last.
// Same equation, arguments and epilogue as conv_u8s8.h with one input channel per output channel.
//
// Weights (pack_conv_s8 makes them) are a packed matrix (pack_s8.h) of channels x depth whose k runs over taps:
//   kernel[1] >= 2:  (kd, kw, kh), kh padded with zero weights to a multiple of 4, so that a column of 4 taps is one group
//   kernel[1] == 1:  (kd, kw), padded at the end
#pragma once

#include "runtime/kernels/conv_u8s8.h"

namespace fold8::kernels {

using depthwise_u8s8_fn = void(const ConvU8S8Args&);
namespace reference { depthwise_u8s8_fn depthwise_u8s8; }

}  // namespace fold8::kernels
