#include "runtime/ops/epilogue_plan.h"

namespace fold8::ops {
namespace {

constexpr std::size_t kPad = 16;  // kernels may load whole vectors of 16

float divided(float v, double by) { return static_cast<float>(static_cast<double>(v) / by); }

Status set_output(kernels::Epilogue& e, const TensorType& y, bool integer) {
  if (y.dtype == DType::f32) {
    e.output_kind = kernels::OutputKind::f32;
  } else if (y.dtype == DType::s32 && integer) {
    e.output_kind = kernels::OutputKind::s32;
  } else if (y.dtype == DType::u8 && y.quant && y.quant->is_per_tensor()) {
    e.output_kind = kernels::OutputKind::u8;
    e.y_zero_point = y.quant->zero_point();
  } else {
    return unsupported("an output of type " + describe(y));
  }
  return ok_status();
}

}  // namespace

Result<EpiloguePlan> EpiloguePlan::make(const PrepareContext& c, const EpilogueSpec& spec) {
  EpiloguePlan p;
  const TensorType& x = c.type(0);
  const TensorType& y = c.out(0);
  kernels::Epilogue& e = p.base_;
  FOLD8_CHECK_OK(set_output(e, y, spec.integer));
  p.columns_ = spec.columns;
  p.bias_ = spec.bias;
  p.residual_ = spec.residual;
  p.row_scale_ = spec.row_scale;
  const bool per_token = x.quant && x.quant->granularity() == Granularity::per_token;
  const bool folds = spec.activation == Activation::none || spec.activation == Activation::clip;
  const bool u8 = e.output_kind == kernels::OutputKind::u8;
  const double sy = u8 ? static_cast<double>(y.quant->scale()) : 1.0;
  const bool scaled = u8 && spec.integer && !per_token && folds;  // everything is in units of s_y
  p.divisor_ = scaled ? sy : 1.0;
  if (u8 && !scaled) e.y_divisor = y.quant->scale();
  if (spec.integer) {
    if (per_token && !c.has(spec.row_scale))
      return invalid_model("input 0 has scales per token, but input " +
                           std::to_string(spec.row_scale) + ", the scales, is missing");
    const double sx = x.quant && !per_token ? static_cast<double>(x.quant->scale()) : 1.0;
    p.multiplier_.assign(round_up(spec.columns, kPad), 0.0f);
    for (std::size_t i = 0; i < spec.columns; ++i) {
      const float sw = (*spec.weight_scales)[i];
      p.multiplier_[i] =
          per_token ? sw : static_cast<float>(sx * static_cast<double>(sw) / p.divisor_);
    }
    p.has_row_scale_ = per_token;
  }
  if (c.has(spec.bias)) {
    p.computed_bias_ = c.inputs[spec.bias].constant == nullptr;
    p.offset_.assign(round_up(spec.columns, kPad), 0.0f);
    const auto* b = static_cast<const float*>(c.inputs[spec.bias].constant);
    for (std::size_t i = 0; b != nullptr && i < spec.columns; ++i)
      p.offset_[i] = divided(b[i], p.divisor_);
  }
  if (c.has(spec.residual)) {
    const TensorType& r = c.type(spec.residual);
    p.has_residual_ = true;
    if (r.dtype == DType::f32) {
      e.residual_kind = kernels::ResidualKind::f32;
      e.residual_scale = divided(1.0f, p.divisor_);
    } else if (r.dtype == DType::u8 && r.quant && r.quant->is_per_tensor()) {
      e.residual_kind = kernels::ResidualKind::u8;
      e.residual_scale = divided(r.quant->scale(), p.divisor_);
      e.residual_zero_point = r.quant->zero_point();
    } else {
      return unsupported("a residual of type " + describe(r));
    }
    if (r.shape.count() != y.shape.count())
      return invalid_model("the residual is " + describe(r) + ", the output " + describe(y));
  }
  const bool bounds = scaled && spec.activation == Activation::clip;
  e.activation = spec.activation;
  e.a = bounds ? divided(spec.a, sy) : spec.a;
  e.b = bounds ? divided(spec.b, sy) : spec.b;
  e.residual_stride = e.y_stride = spec.columns;
  return p;
}

std::size_t EpiloguePlan::scratch_bytes() const {
  return computed_bias_ ? round_up(round_up(columns_, kPad) * sizeof(float), kAlignment) : 0;
}

kernels::Epilogue EpiloguePlan::bind(const RunContext& run, std::byte* scratch) const {
  kernels::Epilogue e = base_;
  e.multiplier = multiplier_.empty() ? nullptr : multiplier_.data();
  if (computed_bias_) {
    auto* offset = reinterpret_cast<float*>(scratch);
    std::fill_n(offset, round_up(columns_, kPad), 0.0f);
    for (std::size_t i = 0; i < columns_; ++i)
      offset[i] = divided(in<float>(run, bias_)[i], divisor_);
    e.offset = offset;
  } else if (!offset_.empty()) {
    e.offset = offset_.data();
  }
  if (has_row_scale_) e.row_scale = in<float>(run, row_scale_);
  if (has_residual_) e.residual = run.inputs[residual_];
  e.y = run.outputs[0];
  return e;
}

}  // namespace fold8::ops
