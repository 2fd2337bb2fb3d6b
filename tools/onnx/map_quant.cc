// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear.
#include <algorithm>

#include "tools/onnx/op_map.h"
#include "tools/onnx/quant_values.h"

#include <onnx/onnx_pb.h>

namespace fold8::onnx_io {
namespace {

bool fits_int32(std::int64_t v) { return v >= INT32_MIN && v <= INT32_MAX; }

// Zero points, one per scale; one for all is repeated.
std::vector<std::int32_t> spread(NodeContext& ctx, const Ints& zero_points, std::size_t n) {
  if (std::all_of(zero_points.begin(), zero_points.end(), [](std::int64_t z) { return z == 0; }))
    return {};
  if (zero_points.size() != n && zero_points.size() != 1)
    ctx.fail(invalid_model("has " + std::to_string(zero_points.size()) + " zero points for " +
                           std::to_string(n) + " scales"));
  std::vector<std::int32_t> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t z = zero_points[i < zero_points.size() ? i : 0];
    out[i] = fits_int32(z) ? static_cast<std::int32_t>(z) : 0;
  }
  return out;
}

// Only dequantizing operators may turn a raw integer input into a quantized one.
bool only_dequantized(NodeContext& ctx, const std::string& name) {
  static constexpr std::string_view kReaders[] = {"DequantizeLinear", "QLinearConv",
                                                  "QLinearMatMul", "ConvInteger"};
  const auto it = ctx.builder().readers.find(name);
  if (it == ctx.builder().readers.end() || ctx.builder().output_names.count(name) != 0)
    return false;
  return std::all_of(it->second.begin(), it->second.end(), [](const onnx::NodeProto* n) {
    return std::find(std::begin(kReaders), std::end(kReaders), n->op_type()) != std::end(kReaders);
  });
}

ValueId to_f32(NodeContext& ctx, ValueId v, const std::string& suffix) {
  const auto d = ctx.dtype(v);
  if (v == kNoValue || !d || *d == DType::f32) return v;
  if (const auto values = ctx.known_reals(v)) {
    std::vector<float> f(values->begin(), values->end());
    return ctx.floats(f, ctx.graph().type(v).shape, suffix);
  }
  return ctx.emit(graph::Cast{DType::f32}, {v}, suffix);
}

Scales scales_of(NodeContext& ctx, int first) {
  Scales s;
  s.scale = ctx.in(first);
  s.zero_point = ctx.in(first + 1);
  s.axis = ctx.axis("axis", 1, kNoValue);
  s.block_size = ctx.integer("block_size");
  if (s.block_size < 0) ctx.fail(invalid_model("block_size is negative"));
  return s;
}

// The axis means nothing, and may be out of range, where one scale serves all.
Scales with_axis(NodeContext& ctx, Scales s, ValueId data) {
  const TensorType* scale = ctx.type(s.scale);
  const bool one = scale != nullptr && scale->shape.elements() == 1;
  s.axis = one && s.block_size == 0 ? 0 : ctx.normalized(s.axis, ctx.rank(data));
  return s;
}

Status map_dynamic_quantize(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  return ctx.finish(graph::DynamicQuantize{true}, {ctx.in(0)}, 3);
}

constexpr MapEntry kOps[] = {{"DequantizeLinear", map_dequantize},
                             {"DynamicQuantizeLinear", map_dynamic_quantize},
                             {"QuantizeLinear", map_quantize}};

}  // namespace

std::span<const MapEntry> quant_ops() { return kOps; }

std::optional<QuantParams> constant_params(NodeContext& ctx, const Scales& s,
                                           const TensorType* data) {
  const auto reals = ctx.known_reals(s.scale);
  if (!reals) return std::nullopt;
  if (reals->empty()) {
    ctx.fail(invalid_model("the scale is empty"));
    return std::nullopt;
  }
  Ints zeros{0};
  if (s.zero_point != kNoValue) {
    const auto known =
        ctx.graph().is_constant(s.zero_point) ? ctx.known_ints(s.zero_point) : std::nullopt;
    if (!known) return std::nullopt;
    if (!known->empty()) zeros = *known;
  }
  const std::vector<float> scales(reals->begin(), reals->end());
  const auto zero_points = spread(ctx, zeros, scales.size());
  const std::optional<int> rank =
      data != nullptr ? std::optional<int>(data->shape.rank()) : std::nullopt;
  const auto made = [&]() -> Result<QuantParams> {
    if (s.block_size > 0) {
      const std::int64_t axis = ctx.normalized(s.axis, rank);
      return QuantParams::per_group(static_cast<int>(axis), s.block_size, scales, zero_points);
    }
    if (scales.size() == 1)
      return QuantParams::per_tensor(scales[0], zero_points.empty() ? 0 : zero_points[0]);
    return QuantParams::per_channel(static_cast<int>(ctx.normalized(s.axis, rank)), scales,
                                    zero_points);
  }();
  if (made.ok()) return *made;
  ctx.fail(
      invalid_model("scale '" + ctx.graph().value(s.scale).name + "': " + made.error().message));
  return std::nullopt;
}

ValueId carry_params(NodeContext& ctx, ValueId v, const QuantParams& params) {
  graph::Graph& g = ctx.graph();
  graph::Value& value = g.value(v);
  if (value.type.quant == params) return v;
  if (!value.is_constant()) {
    const bool raw_input = !value.type.quant && g.is_input(v) && is_quantizable(value.type.dtype) &&
                           only_dequantized(ctx, value.name);
    if (!raw_input) return kNoValue;
    value.type.quant = params;
    return v;
  }
  TensorType type = value.type;
  type.quant = params;
  if (type.dtype == DType::s4) type.dtype = DType::s8;
  if (type.dtype == DType::u4) type.dtype = DType::u8;
  const auto readers = ctx.builder().readers.find(value.name);
  const bool sole = readers != ctx.builder().readers.end() && readers->second.size() == 1 &&
                    !ctx.builder().output_names.count(value.name);
  if (sole && !value.type.quant) {
    value.type = type;
    return v;
  }
  const auto bytes = value.constant;
  return g.add_constant(ctx.builder().fresh_value_name(value.name + "/quantized"), type, bytes);
}

ValueId dequantized(NodeContext& ctx, ValueId v, const Scales& s, const std::string& suffix) {
  const ValueId y = ctx.value(suffix);
  const Scales placed = with_axis(ctx, s, v);
  graph::Dequantize op{placed.axis, s.block_size};
  if (const auto params = constant_params(ctx, placed, ctx.type(v)); params && !ctx.failed())
    if (const ValueId quantized = carry_params(ctx, v, *params); quantized != kNoValue) {
      ctx.emit_into(graph::Dequantize{}, {quantized}, {y}, suffix);
      return y;
    }
  ctx.emit_into(op, {v, to_f32(ctx, s.scale, suffix + "_scale"), s.zero_point}, {y}, suffix);
  return y;
}

Status finish_dequantize(NodeContext& ctx, ValueId v, const Scales& s, DType to) {
  if (to != DType::f32) return ctx.finish(graph::Cast{to}, {dequantized(ctx, v, s, "dequantized")});
  const Scales placed = with_axis(ctx, s, v);
  if (const auto params = constant_params(ctx, placed, ctx.type(v)); params && !ctx.failed())
    if (const ValueId quantized = carry_params(ctx, v, *params); quantized != kNoValue)
      return ctx.finish(graph::Dequantize{}, {quantized});
  return ctx.finish(graph::Dequantize{placed.axis, s.block_size},
                    {v, to_f32(ctx, s.scale, "scale"), s.zero_point});
}

Status finish_quantize(NodeContext& ctx, ValueId x, const Scales& s, DType stored) {
  x = to_f32(ctx, x, "as_f32");
  const Scales placed = with_axis(ctx, s, x);
  const TensorType* type = ctx.type(x);
  const auto params = constant_params(ctx, placed, type);
  if (ctx.failed()) return ctx.done();
  if (params && is_quantizable(stored)) {
    if (type != nullptr)
      ctx.decide_type(0, TensorType{stored, type->shape, *params, Layout::plain});
    return ctx.finish(graph::Quantize{}, {x});
  }
  if (type != nullptr) ctx.decide_type(0, TensorType{stored, type->shape, {}, Layout::plain});
  return ctx.finish(graph::Quantize{placed.axis, s.block_size},
                    {x, to_f32(ctx, s.scale, "scale"), s.zero_point});
}

Status map_quantize(NodeContext& ctx) {
  ctx.need_inputs(2, 3);
  Scales s = scales_of(ctx, 1);
  ctx.flag("saturate", true);  // float8 only
  ctx.integer("precision");
  DType stored = ctx.dtype(s.zero_point).value_or(DType::u8);
  if (const std::int64_t declared = ctx.integer("output_dtype"); declared != 0) {
    const auto named =
        dtype_from_onnx(static_cast<std::int32_t>(declared), "attribute 'output_dtype'");
    if (!named.ok()) {
      ctx.fail(named.error());
      return ctx.done();
    }
    if (s.zero_point != kNoValue && *named != stored)
      return ctx.reject("output_dtype is " + std::string(name(*named)) +
                        ", but the zero point is of type " + std::string(name(stored)));
    stored = *named;
  }
  if (is_floating(stored) || stored == DType::boolean)
    return ctx.reject("cannot quantize to type " + std::string(name(stored)));
  return finish_quantize(ctx, ctx.in(0), s, stored);
}

Status map_dequantize(NodeContext& ctx) {
  ctx.need_inputs(2, 3);
  const Scales s = scales_of(ctx, 1);
  const auto x = ctx.dtype(ctx.in(0)), z = ctx.dtype(s.zero_point);
  if (x && z && *x != *z)
    return ctx.reject("the input is of type " + std::string(name(*x)) +
                      ", its zero point of type " + std::string(name(*z)));
  DType to = ctx.dtype(s.scale).value_or(DType::f32);
  if (const std::int64_t declared = ctx.integer("output_dtype"); declared != 0) {
    const auto named =
        dtype_from_onnx(static_cast<std::int32_t>(declared), "attribute 'output_dtype'");
    if (!named.ok()) {
      ctx.fail(named.error());
      return ctx.done();
    }
    to = *named;
  }
  return finish_dequantize(ctx, ctx.in(0), s, to);
}

}  // namespace fold8::onnx_io
