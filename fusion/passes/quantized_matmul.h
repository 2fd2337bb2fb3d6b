// MatMul(x, Dequantize(const w)) -> Linear(x, Dequantize(const w^T)): a matrix product with stored
// INT8 weights is a linear layer, in the orientation the kernels read ([N, K]). fuse_quantize then
// takes the integers.
#pragma once

#include "fusion/rewrite/rewrite.h"

namespace fold8::fusion {

extern const GraphPass quantized_matmul_to_linear;

}  // namespace fold8::fusion
