// The same values in another layout: the output's type says which. An f32 input may become u8 on
// the way (the output's type has the scale and zero point): Quantize and Relayout in one pass.
#include "runtime/ops/relayout.h"
#include "runtime/kernels/quantize.h"
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

namespace {

bool quantizes(const TensorType& x, const TensorType& y) {
  return x.dtype == DType::f32 && y.dtype == DType::u8 && y.quant && y.quant->is_per_tensor();
}

Result<StepPtr> quantizing_step(const PrepareContext& c) {
  const TensorType& x = c.type(0);
  const TensorType& y = c.out(0);
  kernels::QuantizeRelayoutArgs args;
  args.scale = y.quant->scale();
  args.zero_point = y.quant->zero_point();
  if (same_order(x.shape, x.layout, y.layout) || x.shape.count() == 0) {
    args.pixels = count(x);  // one channel
  } else if (x.layout == Layout::plain) {
    args.batch = static_cast<std::size_t>(x.shape.extent(0));
    args.channels = static_cast<std::size_t>(x.shape.extent(1));
    args.pixels = static_cast<std::size_t>(x.shape.count(2, x.shape.rank()));
  } else {
    return unsupported("a relayout from " + describe(x) + " to " + describe(y));
  }
  return make_step([args, kernel = c.kernels->quantize_relayout](const RunContext& run) {
    parallel(run, args.batch * args.pixels, grain_for(2 * args.channels),
             [&](std::size_t b, std::size_t e, std::size_t) {
               kernels::QuantizeRelayoutArgs part = args;
               part.x = in<float>(run, 0);
               part.q = out<std::uint8_t>(run, 0);
               part.begin = b;
               part.end = e;
               kernel(part);
             });
    return ok_status();
  });
}

}  // namespace

Status infer_op(const graph::Relayout&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  const auto activation = [](Layout l) { return l == Layout::plain || l == Layout::channels_last; };
  if (!activation(c.type(0).layout) || !activation(c.outputs[0].type.layout))
    return unsupported("a relayout between packed weights");
  if (quantizes(c.type(0), c.outputs[0].type))
    c.set(0, DType::u8, c.shape(0));
  else
    set_like(c, 0, 0, c.shape(0));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Relayout&, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  if (quantizes(x, c.out(0))) return quantizing_step(c);
  const RelayoutPlan plan =
      make_relayout(x.shape, x.layout, c.out(0).layout, size_of(x.dtype), c.kernels->transpose);
  return make_step([plan](const RunContext& run) {
    plan.run(run, run.inputs[0], run.outputs[0]);
    return ok_status();
  });
}

}  // namespace fold8::ops
