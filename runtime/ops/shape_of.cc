// ONNX Shape (extents [start, end)) and Size: known from the type alone.
#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

std::pair<int, int> bounds(const graph::ShapeOf& op, int rank) {
  const auto clamp = [rank](std::int64_t v) {
    if (v < 0) v = v < -rank ? 0 : v + rank;
    return static_cast<int>(std::clamp<std::int64_t>(v, 0, rank));
  };
  const int start = clamp(op.start), end = clamp(op.end);
  return {start, std::max(start, end)};
}

}  // namespace

Status infer_op(const graph::ShapeOf& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  const Shape& x = c.shape(0);
  const auto [start, end] = bounds(op, x.rank());
  c.set(0, DType::s64, Shape{Dim(end - start)});
  KnownInts k;
  for (int a = start; a < end; ++a) k.values.push_back(x[a]);
  set_known(c, std::move(k));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::ShapeOf& op, const PrepareContext& c) {
  const Shape x = c.type(0).shape;
  const auto [start, end] = bounds(op, x.rank());
  return make_step([x, start = start, end = end](const RunContext& run) {
    for (int a = start; a < end; ++a) out<std::int64_t>(run, 0)[a - start] = x.extent(a);
    return ok_status();
  });
}

Status infer_op(const graph::SizeOf&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  c.set(0, DType::s64, Shape{});
  Dim n(1);
  for (Dim d : c.shape(0).dims()) n = n * d;
  KnownInts k;
  k.values.push_back(n);
  set_known(c, std::move(k));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::SizeOf&, const PrepareContext& c) {
  const std::int64_t n = c.type(0).shape.count();
  return make_step([n](const RunContext& run) {
    *out<std::int64_t>(run, 0) = n;
    return ok_status();
  });
}

}  // namespace fold8::ops
