// f32 weights of Linear and Conv back in ONNX order, for those who look at them (reports).
#pragma once

#include <vector>

#include "runtime/core/tensor.h"
#include "runtime/graph/ops.h"

namespace fold8::ops {

// w: operand 1, f32, plain or packed by pack_weight(). Errors: another type or operator.
Result<std::vector<float>> plain_f32_weight(const graph::Op& op, const TensorType& w,
                                            const void* data);

}  // namespace fold8::ops
