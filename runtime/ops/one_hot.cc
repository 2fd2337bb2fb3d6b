// ONNX OneHot: indices, depth, values [off, on]; a new axis of extent depth. Indices outside
// [-depth, depth) give off only.
#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

Result<int> new_axis(std::int64_t axis, int rank) { return checked_axis(axis, rank + 1); }

// A scalar number of any arithmetic type as an integer (rounded toward zero; out of range: no valid
// index).
std::int64_t number_at(const void* data, DType dtype, std::size_t i) {
  std::int64_t v = INT64_MIN;
  with_number_type(dtype, [&]<class T>() {
    const T x = static_cast<const T*>(data)[i];
    if constexpr (std::is_floating_point_v<T>)
      v = x >= T(-9e15) && x <= T(9e15) ? static_cast<std::int64_t>(x) : INT64_MIN;
    else
      v = static_cast<std::int64_t>(x);
  });
  return v;
}

}  // namespace

Status infer_op(const graph::OneHot& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 3, 3));
  if (c.type(0).dtype == DType::f16 || c.type(0).dtype == DType::bf16)
    return bad_input(c, 0, "integers, f32 or f64");
  if (c.shape(2).rank() != 1 || (c.shape(2)[0].known() && c.shape(2).extent(0) != 2))
    return bad_input(c, 2, "two elements, off and on");
  const Shape& x = c.shape(0);
  FOLD8_CHECK_OK(expect_rank_fits(x.rank() + 1));
  FOLD8_TRY(const int axis, new_axis(op.axis, x.rank()));
  Dim depth = Dim::unknown();
  if (const auto k = c.ints(1); k && k->values.size() == 1)
    depth = k->values[0];
  else if (const auto r = c.reals(1); r && r->size() == 1 && (*r)[0] >= 0 && (*r)[0] < 1e15)
    depth = static_cast<std::int64_t>((*r)[0]);
  if (depth.known() && depth.value() < 0) return bad_input(c, 1, "a depth of 0 or more");
  Shape y = x;
  y.insert(axis, depth);
  c.set(0, c.type(2).dtype, y);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::OneHot& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  FOLD8_TRY(const int axis, new_axis(op.axis, x.shape.rank()));
  const auto outer = static_cast<std::size_t>(x.shape.count(0, axis));
  const auto inner = static_cast<std::size_t>(x.shape.count(axis, x.shape.rank()));
  const std::int64_t depth = c.out(0).shape.extent(axis);
  const std::size_t size = size_of(c.out(0).dtype), total = count(c.out(0));
  return make_step([=, dtype = x.dtype](const RunContext& run) {
    const auto* values = in<std::byte>(run, 2);
    auto* y = out<std::byte>(run, 0);
    for (std::size_t i = 0; i < total; ++i) std::memcpy(y + i * size, values, size);
    for (std::size_t i = 0; i < outer * inner; ++i) {
      std::int64_t hot = number_at(run.inputs[0], dtype, i);
      if (hot < -depth || hot >= depth) continue;
      if (hot < 0) hot += depth;
      const std::size_t at =
          (i / inner * static_cast<std::size_t>(depth) + static_cast<std::size_t>(hot)) * inner +
          i % inner;
      std::memcpy(y + at * size, values + size, size);
    }
    return ok_status();
  });
}

}  // namespace fold8::ops
