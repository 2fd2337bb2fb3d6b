// Integer matrix operators. QLinear* are written out as Dequantize, the float operator, Quantize,
// with the same numbers; *Integer keep integer operands and give INT32 sums.
#include "tools/onnx/op_map.h"
#include "tools/onnx/quant_values.h"

namespace fold8::onnx_io {
namespace {

using graph::Binary;
using graph::BinaryKind;

DType stored_type(NodeContext& ctx, ValueId zero_point) {
  return ctx.dtype(zero_point).value_or(DType::u8);
}

// The INT32 bias of a QLinearConv stands for f32(double(q) * s_x * s_w[channel]).
ValueId real_bias(NodeContext& ctx, ValueId bias, ValueId x_scale, ValueId w_scale) {
  if (bias == kNoValue) return kNoValue;
  const auto q = ctx.graph().is_constant(bias) ? ctx.known_ints(bias) : std::nullopt;
  const auto s_x = ctx.known_reals(x_scale), s_w = ctx.known_reals(w_scale);
  if (!q || !s_x || !s_w) {
    const ValueId scale = ctx.emit(Binary{BinaryKind::mul}, {x_scale, w_scale}, "bias_scale");
    return dequantized(ctx, bias, Scales{scale, kNoValue, 0, 0}, "bias");
  }
  if (s_x->size() != 1 || (s_w->size() != 1 && s_w->size() != q->size())) {
    ctx.fail(invalid_model("the scales do not fit a bias of " + std::to_string(q->size()) +
                           " elements"));
    return kNoValue;
  }
  std::vector<float> real(q->size());
  for (std::size_t c = 0; c < real.size(); ++c)
    real[c] = static_cast<float>(static_cast<double>((*q)[c]) * (*s_x)[0] *
                                 (*s_w)[s_w->size() == 1 ? 0 : c]);
  return ctx.floats(real, Shape{static_cast<std::int64_t>(real.size())}, "bias");
}

Status map_qlinear_conv(NodeContext& ctx) {
  ctx.need_inputs(8, 9);
  if (ctx.failed()) return ctx.done();
  const graph::Conv op = conv_attributes(ctx, ctx.in(0), ctx.in(3), false);
  const ValueId x = dequantized(ctx, ctx.in(0), Scales{ctx.in(1), ctx.in(2), 1, 0}, "x");
  const ValueId w = dequantized(ctx, ctx.in(3), Scales{ctx.in(4), ctx.in(5), 0, 0}, "w");
  const ValueId bias = real_bias(ctx, ctx.in(8), ctx.in(1), ctx.in(4));
  const ValueId y = ctx.emit(op, {x, w, bias}, "conv");
  return finish_quantize(ctx, y, Scales{ctx.in(6), ctx.in(7), 1, 0}, stored_type(ctx, ctx.in(7)));
}

Status map_qlinear_matmul(NodeContext& ctx) {
  ctx.need_inputs(8, 8);
  if (ctx.failed()) return ctx.done();
  // Scales of several elements belong to the rows of a and to the columns of b.
  const ValueId a = dequantized(ctx, ctx.in(0), Scales{ctx.in(1), ctx.in(2), -2, 0}, "a");
  const ValueId b = dequantized(ctx, ctx.in(3), Scales{ctx.in(4), ctx.in(5), -1, 0}, "b");
  const ValueId y = ctx.emit(graph::MatMul{}, {a, b}, "matmul");
  return finish_quantize(ctx, y, Scales{ctx.in(6), ctx.in(7), 1, 0}, stored_type(ctx, ctx.in(7)));
}

Status map_matmul_integer(NodeContext& ctx) {
  ctx.need_inputs(2, 4);
  return ctx.finish(graph::MatMul{}, {ctx.in(0), ctx.in(1), ctx.in(2), ctx.in(3)});
}

// `v` as integers with scale 1 and the given zero points, for a convolution that wants INT32 sums.
ValueId integer_operand(NodeContext& ctx, ValueId v, std::vector<std::int32_t> zero_points,
                        int axis, const char* what) {
  graph::Value& value = ctx.graph().value(v);
  const auto params = zero_points.size() <= 1
                          ? QuantParams::per_tensor(1, zero_points.empty() ? 0 : zero_points[0])
                          : QuantParams::per_channel(
                                axis, std::vector<float>(zero_points.size(), 1.0f), zero_points);
  if (!params.ok()) {
    ctx.fail(params.error());
    return v;
  }
  if (const ValueId carried = carry_params(ctx, v, *params); carried != kNoValue) return carried;
  // The sums do not depend on the scale: equal zero points are enough.
  const auto& has = value.type.quant;
  if (has && has->is_per_tensor() && params->is_per_tensor() &&
      has->zero_point() == params->zero_point())
    return v;
  if (!has && is_quantizable(value.type.dtype)) {
    value.type.quant = *params;
    return v;
  }
  ctx.fail(unsupported(std::string(what) + " '" + value.name +
                       "' is quantized with another zero point"));
  return v;
}

std::optional<std::vector<std::int32_t>> zero_points_of(NodeContext& ctx, ValueId z) {
  if (z == kNoValue) return std::vector<std::int32_t>{0};
  const auto known = ctx.graph().is_constant(z) ? ctx.known_ints(z) : std::nullopt;
  if (!known) return std::nullopt;
  return std::vector<std::int32_t>(known->begin(), known->end());
}

// A zero point that is computed: conv(x - z, w) = conv(x, w) - z * conv(1, w), both padded with 0.
// Exact in INT32.
Status live_zero_point(NodeContext& ctx, const graph::Conv& op, ValueId x, ValueId w, ValueId z) {
  const TensorType* type = ctx.type(x);
  if (type == nullptr) return ctx.finish(op, {x, w});
  const TensorType ones_type{DType::u8, type->shape, QuantParams::per_tensor(1, 0).value(),
                             Layout::plain};
  const ValueId raw = integer_operand(ctx, x, {0}, 0, "input");
  const ValueId shape = ctx.emit(graph::ShapeOf{}, {x}, "shape");
  const ValueId ones = ctx.typed_value("ones", ones_type);
  ctx.emit_into(graph::ConstantOfShape{DType::u8, 1}, {shape}, {ones}, "ones");
  const auto sums = [&](ValueId input, const std::string& suffix) {
    const ValueId y = ctx.typed_value(suffix, TensorType{DType::s32, Shape(), {}, Layout::plain});
    ctx.emit_into(op, {input, w}, {y}, suffix);
    return y;
  };
  const ValueId all = sums(raw, "sums"), weights = sums(ones, "weight_sums");
  const ValueId shift = ctx.emit(graph::Cast{DType::s32}, {z}, "zero_point");
  const ValueId shifted = ctx.emit(Binary{BinaryKind::mul}, {weights, shift}, "shift");
  return ctx.finish(Binary{BinaryKind::sub}, {all, shifted});
}

Status map_conv_integer(NodeContext& ctx) {
  ctx.need_inputs(2, 4);
  if (ctx.failed()) return ctx.done();
  const graph::Conv op = conv_attributes(ctx, ctx.in(0), ctx.in(1), false);
  const auto x_zero = zero_points_of(ctx, ctx.in(2)), w_zero = zero_points_of(ctx, ctx.in(3));
  if (!w_zero) return ctx.refuse("a weight zero point that is computed from data");
  if (ctx.failed()) return ctx.done();
  const ValueId w = integer_operand(ctx, ctx.in(1), *w_zero, 0, "weight");
  if (!x_zero) return live_zero_point(ctx, op, ctx.in(0), w, ctx.in(2));
  if (x_zero->size() != 1) return ctx.reject("x_zero_point must have one element");
  const ValueId x = integer_operand(ctx, ctx.in(0), *x_zero, 0, "input");
  if (ctx.type(x) != nullptr)
    ctx.decide_type(0, TensorType{DType::s32, Shape(), {}, Layout::plain});
  return ctx.finish(op, {x, w});
}

constexpr MapEntry kOps[] = {{"ConvInteger", map_conv_integer},
                             {"MatMulInteger", map_matmul_integer},
                             {"QLinearConv", map_qlinear_conv},
                             {"QLinearMatMul", map_qlinear_matmul}};

}  // namespace

std::span<const MapEntry> quant_linear_ops() { return kOps; }

}  // namespace fold8::onnx_io
