// Norms read INT32 accumulators:  Norm(Linear_u8s8(x) + residual) -> Linear to s32, Norm with
// scales, bias and residual
//
//   value[n] = fma(f32(acc[n]) [* row_scale], multiplier[n], bias[n]) + residual[n]
//
// which is what the layer's own epilogue would compute, bit for bit: the f32 tensor between them is
// not written (or, where a skip connection reads it, written once, by the norm).
#pragma once

#include "fusion/rewrite/rewrite.h"

namespace fold8::fusion {

extern const GraphPass norm_from_accumulators;

}  // namespace fold8::fusion
