// Dequantize over a constant, where no integer kernel reads the integers:  constant f32 = f32(q - zero_point) * scale
// Biases of imported models, and weights of layers that stay float. Runs after fuse_quantize has taken what it can.
#pragma once

#include "fusion/rewrite/rewrite.h"

namespace fold8::fusion {

extern const GraphPass dequantize_constants;
// INT32 constants only: no kernel reads a bias as integers, so they may become f32 at once.
extern const GraphPass dequantize_biases;

}  // namespace fold8::fusion
