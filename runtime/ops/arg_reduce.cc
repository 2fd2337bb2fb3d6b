// ONNX ArgMax and ArgMin. NaN is the largest (smallest); ties: lowest index, or highest with
// select_last.
#include "runtime/kernels/reduce.h"
#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

template <class T>
std::int64_t best(const graph::ArgReduce& op, const T* x, std::size_t n, std::size_t stride) {
  std::size_t at = 0;
  for (std::size_t i = 1; i < n; ++i) {
    const T v = x[i * stride], b = x[at * stride];
    const bool better = op.max ? v > b : v < b;
    const bool nan = v != v && b == b, tie = v == b || (v != v && b != b);
    if ((b == b && better) || nan || (tie && op.select_last)) at = i;
  }
  return static_cast<std::int64_t>(at);
}

}  // namespace

Status infer_op(const graph::ArgReduce& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  const Shape& x = c.shape(0);
  if (!with_number_type(c.type(0).dtype, []<class T>() {})) return bad_input(c, 0, "numbers");
  FOLD8_TRY(const int axis, checked_axis(op.axis, x.rank()));
  if (x[axis].known() && x[axis].value() == 0)
    return bad_input(c, 0, "a non-empty axis " + std::to_string(axis));
  Shape y = x;
  if (op.keep_dims)
    y[axis] = Dim(1);
  else
    y.erase(axis);
  c.set(0, DType::s64, y);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::ArgReduce& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  FOLD8_TRY(const int axis, checked_axis(op.axis, x.shape.rank()));
  const auto outer = static_cast<std::size_t>(x.shape.count(0, axis)),
             n = static_cast<std::size_t>(x.shape.extent(axis));
  const auto inner = static_cast<std::size_t>(x.shape.count(axis + 1, x.shape.rank()));
  if (n == 0)
    return invalid_argument("input 0 is " + describe(x) +
                            ": there is no largest element along axis " + std::to_string(axis));
  if (x.dtype == DType::f32) {
    return make_step([=, op = op, kernel = c.kernels->arg_reduce](const RunContext& run) {
      parallel(run, outer, grain_for(2 * n * inner),
               [&](std::size_t b, std::size_t e, std::size_t) {
                 kernel({.largest = op.max,
                         .select_last = op.select_last,
                         .outer = e - b,
                         .axis = n,
                         .inner = inner,
                         .x = in<float>(run, 0) + b * n * inner,
                         .index = out<std::int64_t>(run, 0) + b * inner});
               });
      return ok_status();
    });
  }
  return make_step([=, op = op, dtype = x.dtype](const RunContext& run) {
    with_number_type(dtype, [&]<class T>() {
      for (std::size_t i = 0; i < outer * inner; ++i)
        out<std::int64_t>(run, 0)[i] =
            best(op, in<T>(run, 0) + i / inner * n * inner + i % inner, n, inner);
    });
    return ok_status();
  });
}

}  // namespace fold8::ops
