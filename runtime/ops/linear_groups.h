// INT8 Linear whose weight has scales per group along K.
//   sum[m,n] = fma(f32(acc_g), s_g, sum)       g ascending, from +0; the zero-point term is inside
//   acc_g s_g = f32(double(s_x) * s_w[n,g] / s_y) (per token: s_w[n,g], then r = sum * s_x_row); r
//   = sum + b', and so on as epilogue_plan.h says.
#pragma once

#include "runtime/ops/matrix_steps.h"

namespace fold8::ops {

Result<StepPtr> prepare_linear_groups(const graph::Linear& op, const PrepareContext& c,
                                      MatrixBatch batch, Weight weight);

}  // namespace fold8::ops
