// Steps around the matrix kernels, shared by Linear and pointwise Conv.
#pragma once

#include "runtime/ops/epilogue_plan.h"

namespace fold8::ops {

// Rows times columns, once per pair of (x matrix, w matrix); y matrices follow each other.
struct MatrixBatch {
  std::size_t m = 0, n = 0, k = 0;
  KeptVector<std::size_t> x_index, w_index;  // which matrix of x and w each product reads

  double macs() const {
    return static_cast<double>(m * n) * static_cast<double>(k) *
           static_cast<double>(x_index.size());
  }
};
// For the batch axes of `out` ([0, out_axes)): the row-major index of the matrix of `operand`
// (batch axes [0, axes)) that broadcasts there.
KeptVector<std::size_t> batch_indices(const Shape& operand, int axes, const Shape& out,
                                      int out_axes);

// A weight as the kernels read it: used as it lies (`type` is the operand's), or packed in
// prepare()
// (`owned`, shared by all plans of the node).
struct Weight {
  Weight(const TensorType& t, const void* bytes)
      : type(&t), data(static_cast<const std::byte*>(bytes)) {}
  explicit Weight(std::shared_ptr<const PackedWeight> packed)
      : type(&packed->type), data(packed->data->data()), owned(std::move(packed)) {}
  const TensorType* type;  // during prepare()
  const std::byte* data;
  std::shared_ptr<const PackedWeight> owned;
};
// Operand 1 of c, a constant.
Result<Weight> packed_operand(const graph::Op& op, const PrepareContext& c);
// The same as f32: an s8 or u8 weight is dequantized (weight-only INT8).
Result<Weight> packed_f32_operand(const graph::Op& op, const PrepareContext& c);

// y = epilogue(x * w) with packed weights; work is split over rows, or over panels of columns when
// there are few rows.
Result<StepPtr> gemm_f32_step(const PrepareContext& c, MatrixBatch batch, Weight weight,
                              EpiloguePlan epilogue);
Result<StepPtr> gemm_u8s8_step(const PrepareContext& c, MatrixBatch batch, Weight weight,
                               std::vector<std::int32_t> zero_points, EpiloguePlan epilogue);
// x f32, weight s8 and left so (weight-only INT8, may_stay_int8()).
Result<StepPtr> gemm_f32s8_step(const PrepareContext& c, const MatrixBatch& batch, Weight weight,
                                EpiloguePlan epilogue);
// w is computed: plain [B.., N, K], read with strides.
Result<StepPtr> computed_weight_step(const PrepareContext& c, MatrixBatch batch,
                                     EpiloguePlan epilogue);

// The arguments of an f32 kernel for rows [row_begin, row_end) of panels [panel_begin, panel_end).
template <class Args>
Args part_of(Args args, std::size_t row_begin, std::size_t row_end, std::size_t panel_begin,
             std::size_t panel_end) {
  args.row_begin = row_begin;
  args.row_end = row_end;
  args.panel_begin = panel_begin;
  args.panel_end = panel_end;
  return args;
}

// f(row_begin, row_end, panel_begin, panel_end, part) on the pool, at least `grain` multiply-adds a
// part.
template <class F>
void split_matrix(const RunContext& run, std::size_t rows, std::size_t panels, std::size_t work,
                  std::size_t grain, const F& f) {
  if (rows == 0 || panels == 0) return;
  const std::size_t threads = run.pool ? static_cast<std::size_t>(run.pool->threads()) : 1;
  const std::size_t each = std::max<std::size_t>(1, work / std::max(rows, panels));
  const std::size_t least = std::max<std::size_t>(1, grain / each);
  if (rows >= 4 * threads || rows >= panels)
    parallel(run, rows, least, [&](std::size_t b, std::size_t e, std::size_t p) {
      f(b, e, std::size_t{0}, panels, p);
    });
  else
    parallel(run, panels, least, [&](std::size_t b, std::size_t e, std::size_t p) {
      f(std::size_t{0}, rows, b, e, p);
    });
}
inline constexpr std::size_t kGrainF32 = std::size_t{1} << 18,
                             kGrainS8 = std::size_t{1} << 20;  // multiply-adds

// e for the rows of matrix `at` of a batch: y, residual and row scales moved.
kernels::Epilogue epilogue_at(kernels::Epilogue e, std::size_t first_row);

}  // namespace fold8::ops
