// The same values in another layout: the output's type says which.
#include "runtime/ops/relayout.h"
#include "runtime/kernels/transpose.h"
#include "runtime/ops/each_op.h"
#include "runtime/ops/strided_copy.h"

namespace fold8::ops {

RelayoutPlan make_relayout(const Shape& shape, Layout from, Layout to, std::size_t element,
                           kernels::transpose_fn* kernel) {
  RelayoutPlan r;
  r.kernel = kernel;
  r.bytes = static_cast<std::size_t>(shape.count()) * element;
  r.copy = same_order(shape, from, to) || r.bytes == 0;
  if (r.copy) return r;
  const auto n = static_cast<std::size_t>(shape.extent(0)),
             c = static_cast<std::size_t>(shape.extent(1));
  const auto pixels = static_cast<std::size_t>(shape.count(2, shape.rank()));
  r.plan = to == Layout::channels_last ? kernels::to_channels_last(n, c, pixels, element)
                                       : kernels::to_channels_first(n, c, pixels, element);
  return r;
}

void RelayoutPlan::run(const RunContext& run, const void* x, void* y) const {
  if (copy) {
    if (bytes > 0 && x != y) std::memcpy(y, x, bytes);
    return;
  }
  const std::size_t lines = plan.extent[0];
  parallel(run, lines, grain_for(bytes / 4 / lines),
           [&](std::size_t b, std::size_t e, std::size_t) {
             kernels::TransposeArgs args;
             args.plan = plan;
             args.x = x;
             args.y = y;
             args.begin = b;
             args.end = e;
             kernel(args);
           });
}

Status infer_op(const graph::Relayout&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  const auto activation = [](Layout l) { return l == Layout::plain || l == Layout::channels_last; };
  if (!activation(c.type(0).layout) || !activation(c.outputs[0].type.layout))
    return unsupported("a relayout between packed weights");
  set_like(c, 0, 0, c.shape(0));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Relayout&, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  const RelayoutPlan plan =
      make_relayout(x.shape, x.layout, c.out(0).layout, size_of(x.dtype), c.kernels->transpose);
  return make_step([plan](const RunContext& run) {
    plan.run(run, run.inputs[0], run.outputs[0]);
    return ok_status();
  });
}

}  // namespace fold8::ops
