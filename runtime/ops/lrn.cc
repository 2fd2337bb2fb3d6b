// ONNX LRN: y = x / (bias + alpha / size * sum of x^2 over a window of channels)^beta. The sum is
// one FMA chain, channels ascending; then d = fma(alpha / size, sum, bias), the power and the
// division by the kernels of binary.h.
#include "runtime/kernels/binary.h"

#include <cmath>

#include "runtime/ops/each_op.h"

namespace fold8::ops {

Status infer_op(const graph::Lrn& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  if (c.shape(0).rank() < 3) return bad_input(c, 0, "rank 3 or more");
  if (!c.type(0).quant) FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::f32}));
  if (op.size < 1) return invalid_model("size is " + std::to_string(op.size));
  c.set(0, DType::f32, c.shape(0));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Lrn& op, const PrepareContext& c) {
  const Shape& x = c.type(0).shape;
  const std::int64_t n = x.extent(0), channels = x.extent(1), pixels = x.count(2, x.rank());
  const std::int64_t before = (op.size - 1) / 2;
  const float factor = op.alpha / static_cast<float>(op.size);
  const auto total = static_cast<std::size_t>(n * channels * pixels);
  return make_step([=, op = op, kernel = c.kernels->binary](const RunContext& run) {
    const float* x0 = in<float>(run, 0);
    float* y = out<float>(run, 0);
    parallel(run, static_cast<std::size_t>(n * channels),
             grain_for(static_cast<std::size_t>(pixels * 8)),
             [&](std::size_t b, std::size_t e, std::size_t) {
               for (std::size_t i = b; i < e; ++i) {
                 const std::int64_t channel = static_cast<std::int64_t>(i) % channels,
                                    base = static_cast<std::int64_t>(i) - channel;
                 const std::int64_t first = std::max<std::int64_t>(0, channel - before);
                 const std::int64_t last = std::min(channels, channel + (op.size - before));
                 for (std::int64_t p = 0; p < pixels; ++p) {
                   float sum = 0;
                   for (std::int64_t k = first; k < last; ++k) {
                     const float v = x0[(base + k) * pixels + p];
                     sum = std::fma(v, v, sum);
                   }
                   y[static_cast<std::int64_t>(i) * pixels + p] = std::fma(factor, sum, op.bias);
                 }
               }
             });
    kernels::BinaryArgs args;
    args.rank = 1;
    args.shape[0] = total;
    args.end = total;
    args.kind = kernels::BinaryKind::pow;
    args.a.f32 = y;
    args.a.stride[0] = 1;
    args.b.f32 = &op.beta;
    args.y = y;
    kernel(args);
    args.kind = kernels::BinaryKind::div;
    args.a.f32 = x0;
    args.b.f32 = y;
    args.b.stride[0] = 1;
    kernel(args);
    return ok_status();
  });
}

}  // namespace fold8::ops
