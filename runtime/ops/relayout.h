// Conversion between the plain and the channels_last order of an activation.
#pragma once

#include "runtime/kernels/transpose.h"
#include "runtime/ops/common.h"

namespace fold8::ops {

struct RelayoutPlan {
  bool copy = true;  // both orders are the same
  std::size_t bytes = 0;
  kernels::TransposePlan plan;
  kernels::transpose_fn* kernel = nullptr;

  void run(const RunContext& run, const void* x, void* y) const;
};
RelayoutPlan make_relayout(const Shape& shape, Layout from, Layout to, std::size_t element,
                           kernels::transpose_fn* kernel);

}  // namespace fold8::ops
