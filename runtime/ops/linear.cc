// y[..., n] = act(sum_k x[..., k] * w[n, k] + bias[n] + residual[..., n]): f32, INT8, and
// weight-only INT8.
#include "runtime/kernels/gemm_f32.h"
#include "runtime/kernels/gemm_u8s8.h"
#include "runtime/kernels/matmul_f32.h"
#include "runtime/ops/each_op.h"
#include "runtime/ops/linear_groups.h"
#include "runtime/ops/matrix_steps.h"

namespace fold8::ops {
namespace {

bool integer_x(const TensorType& x) { return x.dtype == DType::u8 || x.dtype == DType::s8; }

// Leading axes of y: x's without the last one, broadcast with a batched weight's.
Result<Shape> output_shape(const InferContext& c, const Shape& w) {
  const Shape& x = c.shape(0);
  Shape rows, batch;
  for (int a = 0; a < x.rank() - 1; ++a) rows.push_back(x[a]);
  if (w.rank() > 2) {
    if (x.rank() < 2) return bad_input(c, 0, "rank 2 or more with a batched weight");
    for (int a = 0; a < w.rank() - 2; ++a) batch.push_back(w[a]);
    const Dim m = rows.back();
    rows.erase(rows.rank() - 1);
    const auto both = broadcast(rows, batch);
    if (!both || both->rank() + 2 > Shape::kMaxRank)
      return bad_input(c, 1, "a weight whose leading axes broadcast with " + to_string(rows));
    rows = *both;
    rows.push_back(m);
  }
  rows.push_back(w[w.rank() - 2]);
  return rows;
}

Status check_operands(const graph::Linear& op, const InferContext& c, const Shape& y) {
  const Shape& w = c.shape(1);
  const Dim n = w[w.rank() - 2], k = w.back();
  if (op.out_features > 0 && n.known() && n.value() != op.out_features)
    return bad_input(c, 1, std::to_string(op.out_features) + " output features");
  if (op.in_features > 0 && k.known() && k.value() != op.in_features)
    return bad_input(c, 1, std::to_string(op.in_features) + " input features");
  const Dim inner = c.shape(0).back();
  if (differ(inner, k))
    return bad_input(
        c, 0,
        "inner size " + std::to_string(k.value()) + ", as the weight " + to_string(w) + " has");
  if (c.has(2)) {
    FOLD8_CHECK_OK(expect_dtype(c, 2, {DType::f32}));
    const auto b = c.shape(2).elements();
    if (c.shape(2).rank() != 1 || (b && n.known() && *b != n.value()))
      return bad_input(c, 2, n.known() ? "[" + std::to_string(n.value()) + "]" : "rank 1");
  }
  if (c.has(3)) {
    const Shape& r = c.shape(3);
    bool fits = r.rank() == y.rank();
    for (int a = 0; fits && a < r.rank(); ++a) fits = !differ(r[a], y[a]);
    if (!fits) return bad_input(c, 3, "the shape of the output, " + to_string(y));
  }
  if (c.has(4)) FOLD8_CHECK_OK(expect_dtype(c, 4, {DType::f32}));
  return ok_status();
}

}  // namespace

Status infer_op(const graph::Linear& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 5));
  FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::f32, DType::u8, DType::s8}));
  FOLD8_CHECK_OK(expect_dtype(c, 1, {DType::f32, DType::u8, DType::s8}));
  const Shape& w = c.shape(1);
  if (w.rank() < 2) return bad_input(c, 1, "rank 2 or more, [out, in]");
  if (c.shape(0).rank() < 1) return bad_input(c, 0, "rank 1 or more");
  if (integer_x(c.type(0)) && c.type(1).dtype == DType::f32)
    return bad_input(c, 1, "INT8 elements for an INT8 input 0");
  FOLD8_TRY(const Shape y, output_shape(c, w));
  FOLD8_CHECK_OK(check_operands(op, c, y));
  c.set(0, DType::f32, y);
  return ok_status();
}

namespace {

MatrixBatch batch_of(const PrepareContext& c) {
  const Shape& x = c.type(0).shape;
  const Shape& w = c.type(1).shape;
  MatrixBatch b;
  b.n = static_cast<std::size_t>(w.extent(w.rank() - 2));
  b.k = static_cast<std::size_t>(w.back().value());
  if (w.rank() == 2) {
    b.m = static_cast<std::size_t>(x.count(0, x.rank() - 1));
    b.x_index = b.w_index = {0};
    return b;
  }
  const Shape& y = c.out(0).shape;
  b.m = static_cast<std::size_t>(y.extent(y.rank() - 2));
  b.x_index = batch_indices(x, x.rank() - 2, y, y.rank() - 2);
  b.w_index = batch_indices(w, w.rank() - 2, y, y.rank() - 2);
  return b;
}

}  // namespace

Result<StepPtr> prepare_op(const graph::Linear& op, const PrepareContext& c) {
  const MatrixBatch batch = batch_of(c);
  if (c.out(0).shape.count() == 0) return make_step([](const RunContext&) { return ok_status(); });
  EpilogueSpec spec{.columns = batch.n, .activation = op.activation, .a = op.a, .b = op.b};
  const TensorType& w = c.type(1);
  const void* data = c.inputs[1].constant;
  if (!integer_x(c.type(0))) {
    FOLD8_TRY(EpiloguePlan epilogue, EpiloguePlan::make(c, spec));
    if (data == nullptr) {
      if (w.dtype != DType::f32 || w.layout != Layout::plain)
        return unsupported("a computed weight of type " + describe(w));
      return computed_weight_step(c, batch, std::move(epilogue));
    }
    if (may_stay_int8(w)) {
      FOLD8_TRY(Weight weight, packed_operand(op, c));
      return gemm_f32s8_step(c, batch, std::move(weight), std::move(epilogue));
    }
    FOLD8_TRY(Weight weight, packed_f32_operand(op, c));
    return gemm_f32_step(c, batch, std::move(weight), std::move(epilogue));
  }
  if (data == nullptr) return unsupported("an INT8 linear layer whose weight is computed");
  FOLD8_TRY(Weight weight, packed_operand(op, c));
  if (weight.type->quant && weight.type->quant->granularity() == Granularity::per_group)
    return prepare_linear_groups(op, c, batch, std::move(weight));
  FOLD8_TRY(ColumnParams columns,
            column_params(*weight.type, weight.type->shape.rank() - 2, batch.n));
  spec.integer = true;
  spec.weight_scales = columns.scales;
  FOLD8_TRY(EpiloguePlan epilogue, EpiloguePlan::make(c, spec));
  return gemm_u8s8_step(c, batch, std::move(weight), std::move(columns.zero_points),
                        std::move(epilogue));
}

}  // namespace fold8::ops
