// 8-bit tensors moved between different quantization parameters: one table lookup an element.
#pragma once

#include <array>

#include "runtime/ops/strided_copy.h"

namespace fold8::ops {

// to[q] for each stored byte, made by dequantizing with `from` and quantizing with `to`
// (kernels/quantize.h).
using RequantizeMap = std::array<std::uint8_t, 256>;

// The table between two types of the same dtype; nullopt if the numbers are equal. An error if one
// of the types has no per-tensor params and the other has.
Result<std::optional<RequantizeMap>> requantize_map(const TensorType& from, const TensorType& to);

void run_mapped_copy(const RunContext& c, const CopyPlan& plan, const RequantizeMap& map,
                     const void* src, void* dst);

}  // namespace fold8::ops
