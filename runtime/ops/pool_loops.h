// Pools that have no kernel: plain loops over the window.
#pragma once

#include "runtime/kernels/pool.h"
#include "runtime/ops/common.h"

namespace fold8::ops {

// Max pooling with the flat index of each maximum (output 1, s64; either output may be absent).
// Plain layout. NaN wins; ties: the first position. storage_order 1 counts spatial positions
// column-major.
Result<StepPtr> prepare_max_pool_indices(std::int64_t storage_order, const TensorType& x,
                                         const TensorType& y, const kernels::PoolWindow& w);

// y = (sum |x|^p)^(1/p) over the positions inside the input, positions ascending; p = 1: one chain
// of additions, p = 2: one chain of FMAs, then the square root. f32, either layout.
Result<StepPtr> prepare_lp_pool(std::int64_t p, const TensorType& x, const TensorType& y,
                                const kernels::PoolWindow& w);

}  // namespace fold8::ops
