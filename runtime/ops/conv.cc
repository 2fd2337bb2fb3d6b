// ONNX Conv and ConvTranspose, 1 to 3 spatial axes: f32 and INT8, over channels_last activations
// (the dispatcher converts plain ones).
#include "runtime/kernels/conv_f32.h"
#include "runtime/kernels/conv_u8s8.h"
#include "runtime/kernels/depthwise_f32.h"
#include "runtime/kernels/depthwise_u8s8.h"
#include "runtime/ops/conv_geometry.h"
#include "runtime/ops/each_op.h"
#include "runtime/ops/matrix_steps.h"

namespace fold8::ops {
namespace {

bool integer_x(const TensorType& x) { return x.dtype == DType::u8 || x.dtype == DType::s8; }

Status check_channels(const graph::Conv& op, const InferContext& c) {
  const Shape& x = c.shape(0);
  const Shape& w = c.shape(1);
  if (op.group < 1) return invalid_model("group is " + std::to_string(op.group));
  const Dim want = op.transposed ? w[0] : w[1] * Dim(op.group);
  if (differ(x[1], want))
    return bad_input(c, 0,
                     std::to_string(want.value()) + " channels, as the weight " + to_string(w) +
                         " with group " + std::to_string(op.group) + " has");
  if (w[0].known() && w[0].value() % op.group != 0)
    return bad_input(c, 1,
                     "a first extent that is a multiple of group " + std::to_string(op.group));
  for (int a = 2; a < w.rank(); ++a) {
    const auto i = static_cast<std::size_t>(a - 2);
    if (!op.kernel.empty() && w[a].known() &&
        (op.kernel.size() != static_cast<std::size_t>(w.rank() - 2) ||
         op.kernel[i] != w[a].value()))
      return bad_input(c, 1, "the kernel the operator names at axis " + std::to_string(a));
  }
  return ok_status();
}

}  // namespace

Status infer_op(const graph::Conv& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 4));
  FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::f32, DType::u8, DType::s8}));
  FOLD8_CHECK_OK(expect_dtype(c, 1, {DType::f32, DType::u8, DType::s8}));
  const Shape& x = c.shape(0);
  const Shape& w = c.shape(1);
  if (x.rank() < 3 || x.rank() > 5) return bad_input(c, 0, "rank 3 to 5, [N, C, spatial..]");
  if (w.rank() != x.rank())
    return bad_input(c, 1, "rank " + std::to_string(x.rank()) + " as input 0");
  if (integer_x(c.type(0)) && c.type(1).dtype == DType::f32)
    return bad_input(c, 1, "INT8 elements for an INT8 input 0");
  FOLD8_CHECK_OK(check_channels(op, c));
  FOLD8_TRY(const Shape y, conv_output_shape(op, x, w));
  if (c.has(2)) {
    FOLD8_CHECK_OK(expect_dtype(c, 2, {DType::f32}));
    const auto n = c.shape(2).elements();
    if (c.shape(2).rank() != 1 || (n && y[1].known() && *n != y[1].value()))
      return bad_input(c, 2, y[1].known() ? "[" + std::to_string(y[1].value()) + "]" : "rank 1");
  }
  if (c.has(3)) {
    const Shape& r = c.shape(3);
    bool fits = r.rank() == y.rank();
    for (int a = 0; fits && a < r.rank(); ++a) fits = !differ(r[a], y[a]);
    if (!fits) return bad_input(c, 3, "the shape of the output, " + to_string(y));
  }
  c.set(0, DType::f32, y);
  return ok_status();
}

namespace {

bool pointwise(const kernels::ConvShape& s) {
  bool plain = s.groups == 1 && !s.transposed && kernels::conv_taps(s) == 1;
  for (int i = 0; i < 3; ++i)
    plain = plain && s.stride[i] == 1 && s.pad_begin[i] == 0 && s.in[i] == s.out[i];
  return plain;
}

double macs_of(const kernels::ConvShape& s) {
  const double rows = static_cast<double>(s.transposed ? s.batch * s.in[0] * s.in[1] * s.in[2]
                                                       : kernels::conv_rows(s));
  return rows * static_cast<double>(kernels::conv_taps(s)) * static_cast<double>(s.out_channels) *
         static_cast<double>(s.in_channels / s.groups);
}

std::size_t row_grain(const kernels::ConvShape& s, std::size_t grain) {
  const double each = macs_of(s) / std::max(1.0, static_cast<double>(kernels::conv_rows(s)));
  return std::max<std::size_t>(
      1, static_cast<std::size_t>(static_cast<double>(grain) / std::max(1.0, each)));
}

Result<StepPtr> f32_step(const PrepareContext& c, const kernels::ConvShape& s, Weight weight,
                         EpiloguePlan epilogue) {
  const std::size_t offsets = epilogue.scratch_bytes(),
                    rows = static_cast<std::size_t>(kernels::conv_rows(s));
  const auto x_stride = static_cast<std::size_t>(s.in_channels);
  if (weight.type->layout == Layout::depthwise_f32) {
    return make_step(
        [=, weight = std::move(weight), epilogue = std::move(epilogue),
         kernel = c.kernels->depthwise_f32](const RunContext& run) {
          kernels::DepthwiseF32Args args{.shape = s,
                                         .x = in<float>(run, 0),
                                         .x_stride = x_stride,
                                         .w = reinterpret_cast<const float*>(weight.data)};
          args.epilogue = epilogue.bind(run, run.scratch);
          parallel(run, rows, row_grain(s, kGrainF32 / 4),
                   [&](std::size_t b, std::size_t e, std::size_t) {
                     kernels::DepthwiseF32Args part = args;
                     part.row_begin = b;
                     part.row_end = e;
                     kernel(part);
                   });
          return ok_status();
        },
        offsets, macs_of(s));
  }
  const std::size_t call = round_up(kernels::conv_f32_scratch_bytes(s), kAlignment),
                    panels = kernels::conv_f32_panels(s);
  return make_step(
      [=, weight = std::move(weight), epilogue = std::move(epilogue),
       kernel = c.kernels->conv_f32](const RunContext& run) {
        kernels::ConvF32Args args{.shape = s,
                                  .x = in<float>(run, 0),
                                  .x_stride = x_stride,
                                  .w = reinterpret_cast<const float*>(weight.data)};
        args.epilogue = epilogue.bind(run, run.scratch);
        split_matrix(
            run, rows, panels, static_cast<std::size_t>(macs_of(s)), kGrainF32,
            [&](std::size_t rb, std::size_t re, std::size_t pb, std::size_t pe, std::size_t p) {
              kernels::ConvF32Args part = part_of(args, rb, re, pb, pe);
              part.scratch = run.scratch + offsets + p * call;
              kernel(part);
            });
        return ok_status();
      },
      offsets + call * static_cast<std::size_t>(std::max(c.threads, 1)), macs_of(s));
}

Result<StepPtr> u8s8_step(const PrepareContext& c, const kernels::ConvShape& s, Weight weight,
                          std::vector<std::int32_t> zeros, EpiloguePlan epilogue) {
  const std::size_t offsets = epilogue.scratch_bytes(),
                    rows = static_cast<std::size_t>(kernels::conv_rows(s));
  const std::size_t call = round_up(kernels::conv_u8s8_scratch_bytes(s), kAlignment);
  auto* kernel = weight.type->layout == Layout::depthwise_s8 ? c.kernels->depthwise_u8s8
                                                             : c.kernels->conv_u8s8;
  const std::int32_t zero = c.type(0).quant ? c.type(0).quant->zero_point() : 0;
  if (!zeros.empty()) zeros.resize(round_up(zeros.size(), 16));
  return make_step(
      [=, weight = std::move(weight), epilogue = std::move(epilogue),
       zeros = std::move(zeros)](const RunContext& run) {
        kernels::ConvU8S8Args args{.shape = s,
                                   .x = in<std::uint8_t>(run, 0),
                                   .x_zero_point = zero,
                                   .w = reinterpret_cast<const std::int8_t*>(weight.data)};
        args.w_zero_points = zeros.empty() ? nullptr : zeros.data();
        args.epilogue = epilogue.bind(run, run.scratch);
        parallel(run, rows, row_grain(s, kGrainS8 / 2),
                 [&](std::size_t b, std::size_t e, std::size_t p) {
                   kernels::ConvU8S8Args part = args;
                   part.row_begin = static_cast<std::int64_t>(b);
                   part.row_end = static_cast<std::int64_t>(e);
                   part.scratch = run.scratch + offsets + p * call;
                   kernel(part);
                 });
        return ok_status();
      },
      offsets + call * static_cast<std::size_t>(std::max(c.threads, 1)), macs_of(s));
}

}  // namespace

Result<StepPtr> prepare_op(const graph::Conv& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  const TensorType& w = c.type(1);
  const void* data = c.inputs[1].constant;
  if (data == nullptr) return unsupported("a convolution whose weight is computed");
  if (c.out(0).shape.count() == 0) return make_step([](const RunContext&) { return ok_status(); });
  FOLD8_TRY(const kernels::ConvShape s, conv_shape(op, x.shape, w.shape, c.out(0).shape));
  const auto columns = static_cast<std::size_t>(s.out_channels),
             depth = static_cast<std::size_t>(s.in_channels);
  EpilogueSpec spec{
      .columns = columns, .activation = op.activation, .a = op.a, .b = op.b, .shift = op.shift};
  spec.row_scale = SIZE_MAX;
  const MatrixBatch rows{static_cast<std::size_t>(kernels::conv_rows(s)), columns, depth, {0}, {0}};
  if (!integer_x(x)) {
    FOLD8_TRY(EpiloguePlan epilogue, EpiloguePlan::make(c, spec));
    FOLD8_TRY(Weight weight, packed_f32_operand(op, c));
    if (pointwise(s) && weight.type->layout == Layout::packed_f32)
      return gemm_f32_step(c, rows, std::move(weight), std::move(epilogue));
    return f32_step(c, s, std::move(weight), std::move(epilogue));
  }
  if (x.quant && !x.quant->is_per_tensor()) return unsupported("a convolution of " + describe(x));
  Weight weight(w, data);
  if (w.layout == Layout::plain) {
    FOLD8_TRY(PackedWeight packed, pack_conv_weight(s, w, data));
    weight = Weight(std::make_shared<const PackedWeight>(std::move(packed)));
  }
  FOLD8_TRY(ColumnParams params, column_params(*weight.type, op.transposed ? 1 : 0, columns));
  spec.integer = true;
  spec.weight_scales = params.scales;
  FOLD8_TRY(EpiloguePlan epilogue, EpiloguePlan::make(c, spec));
  if (pointwise(s) && weight.type->layout == Layout::packed_s8)
    return gemm_u8s8_step(c, rows, std::move(weight), std::move(params.zero_points),
                          std::move(epilogue));
  return u8s8_step(c, s, std::move(weight), std::move(params.zero_points), std::move(epilogue));
}

}  // namespace fold8::ops
