// Geometry of a matrix product, and the product of two 8-bit integer activations.
#pragma once

#include "runtime/ops/matrix_steps.h"

namespace fold8::ops {

struct MatMulDims {
  Dim m, n, k_a, k_b;
  Shape output;
  int batch_axes = 0;
};
Result<MatMulDims> matmul_dims(const graph::MatMul& op, const Shape& a, const Shape& b);

struct MatMulPlan {
  std::size_t m = 0, n = 0, k = 0;
  std::size_t a_row = 0, a_col = 1, b_row = 0, b_col = 1;  // element strides of one matrix
  KeptVector<std::size_t> a_index, b_index;                // matrix of each operand, per product
};

// acc = sum (a - za) * (b - zb): zero points from operands 2 (one) and 3 (one, or one a column), or
// from the types. y s32: acc, wrapping; y f32 or u8: fma(f32(acc), m, 0) with m = f32(double(s_a) *
// s_b * alpha / s_y). b is packed for the INT8 kernel in scratch, once per product.
Result<StepPtr> prepare_matmul_integer(const graph::MatMul& op, const PrepareContext& c,
                                       MatMulPlan plan);

}  // namespace fold8::ops
