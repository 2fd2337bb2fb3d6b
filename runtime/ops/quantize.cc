// ONNX QuantizeLinear and DequantizeLinear (kernels/quantize.h). 8-bit types per tensor and per
// channel by the kernels; 16- and 4-bit types and blocked scales by plain loops over the same
// equations.
#include "runtime/kernels/quantize.h"

#include <cmath>

#include "runtime/ops/each_op.h"
#include "runtime/ops/quant_operands.h"

namespace fold8::ops {
namespace {

std::optional<kernels::QType> kernel_type(DType d) {
  if (d == DType::u8) return kernels::QType::u8;
  if (d == DType::s8) return kernels::QType::s8;
  if (d == DType::s32) return kernels::QType::s32;
  return std::nullopt;
}

struct CodeRange {
  float lo, hi;
};
std::optional<CodeRange> range_of(DType d) {
  switch (d) {
    case DType::u8:
      return CodeRange{0, 255};
    case DType::s8:
      return CodeRange{-128, 127};
    case DType::u16:
      return CodeRange{0, 65535};
    case DType::s16:
      return CodeRange{-32768, 32767};
    case DType::u4:
      return CodeRange{0, 15};
    case DType::s4:
      return CodeRange{-8, 7};
    default:
      return std::nullopt;
  }
}

std::size_t scale_index(const ScaleLayout& l, std::size_t element) {
  const ChannelBox& b = l.box;
  const std::size_t i = element % b.inner, c = element / b.inner % b.channels;
  if (l.block == 0) return c;
  const auto block = static_cast<std::size_t>(l.block);
  return (element / b.inner / b.channels * ((b.channels + block - 1) / block) + c / block) *
             b.inner +
         i;
}

Status check_scale_operands(const InferContext& c) {
  if (c.has(2) && !c.has(1)) return invalid_model("a zero point is given without a scale");
  if (c.has(1)) FOLD8_CHECK_OK(expect_dtype(c, 1, {DType::f32}));
  return ok_status();
}

Result<StepPtr> quantize_loop(const PrepareContext& c, QuantSource source) {
  const auto range = range_of(c.out(0).dtype);
  if (!range) return unsupported("quantizing to " + std::string(name(c.out(0).dtype)));
  const std::size_t scratch = source.scratch_bytes(), n = count(c.out(0));
  return make_step(
      [=, source = std::move(source), dtype = c.out(0).dtype](const RunContext& run) {
        const float* scales = source.scales(run);
        const std::int32_t* zeros =
            source.zero_points(run, reinterpret_cast<std::int32_t*>(run.scratch));
        with_number_type(dtype, [&]<class T>() {
          for (std::size_t i = 0; i < n; ++i) {
            const std::size_t k = scale_index(source.layout(), i);
            const float z = zeros ? static_cast<float>(zeros[k]) : 0.0f,
                        r = in<float>(run, 0)[i] / scales[k];
            const float q =
                r != r ? 0.0f : std::rint(std::min(std::max(r, range->lo - z), range->hi - z));
            out<T>(run, 0)[i] = static_cast<T>(static_cast<std::int32_t>(q + z));
          }
        });
        return ok_status();
      },
      scratch);
}

Result<StepPtr> dequantize_loop(const PrepareContext& c, QuantSource source) {
  if (!range_of(c.type(0).dtype) && c.type(0).dtype != DType::s32)
    return unsupported("dequantizing " + std::string(name(c.type(0).dtype)));
  const std::size_t scratch = source.scratch_bytes(), n = count(c.type(0));
  return make_step(
      [=, source = std::move(source), dtype = c.type(0).dtype](const RunContext& run) {
        const float* scales = source.scales(run);
        const std::int32_t* zeros =
            source.zero_points(run, reinterpret_cast<std::int32_t*>(run.scratch));
        with_number_type(dtype, [&]<class T>() {
          for (std::size_t i = 0; i < n; ++i) {
            const std::size_t k = scale_index(source.layout(), i);
            const auto q = static_cast<std::int64_t>(in<T>(run, 0)[i]) - (zeros ? zeros[k] : 0);
            out<float>(run, 0)[i] = static_cast<float>(q) * scales[k];
          }
        });
        return ok_status();
      },
      scratch);
}

}  // namespace

Status infer_op(const graph::Quantize&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 3));
  FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::f32}));
  FOLD8_CHECK_OK(check_scale_operands(c));
  if (!c.has(1) && !c.outputs[0].type.quant)
    return invalid_model("neither a scale operand nor parameters in the output's type");
  c.set(0, c.has(2) ? c.type(2).dtype : DType::u8, c.shape(0));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Quantize& op, const PrepareContext& c) {
  FOLD8_TRY(QuantSource source, QuantSource::make(c, c.out(0), op.axis, op.block_size));
  const auto type = kernel_type(c.out(0).dtype);
  if (!type || *type == kernels::QType::s32 || source.layout().block > 0)
    return quantize_loop(c, std::move(source));
  const std::size_t scratch = source.scratch_bytes();
  return make_step(
      [source = std::move(source), type = *type,
       kernel = c.kernels->quantize](const RunContext& run) {
        const ChannelBox& b = source.layout().box;
        kernels::QuantizeArgs args{
            .type = type, .outer = b.outer, .channels = b.channels, .inner = b.inner};
        args.scales = source.scales(run);
        args.zero_points = source.zero_points(run, reinterpret_cast<std::int32_t*>(run.scratch));
        const bool flat = b.channels == 1 && b.outer == 1;
        const std::size_t plane = b.channels * b.inner;
        parallel(run, flat ? b.inner : b.outer, grain_for(flat ? 2 : plane),
                 [&](std::size_t begin, std::size_t end, std::size_t) {
                   kernels::QuantizeArgs part = args;
                   (flat ? part.inner : part.outer) = end - begin;
                   const std::size_t at = flat ? begin : begin * plane;
                   part.x = in<float>(run, 0) + at;
                   part.q = out<std::uint8_t>(run, 0) + at;
                   kernel(part);
                 });
        return ok_status();
      },
      scratch);
}

Status infer_op(const graph::Dequantize&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 3));
  FOLD8_CHECK_OK(check_scale_operands(c));
  if (!is_integer(c.type(0).dtype)) return bad_input(c, 0, "integers");
  if (!c.has(1) && !c.type(0).quant)
    return bad_input(c, 0, "quantization parameters in its type, or a scale operand");
  c.set(0, DType::f32, c.shape(0));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Dequantize& op, const PrepareContext& c) {
  FOLD8_TRY(QuantSource source, QuantSource::make(c, c.type(0), op.axis, op.block_size));
  const auto type = kernel_type(c.type(0).dtype);
  if (!type || source.layout().block > 0) return dequantize_loop(c, std::move(source));
  const std::size_t scratch = source.scratch_bytes(), size = size_of(c.type(0).dtype);
  return make_step(
      [source = std::move(source), type = *type, size,
       kernel = c.kernels->dequantize](const RunContext& run) {
        const ChannelBox& b = source.layout().box;
        kernels::DequantizeArgs args{
            .type = type, .outer = b.outer, .channels = b.channels, .inner = b.inner};
        args.scales = source.scales(run);
        args.zero_points = source.zero_points(run, reinterpret_cast<std::int32_t*>(run.scratch));
        const bool flat = b.channels == 1 && b.outer == 1;
        const std::size_t plane = b.channels * b.inner;
        parallel(run, flat ? b.inner : b.outer, grain_for(flat ? 2 : plane),
                 [&](std::size_t begin, std::size_t end, std::size_t) {
                   kernels::DequantizeArgs part = args;
                   (flat ? part.inner : part.outer) = end - begin;
                   const std::size_t at = flat ? begin : begin * plane;
                   part.q = in<std::byte>(run, 0) + at * size;
                   part.y = out<float>(run, 0) + at;
                   kernel(part);
                 });
        return ok_status();
      },
      scratch);
}

}  // namespace fold8::ops
