// Binary operators over number types that have no kernel: plain loops with broadcasting.
#pragma once

#include "runtime/ops/broadcast.h"

namespace fold8::ops {

// A step over elements of `dtype` (both operands), y of the same type or bool. nullopt-like error
// if the kind makes no sense for the type. Integers wrap; x / 0 and mod 0 give 0.
Result<StepPtr> prepare_binary_loop(graph::BinaryKind kind, DType dtype, const Broadcast& shape);

}  // namespace fold8::ops
