#include "runtime/ops/epilogue_plan.h"

#include <cstdlib>

namespace fold8::ops {
namespace {

constexpr std::int64_t kMostShift = 16384;  // kernels add zero points to 16-bit numbers
constexpr std::size_t kPad = 16;            // kernels may load whole vectors of 16

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

// Multipliers and offsets, padded to whole vectors, and what they were computed from: constants of
// a graph stay where they are, so their addresses stand for their numbers.
struct EpiloguePlan::Columns {
  struct Source {
    const void *scales = nullptr, *bias = nullptr;
    std::size_t scale_count = 0, columns = 0;
    double x_scale = 1, divisor = 1;
    bool per_token = false;
    friend bool operator==(const Source&, const Source&) = default;
  };
  Source source;
  std::vector<float> multiplier, offset;
};

Result<EpiloguePlan> EpiloguePlan::make(const PrepareContext& c, const EpilogueSpec& spec) {
  EpiloguePlan p;
  const TensorType& x = c.type(0);
  const TensorType& y = c.out(0);
  kernels::Epilogue& e = p.base_;
  FOLD8_CHECK_OK(set_output(e, y, spec.integer));
  if (spec.shift != 0) {
    // act(r) / s + shift + z: for what happens to the codes, another zero point.
    if (e.output_kind != kernels::OutputKind::u8 || std::abs(spec.shift) > kMostShift)
      return unsupported("a shift of " + std::to_string(spec.shift) + " codes of " + describe(y));
    e.y_zero_point += static_cast<std::int32_t>(spec.shift);
  }
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
  FOLD8_CHECK_OK(p.set_columns(c, spec, per_token));
  FOLD8_CHECK_OK(p.set_residual(c));
  const bool bounds = scaled && spec.activation == Activation::clip;
  e.activation = spec.activation;
  e.a = bounds ? divided(spec.a, sy) : spec.a;
  e.b = bounds ? divided(spec.b, sy) : spec.b;
  e.residual_stride = e.y_stride = spec.columns;
  return p;
}

Status EpiloguePlan::set_columns(const PrepareContext& c, const EpilogueSpec& spec,
                                 bool per_token) {
  const auto& quant = c.type(0).quant;
  const bool has_bias = c.has(spec.bias);
  Columns::Source source{.divisor = divisor_, .per_token = per_token};
  if (spec.integer || has_bias) source.columns = spec.columns;  // else there are no numbers
  if (spec.integer) {
    if (per_token && !c.has(spec.row_scale))
      return invalid_model("input 0 has scales per token, but input " +
                           std::to_string(spec.row_scale) + ", the scales, is missing");
    source.scales = spec.weight_scales.data();
    source.scale_count = spec.weight_scales.size();
    source.x_scale = quant && !per_token ? static_cast<double>(quant->scale()) : 1.0;
    has_row_scale_ = per_token;
  }
  computed_bias_ = has_bias && c.inputs[spec.bias].constant == nullptr;
  if (has_bias) source.bias = c.inputs[spec.bias].constant;
  if (c.memo != nullptr && c.memo->columns != nullptr) {
    auto known = std::static_pointer_cast<const Columns>(c.memo->columns);
    if (known->source == source) {
      numbers_ = std::move(known);
      return ok_status();
    }
  }
  auto made = std::make_shared<Columns>();
  made->source = source;
  const std::size_t n = spec.columns;
  if (spec.integer) {
    made->multiplier.assign(round_up(n, kPad), 0.0f);
    for (std::size_t i = 0; i < n; ++i) {
      const float sw = spec.weight_scales[i % source.scale_count];
      made->multiplier[i] =
          per_token ? sw : static_cast<float>(source.x_scale * static_cast<double>(sw) / divisor_);
    }
  }
  if (source.bias != nullptr) {
    made->offset.assign(round_up(n, kPad), 0.0f);
    const auto* b = static_cast<const float*>(source.bias);
    for (std::size_t i = 0; i < n; ++i) made->offset[i] = divided(b[i], divisor_);
  }
  if (c.memo != nullptr) c.memo->columns = made;
  numbers_ = std::move(made);
  return ok_status();
}

Status EpiloguePlan::set_residual(const PrepareContext& c) {
  if (!c.has(residual_)) return ok_status();
  const TensorType& r = c.type(residual_);
  const TensorType& y = c.out(0);
  has_residual_ = true;
  if (r.dtype == DType::f32) {
    base_.residual_kind = kernels::ResidualKind::f32;
    base_.residual_scale = divided(1.0f, divisor_);
  } else if (r.dtype == DType::u8 && r.quant && r.quant->is_per_tensor()) {
    base_.residual_kind = kernels::ResidualKind::u8;
    base_.residual_scale = divided(r.quant->scale(), divisor_);
    base_.residual_zero_point = r.quant->zero_point();
  } else {
    return unsupported("a residual of type " + describe(r));
  }
  if (r.shape.count() != y.shape.count())
    return invalid_model("the residual is " + describe(r) + ", the output " + describe(y));
  return ok_status();
}

std::size_t EpiloguePlan::scratch_bytes() const {
  return computed_bias_ ? round_up(round_up(columns_, kPad) * sizeof(float), kAlignment) : 0;
}

kernels::Epilogue EpiloguePlan::bind(const RunContext& run, std::byte* scratch) const {
  kernels::Epilogue e = base_;
  const Columns& numbers = *numbers_;
  e.multiplier = numbers.multiplier.empty() ? nullptr : numbers.multiplier.data();
  if (computed_bias_) {
    auto* offset = reinterpret_cast<float*>(scratch);
    std::fill_n(offset, round_up(columns_, kPad), 0.0f);
    for (std::size_t i = 0; i < columns_; ++i)
      offset[i] = divided(in<float>(run, bias_)[i], divisor_);
    e.offset = offset;
  } else if (!numbers.offset.empty()) {
    e.offset = numbers.offset.data();
  }
  if (has_row_scale_) e.row_scale = in<float>(run, row_scale_);
  if (has_residual_) e.residual = run.inputs[residual_];
  e.y = run.outputs[0];
  return e;
}

}  // namespace fold8::ops
