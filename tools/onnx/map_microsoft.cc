// Operators of the domain com.microsoft that exporters and onnxruntime's own tools write.
#include "tools/onnx/op_map.h"
#include "tools/onnx/quant_values.h"

namespace fold8::onnx_io {
namespace {

using graph::Binary;
using graph::BinaryKind;
using graph::Norm;
using graph::NormKind;
using graph::Unary;
using graph::UnaryKind;

// y = norm(input + skip + bias); output 3 is that sum.
Status skip_norm(NodeContext& ctx, NormKind kind, ValueId gamma, ValueId beta, ValueId bias) {
  if (ctx.wanted(1) || ctx.wanted(2))
    return ctx.refuse("the mean and inv_std_var outputs are not supported");
  Norm op{kind};
  op.epsilon = ctx.real("epsilon", 1e-12f);
  const bool sum_read = ctx.wanted(3);
  const auto sum_value = [&](bool last) {
    return last && sum_read ? ctx.out(3) : ctx.value(last ? "sum" : "skip_sum");
  };
  ValueId sum = sum_value(bias == kNoValue);
  ctx.emit_into(Binary{BinaryKind::add}, {ctx.in(0), ctx.in(1)}, {sum}, "skip");
  if (bias != kNoValue) {
    const ValueId with_bias = sum_value(true);
    ctx.emit_into(Binary{BinaryKind::add}, {sum, bias}, {with_bias}, "bias");
    sum = with_bias;
  }
  ctx.emit_into(op, {sum, gamma, beta}, {ctx.out(0)}, "");
  return ctx.done();
}

Status map_skip_layer_norm(NodeContext& ctx) {
  ctx.need_inputs(3, 5);
  return skip_norm(ctx, NormKind::layer, ctx.in(2), ctx.in(3), ctx.in(4));
}
Status map_skip_rms_norm(NodeContext& ctx) {
  ctx.need_inputs(3, 4);
  return skip_norm(ctx, NormKind::rms, ctx.in(2), kNoValue, ctx.in(3));
}

Status map_gelu(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  return ctx.finish(Unary{UnaryKind::gelu_erf}, {ctx.in(0)});
}
ValueId plus_bias(NodeContext& ctx) {
  return ctx.in(1) == kNoValue
             ? ctx.in(0)
             : ctx.emit(Binary{BinaryKind::add}, {ctx.in(0), ctx.in(1)}, "biased");
}
Status map_bias_gelu(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  return ctx.finish(Unary{UnaryKind::gelu_erf}, {plus_bias(ctx)});
}
Status map_fast_gelu(NodeContext& ctx) {
  ctx.need_inputs(1, 2);
  return ctx.finish(Unary{UnaryKind::gelu_tanh}, {plus_bias(ctx)});
}
Status map_quick_gelu(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  return ctx.finish(Unary{UnaryKind::silu, ctx.real("alpha", 1.702f)}, {ctx.in(0)});
}

Status map_fused_matmul(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  if (ctx.flag("transBatchA") || ctx.flag("transBatchB"))
    return ctx.refuse("transBatchA and transBatchB");
  return ctx.finish(graph::MatMul{ctx.real("alpha", 1), ctx.flag("transA"), ctx.flag("transB")},
                    {ctx.in(0), ctx.in(1)});
}

Status map_fused_conv(NodeContext& ctx) {
  ctx.need_inputs(2, 4);
  const auto op = conv_attributes(ctx, ctx.in(0), ctx.in(1), false);
  const auto activation = fused_activation(ctx);
  ValueId y = ctx.emit(op, {ctx.in(0), ctx.in(1), ctx.in(2)}, "conv");
  if (ctx.in(3) != kNoValue) y = ctx.emit(Binary{BinaryKind::add}, {y, ctx.in(3)}, "sum");
  return activation ? ctx.finish(*activation, {y}) : ctx.finish(graph::Identity{}, {y});
}

// ---- QLinear operators: dequantize, compute in f32, quantize

DType stored_type(NodeContext& ctx, ValueId zero_point) {
  return ctx.dtype(zero_point).value_or(DType::u8);
}
ValueId real_input(NodeContext& ctx, int first) {
  return dequantized(ctx, ctx.in(first), Scales{ctx.in(first + 1), ctx.in(first + 2), 1, 0},
                     ctx.input_name(first));
}
Status quantized_result(NodeContext& ctx, ValueId y, int first) {
  return finish_quantize(ctx, y, Scales{ctx.in(first), ctx.in(first + 1), 1, 0},
                         stored_type(ctx, ctx.in(first + 1)));
}

template <BinaryKind kind>
Status qlinear_binary(NodeContext& ctx) {
  ctx.need_inputs(2, 8);
  const ValueId a = real_input(ctx, 0), b = real_input(ctx, 3);
  return quantized_result(ctx, ctx.emit(Binary{kind}, {a, b}, "real"), 6);
}
Status qlinear_unary(NodeContext& ctx, graph::Op op) {
  ctx.need_inputs(2, 5);
  return quantized_result(ctx, ctx.emit(std::move(op), {real_input(ctx, 0)}, "real"), 3);
}
Status map_qlinear_sigmoid(NodeContext& ctx) {
  return qlinear_unary(ctx, Unary{UnaryKind::sigmoid});
}
Status map_qlinear_leaky_relu(NodeContext& ctx) {
  return qlinear_unary(ctx, Unary{UnaryKind::leaky_relu, ctx.real("alpha", 0.01f)});
}
Status map_qlinear_global_average(NodeContext& ctx) {
  if (ctx.flag("channels_last")) return ctx.refuse("channels_last");
  return qlinear_unary(ctx, graph::Pool{graph::PoolKind::average, true});
}
Status map_qlinear_concat(NodeContext& ctx) {
  ctx.need_inputs(2, -1);
  std::vector<ValueId> parts;
  for (int i = 2; i + 2 < ctx.inputs(); i += 3) parts.push_back(real_input(ctx, i));
  if (parts.empty() || (ctx.inputs() - 2) % 3 != 0)
    return ctx.reject("inputs must be y_scale, y_zero_point and triples");
  return quantized_result(ctx,
                          ctx.emit(graph::Concat{ctx.axis("axis", 0, parts[0])}, parts, "real"), 0);
}

constexpr MapEntry kOps[] = {
    {"BiasGelu", map_bias_gelu},
    {"DequantizeLinear", map_dequantize},
    {"FastGelu", map_fast_gelu},
    {"FusedConv", map_fused_conv},
    {"FusedMatMul", map_fused_matmul},
    {"Gelu", map_gelu},
    {"QLinearAdd", qlinear_binary<BinaryKind::add>},
    {"QLinearConcat", map_qlinear_concat},
    {"QLinearGlobalAveragePool", map_qlinear_global_average},
    {"QLinearLeakyRelu", map_qlinear_leaky_relu},
    {"QLinearMul", qlinear_binary<BinaryKind::mul>},
    {"QLinearSigmoid", map_qlinear_sigmoid},
    {"QuantizeLinear", map_quantize},
    {"QuickGelu", map_quick_gelu},
    {"SkipLayerNormalization", map_skip_layer_norm},
    {"SkipSimplifiedLayerNormalization", map_skip_rms_norm},
};

}  // namespace

std::span<const MapEntry> microsoft_ops() { return kOps; }

std::optional<Unary> fused_activation(NodeContext& ctx) {
  const std::string name = ctx.text("activation");
  const std::vector<float> p = ctx.reals("activation_params");
  const auto param = [&](std::size_t i, float otherwise) {
    return i < p.size() ? p[i] : otherwise;
  };
  if (name.empty()) return std::nullopt;
  if (name == "Relu") return Unary{UnaryKind::relu};
  if (name == "Sigmoid") return Unary{UnaryKind::sigmoid};
  if (name == "Tanh") return Unary{UnaryKind::tanh};
  if (name == "LeakyRelu") return Unary{UnaryKind::leaky_relu, param(0, 0.01f)};
  if (name == "HardSigmoid") return Unary{UnaryKind::hard_sigmoid, param(0, 0.2f), param(1, 0.5f)};
  if (name == "Clip") return Unary{UnaryKind::clip, param(0, 0), param(1, 0)};
  ctx.fail(unsupported("activation='" + name + "'"));
  return std::nullopt;
}

}  // namespace fold8::onnx_io
