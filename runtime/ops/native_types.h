// The types an operator computes with. Where the plan's types differ from them, the dispatcher
// converts around the operator in scratch (adapter.h): slower, and the same numbers.
#pragma once

#include "runtime/ops/common.h"

namespace fold8::ops {

struct NativeTypes {
  struct Change {
    std::size_t operand;
    TensorType type;
  };
  std::vector<Change> inputs, outputs;  // in order; others are as the plan has them
};
NativeTypes native_types(const graph::Op& op, const PrepareContext& c);

}  // namespace fold8::ops
