// ONNX TopK: values and indices of the k largest (smallest) along an axis, sorted; ties: lowest
// index. NaN is the largest.
#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

template <class T>
bool above(T a, T b) {
  return a > b || (a != a && b == b);
}

// order: n indices of scratch.
template <class T>
void top(const graph::TopK& op, const T* x, std::size_t n, std::size_t stride, std::size_t k,
         T* values, std::int64_t* indices, std::int64_t* order) {
  for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::int64_t>(i);
  const auto before = [&](std::int64_t i, std::int64_t j) {
    const T a = x[static_cast<std::size_t>(i) * stride],
            b = x[static_cast<std::size_t>(j) * stride];
    if (op.largest ? above(a, b) : above(b, a)) return true;
    if (op.largest ? above(b, a) : above(a, b)) return false;
    return i < j;
  };
  std::partial_sort(order, order + k, order + n, before);
  for (std::size_t i = 0; i < k; ++i) {
    if (values) values[i * stride] = x[static_cast<std::size_t>(order[i]) * stride];
    if (indices) indices[i * stride] = order[i];
  }
}

}  // namespace

Status infer_op(const graph::TopK& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 2, 2));
  FOLD8_CHECK_OK(expect_index(c, 1));
  const Shape& x = c.shape(0);
  if (!with_number_type(c.type(0).dtype, []<class T>() {})) return bad_input(c, 0, "numbers");
  FOLD8_TRY(const int axis, checked_axis(op.axis, x.rank()));
  if (c.shape(1).known() && c.shape(1).count() != 1) return bad_input(c, 1, "one element");
  Shape y = x;
  y[axis] = Dim::unknown();
  if (const auto k = c.ints(1)) y[axis] = k->values[0];
  if (y[axis].known() &&
      (y[axis].value() < 0 || (x[axis].known() && y[axis].value() > x[axis].value())))
    return invalid_model("k is " + std::to_string(y[axis].value()) + ", but axis " +
                         std::to_string(axis) + " of input 0 has extent " +
                         (x[axis].known() ? std::to_string(x[axis].value()) : "?"));
  set_like(c, 0, 0, y);
  c.set(1, DType::s64, y);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::TopK& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  FOLD8_TRY(const int axis, checked_axis(op.axis, x.shape.rank()));
  const auto k_operand = c.ints(1);
  const auto n = static_cast<std::size_t>(x.shape.extent(axis));
  const TensorType* y = c.wants(0) ? &c.out(0) : c.wants(1) ? &c.out(1) : nullptr;
  const auto k = y           ? static_cast<std::size_t>(y->shape.extent(axis))
                 : k_operand ? static_cast<std::size_t>((*k_operand)[0])
                             : 0;
  if (k > n)
    return invalid_argument("k is " + std::to_string(k) + ", but the axis has extent " +
                            std::to_string(n));
  const auto outer = static_cast<std::size_t>(x.shape.count(0, axis)),
             inner = static_cast<std::size_t>(x.shape.count(axis + 1, x.shape.rank()));
  const std::size_t line = round_up(n * sizeof(std::int64_t), kAlignment);
  return make_step(
      [=, op = op, dtype = x.dtype](const RunContext& run) {
        with_number_type(dtype, [&]<class T>() {
          parallel(run, outer * inner, grain_for(16 * n),
                   [&](std::size_t b, std::size_t e, std::size_t p) {
                     for (std::size_t i = b; i < e; ++i) {
                       const std::size_t to = i / inner * k * inner + i % inner;
                       T* values = run.outputs[0] ? out<T>(run, 0) + to : nullptr;
                       std::int64_t* indices = run.outputs.size() > 1 && run.outputs[1]
                                                   ? out<std::int64_t>(run, 1) + to
                                                   : nullptr;
                       top(op, in<T>(run, 0) + i / inner * n * inner + i % inner, n, inner, k,
                           values, indices,
                           reinterpret_cast<std::int64_t*>(run.scratch + p * line));
                     }
                   });
        });
        return ok_status();
      },
      line * static_cast<std::size_t>(std::max(c.threads, 1)));
}

}  // namespace fold8::ops
