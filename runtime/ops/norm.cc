// LayerNorm, RMSNorm, GroupNorm, InstanceNorm (kernels/norm.h): statistics in f32, whatever comes
// in or goes out.
#include "runtime/kernels/norm.h"

#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

using graph::NormKind;

enum Input : std::size_t { kX, kGamma, kBeta, kResidual, kMultiplier, kOffset, kRowScale, kInputs };
enum Output : std::size_t { kY, kSum, kScale, kQ, kOutputs };

bool by_rows(const graph::Norm& op) {
  return op.kind == NormKind::layer || op.kind == NormKind::rms;
}

Status expect_vector(const InferContext& c, std::size_t i, Dim want) {
  if (!c.has(i)) return ok_status();
  FOLD8_CHECK_OK(expect_dtype(c, i, {DType::f32}));
  const auto n = c.shape(i).elements();
  if (n && want.known() && *n != want.value())
    return bad_input(c, i, std::to_string(want.value()) + " elements");
  return ok_status();
}

Status infer_rows(const graph::Norm& op, InferContext& c) {
  const Shape& x = c.shape(kX);
  FOLD8_TRY(const int axis, checked_axis(op.axis, x.rank()));
  if (c.type(kX).dtype == DType::s32) {
    if (!c.has(kMultiplier))
      return invalid_model("accumulators (s32) are normalized without a multiplier (input 4)");
  } else if (!c.type(kX).quant) {
    FOLD8_CHECK_OK(expect_dtype(c, kX, {DType::f32}));
  }
  Dim cols(1);
  for (int a = axis; a < x.rank(); ++a) cols = cols * x[a];
  for (std::size_t i : {kGamma, kBeta, kMultiplier, kOffset})
    FOLD8_CHECK_OK(expect_vector(c, i, cols));
  if (c.has(kResidual)) {
    FOLD8_CHECK_OK(expect_dtype(c, kResidual, {DType::f32}));
    const auto y = broadcast(x, c.shape(kResidual));
    if (!y || c.shape(kResidual).rank() != x.rank())
      return bad_input(c, kResidual, "the shape of input 0, " + to_string(x));
  }
  c.set(kY, DType::f32, x);
  c.set(kSum, DType::f32, x);
  Shape s = x;
  s[x.rank() - 1] = Dim(1);
  c.set(kScale, DType::f32, s);
  c.set(kQ, DType::u8, x);
  return ok_status();
}

Status infer_channels(const graph::Norm& op, InferContext& c) {
  const Shape& x = c.shape(kX);
  if (x.rank() < 2) return bad_input(c, kX, "rank 2 or more");
  if (!c.type(kX).quant) FOLD8_CHECK_OK(expect_dtype(c, kX, {DType::f32}));
  if (op.kind == NormKind::group) {
    if (op.groups < 1) return invalid_model("groups is " + std::to_string(op.groups));
    if (x[1].known() && x[1].value() % op.groups != 0)
      return bad_input(c, kX, "channels that are a multiple of " + std::to_string(op.groups));
  }
  const Dim want = op.affine_per_group ? Dim(op.groups) : x[1];
  for (std::size_t i : {kGamma, kBeta}) FOLD8_CHECK_OK(expect_vector(c, i, want));
  for (std::size_t i = kResidual; i < kInputs; ++i)
    if (c.has(i)) return unsupported("input " + std::to_string(i) + " of a group or instance norm");
  c.set(kY, DType::f32, x);
  return ok_status();
}

const float* optional(const RunContext& run, std::size_t i) {
  return i < run.inputs.size() ? in<float>(run, i) : nullptr;
}
template <class T>
T* optional_out(const RunContext& run, std::size_t o) {
  return o < run.outputs.size() ? out<T>(run, o) : nullptr;
}

// What a norm writes: f32, codes, or both.
struct Written {
  kernels::NormOutput base;
  bool y = true;          // output 0 is f32
  std::size_t codes = 0;  // the output they go to

  // For rows [b, ..).
  kernels::NormOutput rows(const RunContext& run, std::size_t b, std::size_t cols) const {
    kernels::NormOutput o = base;
    if (y) o.y = out<float>(run, kY) + b * cols;
    if (o.quant == kernels::NormQuant::none) return o;
    o.q = out<std::uint8_t>(run, codes) + b * cols;
    if (o.quant == kernels::NormQuant::per_row) o.q_row_scale = out<float>(run, kScale) + b;
    return o;
  }
};

Result<Written> written(const PrepareContext& c) {
  Written w;
  w.y = c.out(kY).dtype == DType::f32;
  if (w.y && !c.wants(kQ)) return w;
  if (!w.y && c.wants(kQ)) return invalid_model("a norm with codes for output 0 has more of them");
  w.codes = w.y ? kQ : kY;
  const TensorType& q = c.out(w.codes);
  if (q.dtype != DType::u8 || !q.quant) return unsupported("a norm that yields " + describe(q));
  if (q.quant->granularity() == Granularity::per_token) {
    if (!c.wants(kScale))
      return invalid_model("a norm with per-token output lacks its scale output");
    w.base.quant = kernels::NormQuant::per_row;
    return w;
  }
  if (!q.quant->is_per_tensor()) return unsupported("a norm that yields " + describe(q));
  w.base.quant = kernels::NormQuant::fixed;
  w.base.q_scale = q.quant->scale();
  w.base.q_zero_point = q.quant->zero_point();
  return w;
}

Result<StepPtr> prepare_q8(const graph::Norm& op, const PrepareContext& c, std::size_t rows,
                           std::size_t cols, const Written& output) {
  kernels::NormRowsQ8Args args;
  args.kind = op.kind == NormKind::layer ? kernels::NormKind::layer : kernels::NormKind::rms;
  args.cols = cols;
  args.scale = c.type(kX).quant->scale();
  args.zero_point = c.type(kX).quant->zero_point();
  args.epsilon = op.epsilon;
  if (cols >= static_cast<std::size_t>(INT32_MAX) / 255)
    return unsupported("a norm over 8-bit rows of " + std::to_string(cols));
  return make_step([=, kernel = c.kernels->norm_rows_q8](const RunContext& run) {
    parallel(run, rows, grain_for(4 * cols), [&](std::size_t b, std::size_t e, std::size_t) {
      kernels::NormRowsQ8Args part = args;
      part.rows = e - b;
      part.x = in<std::uint8_t>(run, kX) + b * cols;
      part.gamma = optional(run, kGamma);
      part.beta = optional(run, kBeta);
      part.out = output.rows(run, b, cols);
      kernel(part);
    });
    return ok_status();
  });
}

Result<StepPtr> prepare_rows(const graph::Norm& op, const PrepareContext& c) {
  const TensorType& x = c.type(kX);
  FOLD8_TRY(const int axis, checked_axis(op.axis, x.shape.rank()));
  const auto rows = static_cast<std::size_t>(x.shape.count(0, axis));
  const auto cols = static_cast<std::size_t>(x.shape.count(axis, x.shape.rank()));
  FOLD8_TRY(const Written output, written(c));
  if (rows == 0 || cols == 0) return make_step([](const RunContext&) { return ok_status(); });
  if (output.base.quant == kernels::NormQuant::per_row && axis != x.shape.rank() - 1)
    return unsupported("a per-token output of a norm over more than the last axis");
  if (x.dtype == DType::u8) return prepare_q8(op, c, rows, cols, output);
  kernels::NormRowsArgs args;
  args.kind = op.kind == NormKind::layer ? kernels::NormKind::layer : kernels::NormKind::rms;
  args.cols = cols;
  args.epsilon = op.epsilon;
  const bool acc = x.dtype == DType::s32;
  const std::size_t line = round_up(cols * sizeof(float), kAlignment);
  return make_step(
      [=, kernel = c.kernels->norm_rows](const RunContext& run) {
        parallel(run, rows, grain_for(4 * cols), [&](std::size_t b, std::size_t e, std::size_t p) {
          kernels::NormRowsArgs part = args;
          part.rows = e - b;
          if (acc)
            part.acc = in<std::int32_t>(run, kX) + b * cols;
          else
            part.x = in<float>(run, kX) + b * cols;
          part.multiplier = acc ? optional(run, kMultiplier) : nullptr;
          part.offset = acc ? optional(run, kOffset) : nullptr;
          if (const float* s = optional(run, kRowScale); acc && s) part.row_scale = s + b;
          if (const float* r = optional(run, kResidual)) part.residual = r + b * cols;
          if (float* s = optional_out<float>(run, kSum)) part.sum_out = s + b * cols;
          part.gamma = optional(run, kGamma);
          part.beta = optional(run, kBeta);
          part.scratch = reinterpret_cast<float*>(run.scratch + p * line);
          part.out = output.rows(run, b, cols);
          kernel(part);
        });
        return ok_status();
      },
      line * static_cast<std::size_t>(std::max(c.threads, 1)));
}

Result<StepPtr> prepare_channels(const graph::Norm& op, const PrepareContext& c) {
  const TensorType& x = c.type(kX);
  FOLD8_TRY(const Written output, written(c));
  if (output.base.quant == kernels::NormQuant::per_row)
    return unsupported("a group norm with a per-token output");
  kernels::NormChannelsArgs args;
  args.n = 1;
  args.channels = static_cast<std::size_t>(x.shape.extent(1));
  args.spatial = static_cast<std::size_t>(x.shape.count(2, x.shape.rank()));
  args.groups = op.kind == NormKind::instance ? args.channels : static_cast<std::size_t>(op.groups);
  args.channels_last = x.layout == Layout::channels_last && x.shape.rank() >= 3;
  args.per_group = op.affine_per_group;
  args.epsilon = op.epsilon;
  args.q_scale = output.base.q_scale;
  args.q_zero_point = output.base.q_zero_point;
  const bool quantize = output.base.quant == kernels::NormQuant::fixed;
  const auto samples = static_cast<std::size_t>(x.shape.extent(0));
  const std::size_t plane = args.channels * args.spatial,
                    line = round_up(3 * args.channels * sizeof(float), kAlignment);
  if (samples * plane == 0) return make_step([](const RunContext&) { return ok_status(); });
  return make_step(
      [=, kernel = c.kernels->norm_channels](const RunContext& run) {
        parallel(run, samples, grain_for(4 * plane),
                 [&](std::size_t b, std::size_t e, std::size_t p) {
                   kernels::NormChannelsArgs part = args;
                   part.n = e - b;
                   part.x = in<float>(run, kX) + b * plane;
                   part.gamma = optional(run, kGamma);
                   part.beta = optional(run, kBeta);
                   if (quantize)
                     part.q = out<std::uint8_t>(run, kY) + b * plane;
                   else
                     part.y = out<float>(run, kY) + b * plane;
                   part.scratch = reinterpret_cast<float*>(run.scratch + p * line);
                   kernel(part);
                 });
        return ok_status();
      },
      line * static_cast<std::size_t>(std::max(c.threads, 1)));
}

}  // namespace

Status infer_op(const graph::Norm& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, kInputs, kOutputs));
  return by_rows(op) ? infer_rows(op, c) : infer_channels(op, c);
}

Result<StepPtr> prepare_op(const graph::Norm& op, const PrepareContext& c) {
  return by_rows(op) ? prepare_rows(op, c) : prepare_channels(op, c);
}

}  // namespace fold8::ops
