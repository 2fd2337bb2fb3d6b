// ONNX Softmax and LogSoftmax along an axis (kernels/softmax.h).
#include "runtime/kernels/softmax.h"
#include "runtime/ops/each_op.h"

namespace fold8::ops {

Status infer_op(const graph::Softmax& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  if (!c.type(0).quant) FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::f32}));
  const int rank = c.shape(0).rank();
  if (rank > 0 || (op.axis != 0 && op.axis != -1)) {
    FOLD8_TRY([[maybe_unused]] const int axis, checked_axis(op.axis, rank));
  }
  c.set(0, DType::f32, c.shape(0));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Softmax& op, const PrepareContext& c) {
  const Shape& x = c.type(0).shape;
  kernels::SoftmaxArgs args;
  args.log = op.log;
  args.axis = 1;
  if (x.rank() > 0) {
    FOLD8_TRY(const int axis, checked_axis(op.axis, x.rank()));
    args.outer = static_cast<std::size_t>(x.count(0, axis));
    args.axis = static_cast<std::size_t>(op.flatten ? x.count(axis, x.rank()) : x.extent(axis));
    args.inner = static_cast<std::size_t>(op.flatten ? 1 : x.count(axis + 1, x.rank()));
  }
  if (count(c.type(0)) == 0) return make_step([](const RunContext&) { return ok_status(); });
  return make_step([args, kernel = c.kernels->softmax](const RunContext& run) {
    const std::size_t plane = args.axis * args.inner;
    parallel(run, args.outer, grain_for(8 * plane), [&](std::size_t b, std::size_t e, std::size_t) {
      kernels::SoftmaxArgs part = args;
      part.outer = e - b;
      part.x = in<float>(run, 0) + b * plane;
      part.y = out<float>(run, 0) + b * plane;
      kernel(part);
    });
    return ok_status();
  });
}

}  // namespace fold8::ops
