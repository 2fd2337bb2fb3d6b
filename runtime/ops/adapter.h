// Runs a step between operands of other types: order of elements, s8 codes as u8, 8-bit codes as
// real numbers.
#pragma once

#include "runtime/ops/common.h"
#include "runtime/ops/native_types.h"

namespace fold8::ops {

using PrepareFn = Result<StepPtr> (*)(const graph::Op& op, const PrepareContext& c);

// prepare(op) for c's types, with an inner step prepared for `native`. Equal types: that step
// itself.
Result<StepPtr> prepare_adapted(const graph::Op& op, const PrepareContext& c,
                                const NativeTypes& native, PrepareFn prepare);

}  // namespace fold8::ops
