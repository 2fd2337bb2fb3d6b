// ONNX Trilu: keeps column j of row i where j - i >= k (upper) or j - i <= k (lower), zeros
// elsewhere.
#include "runtime/ops/each_op.h"

namespace fold8::ops {

Status infer_op(const graph::Trilu&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 2));
  if (c.shape(0).rank() < 2) return bad_input(c, 0, "rank 2 or more");
  if (c.has(1)) {
    FOLD8_CHECK_OK(expect_dtype(c, 1, {DType::s64}));
    if (c.shape(1).known() && c.shape(1).count() != 1) return bad_input(c, 1, "one element");
  }
  set_like(c, 0, 0, c.shape(0));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Trilu& op, const PrepareContext& c) {
  const Shape& x = c.type(0).shape;
  const std::int64_t columns = x.extent(x.rank() - 1), rows = x.extent(x.rank() - 2);
  const auto matrices = static_cast<std::size_t>(x.count(0, x.rank() - 2));
  const auto size = static_cast<std::int64_t>(size_of(c.type(0).dtype));
  return make_step([=, upper = op.upper](const RunContext& run) {
    const auto* given = run.inputs.size() > 1 ? in<std::int64_t>(run, 1) : nullptr;
    const std::int64_t k = given ? std::clamp(*given, -rows, columns) : 0;
    for (std::size_t i = 0; i < matrices * static_cast<std::size_t>(rows); ++i) {
      const std::int64_t row = static_cast<std::int64_t>(i) % rows;
      const std::int64_t edge = std::clamp<std::int64_t>(upper ? row + k : row + k + 1, 0, columns);
      const std::byte* x0 = in<std::byte>(run, 0) + static_cast<std::int64_t>(i) * columns * size;
      std::byte* y0 = out<std::byte>(run, 0) + static_cast<std::int64_t>(i) * columns * size;
      const auto left = static_cast<std::size_t>(edge * size),
                 right = static_cast<std::size_t>((columns - edge) * size);
      if (y0 != x0) std::memcpy(y0, x0, left + right);
      std::memset(upper ? y0 : y0 + left, 0, upper ? left : right);
    }
    return ok_status();
  });
}

}  // namespace fold8::ops
