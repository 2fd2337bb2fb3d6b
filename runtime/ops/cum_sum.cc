// ONNX CumSum along the axis operand 1 names: one chain of additions from 0; integers wrap.
#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

template <class T>
void cumulate(const graph::CumSum& op, const T* x, T* y, std::size_t n, std::size_t stride) {
  T sum = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t i = (op.reverse ? n - 1 - k : k) * stride;
    const T v = x[i];
    if (op.exclusive) y[i] = sum;
    sum = wrap_add(sum, v);
    if (!op.exclusive) y[i] = sum;
  }
}

}  // namespace

Status infer_op(const graph::CumSum&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 2));
  FOLD8_CHECK_OK(expect_index(c, 1));
  if (c.shape(1).known() && c.shape(1).count() != 1) return bad_input(c, 1, "one axis");
  const DType d = c.type(0).quant ? DType::f32 : c.type(0).dtype;
  if (d == DType::boolean || !with_number_type(d, []<class T>() {}))
    return bad_input(c, 0, "numbers");
  c.set(0, d, c.shape(0));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::CumSum& op, const PrepareContext& c) {
  const Shape shape = c.type(0).shape;
  return make_step([shape, op = op, dtype = c.type(0).dtype,
                    index = c.type(1).dtype](const RunContext& run) -> Status {
    FOLD8_TRY(const int axis, checked_axis(index_at(run.inputs[1], index, 0), shape.rank()));
    const auto outer = static_cast<std::size_t>(shape.count(0, axis)),
               n = static_cast<std::size_t>(shape.extent(axis));
    const auto inner = static_cast<std::size_t>(shape.count(axis + 1, shape.rank()));
    with_number_type(dtype, [&]<class T>() {
      for (std::size_t i = 0; i < outer * inner; ++i) {
        const std::size_t at = i / inner * n * inner + i % inner;
        cumulate(op, in<T>(run, 0) + at, out<T>(run, 0) + at, n, inner);
      }
    });
    return ok_status();
  });
}

}  // namespace fold8::ops
