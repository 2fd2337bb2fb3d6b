// Dynamic quantization: scales per token, or ONNX DynamicQuantizeLinear (one scale over
// everything).
#include "runtime/core/rotation.h"
#include "runtime/kernels/quantize.h"
#include "runtime/ops/each_op.h"

namespace fold8::ops {

Status infer_op(const graph::DynamicQuantize& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, op.onnx ? 1 : 2, 3));
  FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::f32}));
  const Shape& x = c.shape(0);
  c.set(0, DType::u8, x);
  if (op.onnx) {
    if (op.rotated) return invalid_model("DynamicQuantizeLinear does not rotate its input");
    c.set(1, DType::f32, Shape{});
    c.set(2, DType::u8, Shape{});
    return ok_status();
  }
  if (x.rank() < 1) return bad_input(c, 0, "rank 1 or more");
  if (op.rotated && x.back().known() && x.back().value() % kRotatedSegments != 0)
    return bad_input(c, 0, "rows of a multiple of 16 elements to rotate");
  if (c.has(1)) {
    FOLD8_CHECK_OK(expect_dtype(c, 1, {DType::f32}));
    const Dim d = x.back();
    const auto n = c.shape(1).elements();
    if (c.shape(1).rank() != 1 || (n && d.known() && *n != d.value()))
      return bad_input(c, 1, "a factor for each of the last axis of input 0, " + to_string(x));
  }
  if (!c.outputs[0].typed) c.outputs[0].type.quant = QuantParams::per_token();
  Shape s = x;
  s[x.rank() - 1] = Dim(1);
  c.set(1, DType::f32, s);
  return ok_status();
}

namespace {

Result<StepPtr> prepare_onnx(const PrepareContext& c) {
  return make_step(
      [n = count(c.type(0)), kernel = c.kernels->quantize](const RunContext& run) -> Status {
        float scale;
        std::int32_t zero;
        const float* x = in<float>(run, 0);
        if (!kernels::dynamic_quantize_params(x, n, &scale, &zero))
          return invalid_argument("a dynamically quantized tensor holds NaN or infinity");
        if (run.outputs[0] != nullptr)
          kernel({.outer = 1,
                  .channels = 1,
                  .inner = n,
                  .x = x,
                  .q = run.outputs[0],
                  .scales = &scale,
                  .zero_points = &zero});
        if (run.outputs.size() > 1 && run.outputs[1] != nullptr) *out<float>(run, 1) = scale;
        if (run.outputs.size() > 2 && run.outputs[2] != nullptr)
          *out<std::uint8_t>(run, 2) = static_cast<std::uint8_t>(zero);
        return ok_status();
      });
}

}  // namespace

Result<StepPtr> prepare_op(const graph::DynamicQuantize& op, const PrepareContext& c) {
  if (op.onnx) return prepare_onnx(c);
  const std::size_t cols = static_cast<std::size_t>(c.type(0).shape.back().value());
  const auto rows = static_cast<std::size_t>(c.type(0).shape.count(0, c.type(0).shape.rank() - 1));
  if (op.rotated && cols % kRotatedSegments != 0)
    return invalid_model("only rows of a multiple of 16 elements can be rotated");
  if (!c.wants(0) || !c.wants(1))
    return invalid_model("per-token quantization needs both its outputs");
  const std::size_t line = op.rotated ? round_up((cols + 16) * sizeof(float), kAlignment) : 0;
  return make_step(
      [rows, cols, line, scaled = c.has(1),
       kernel = c.kernels->quantize_rows](const RunContext& run) {
        parallel(run, rows, grain_for(2 * cols), [&](std::size_t b, std::size_t e, std::size_t p) {
          kernel({.rows = e - b,
                  .cols = cols,
                  .x = in<float>(run, 0) + b * cols,
                  .q = out<std::uint8_t>(run, 0) + b * cols,
                  .scales = out<float>(run, 1) + b,
                  .factors = scaled ? in<float>(run, 1) : nullptr,
                  .rotated = line != 0,
                  .scratch = reinterpret_cast<float*>(run.scratch + p * line)});
        });
        return ok_status();
      },
      line * static_cast<std::size_t>(std::max(c.threads, 1)));
}

}  // namespace fold8::ops
