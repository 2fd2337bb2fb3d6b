// Elementwise operators of one and more operands.
#include <cmath>
#include <limits>

#include "tools/onnx/op_map.h"

namespace fold8::onnx_io {
namespace {

using graph::Binary;
using graph::BinaryKind;
using graph::Unary;
using graph::UnaryKind;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <UnaryKind kind>
Status unary(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  return ctx.finish(Unary{kind}, {ctx.in(0)});
}

// An ONNX operator with up to two float attributes and their defaults.
template <UnaryKind kind>
Status unary_with(NodeContext& ctx, const char* a, float a_default, const char* b = nullptr,
                  float b_default = 0) {
  ctx.need_inputs(1, 1);
  return ctx.finish(
      Unary{kind, ctx.real(a, a_default), b != nullptr ? ctx.real(b, b_default) : b_default},
      {ctx.in(0)});
}

Status map_leaky_relu(NodeContext& ctx) {
  return unary_with<UnaryKind::leaky_relu>(ctx, "alpha", 0.01f);
}
Status map_elu(NodeContext& ctx) { return unary_with<UnaryKind::elu>(ctx, "alpha", 1); }
Status map_celu(NodeContext& ctx) { return unary_with<UnaryKind::celu>(ctx, "alpha", 1); }
Status map_thresholded_relu(NodeContext& ctx) {
  return unary_with<UnaryKind::thresholded_relu>(ctx, "alpha", 1);
}
Status map_swish(NodeContext& ctx) { return unary_with<UnaryKind::silu>(ctx, "alpha", 1); }
Status map_hard_sigmoid(NodeContext& ctx) {
  return unary_with<UnaryKind::hard_sigmoid>(ctx, "alpha", 0.2f, "beta", 0.5f);
}
Status map_shrink(NodeContext& ctx) {
  return unary_with<UnaryKind::shrink>(ctx, "lambd", 0.5f, "bias", 0);
}
Status map_selu(NodeContext& ctx) {
  return unary_with<UnaryKind::selu>(ctx, "alpha", 1.67326319217681884765625f, "gamma",
                                     1.05070102214813232421875f);
}
Status map_hard_swish(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  return ctx.finish(Unary{UnaryKind::hard_swish, 1.0f / 6.0f, 0.5f}, {ctx.in(0)});
}
Status map_is_inf(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  return ctx.finish(Unary{UnaryKind::is_inf, ctx.flag("detect_negative", true) ? 1.0f : 0.0f,
                          ctx.flag("detect_positive", true) ? 1.0f : 0.0f},
                    {ctx.in(0)});
}
Status map_gelu(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  const std::string form = ctx.text("approximate", "none");
  if (form != "none" && form != "tanh")
    return ctx.reject("approximate='" + form + "' is neither none nor tanh");
  return ctx.finish(Unary{form == "tanh" ? UnaryKind::gelu_tanh : UnaryKind::gelu_erf},
                    {ctx.in(0)});
}
Status map_swiglu(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  const ValueId gate = ctx.emit(Unary{UnaryKind::silu, ctx.real("alpha", 1)}, {ctx.in(0)}, "gate");
  return ctx.finish(Binary{BinaryKind::mul}, {gate, ctx.in(1)});
}

Status map_clip(NodeContext& ctx) {
  if (ctx.opset() >= 11) {
    ctx.need_inputs(1, 3);
    return map_clip_bounds(ctx, ctx.in(0), ctx.in(1), ctx.in(2));
  }
  ctx.need_inputs(1, 1);
  return ctx.finish(Unary{UnaryKind::clip, ctx.has("min") ? ctx.real("min") : -kInfinity,
                          ctx.has("max") ? ctx.real("max") : kInfinity},
                    {ctx.in(0)});
}

// Opset 6: with broadcast=1 and axis=k the second operand's axes lie from axis k of the first on.
ValueId old_broadcast(NodeContext& ctx) {
  const ValueId b = ctx.in(1);
  if (ctx.opset() >= 7 || !ctx.flag("broadcast") || !ctx.has("axis")) return b;
  const auto rank_a = ctx.rank(ctx.in(0)), rank_b = ctx.rank(b);
  if (!rank_a || !rank_b) return b;
  const std::int64_t axis = ctx.axis("axis", -1, ctx.in(0));
  const std::int64_t trailing = *rank_a - axis - *rank_b;
  if (trailing < 0)
    ctx.fail(invalid_model("the second operand does not fit behind axis " + std::to_string(axis)));
  if (trailing <= 0) return b;
  Ints axes;
  for (std::int64_t i = 0; i < trailing; ++i) axes.push_back(*rank_b + i);
  return ctx.emit(graph::Unsqueeze{axes}, {b}, "unsqueezed");
}

template <BinaryKind kind>
Status binary(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  return ctx.finish(Binary{kind}, {ctx.in(0), old_broadcast(ctx)});
}

// Opset 6: a slope of [C] belongs to the channels, axis 1.
Status map_prelu(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  ValueId slope = ctx.in(1);
  const auto rank = ctx.rank(ctx.in(0));
  if (ctx.opset() < 7 && rank && *rank > 2 && ctx.rank(slope) == 1 &&
      ctx.type(slope)->shape.elements() != 1) {
    Ints axes;
    for (int a = 1; a + 1 < *rank; ++a) axes.push_back(a);
    slope = ctx.emit(graph::Unsqueeze{axes}, {slope}, "slope");
  }
  return ctx.finish(Binary{BinaryKind::prelu}, {ctx.in(0), slope});
}

Status map_pow(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  ValueId exponent = old_broadcast(ctx);
  const auto base = ctx.dtype(ctx.in(0)), power = ctx.dtype(exponent);
  if (base && power && *base != *power) {
    if (!is_floating(*base)) return ctx.refuse("an integer base with an exponent of another type");
    exponent = ctx.emit(graph::Cast{*base}, {exponent}, "exponent");
  }
  return ctx.finish(Binary{BinaryKind::pow}, {ctx.in(0), exponent});
}

Status map_mod(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  return ctx.finish(Binary{ctx.flag("fmod") ? BinaryKind::fmod : BinaryKind::mod},
                    {ctx.in(0), ctx.in(1)});
}

Status map_bit_shift(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  const std::string direction = ctx.text("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    return ctx.reject("direction='" + direction + "' is neither LEFT nor RIGHT");
  return ctx.finish(Binary{direction == "LEFT" ? BinaryKind::shift_left : BinaryKind::shift_right},
                    {ctx.in(0), ctx.in(1)});
}

template <BinaryKind kind>
Status variadic(NodeContext& ctx) {
  ctx.need_inputs(1, -1);
  if (ctx.inputs() == 1) return ctx.finish(graph::Identity{}, {ctx.in(0)});
  return ctx.finish(Binary{kind}, {binary_chain(ctx, kind), ctx.in(ctx.inputs() - 1)});
}

Status map_mean(NodeContext& ctx) {
  ctx.need_inputs(1, -1);
  const int n = ctx.inputs();
  if (n == 1) return ctx.finish(graph::Identity{}, {ctx.in(0)});
  const ValueId sum =
      ctx.emit(Binary{BinaryKind::add}, {binary_chain(ctx, BinaryKind::add), ctx.in(n - 1)}, "sum");
  return ctx.finish(Binary{BinaryKind::div}, {sum, ctx.scalar_like(ctx.in(0), n, "count")});
}

Status map_where(NodeContext& ctx) {
  ctx.need_inputs(3, 3);
  return ctx.finish(graph::Where{}, ctx.all_inputs());
}

// Opset 6 and older files name the type; the number is TensorProto.DataType since.
Status map_cast(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  ctx.flag("saturate", true);  // float8 only
  ctx.text("round_mode");      // float8 only
  auto to = dtype_from_onnx(static_cast<std::int32_t>(ctx.integer("to")), "attribute 'to'");
  if (!to.ok()) {
    ctx.fail(to.error());
    return ctx.done();
  }
  return ctx.finish(graph::Cast{*to}, {ctx.in(0)});
}

Status map_cast_like(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  ctx.flag("saturate", true);
  const auto to = ctx.dtype(ctx.in(1));
  return ctx.finish(graph::Cast{to.value_or(DType::f32)}, {ctx.in(0)});
}

constexpr MapEntry kOps[] = {
    {"Abs", unary<UnaryKind::abs>},
    {"Acos", unary<UnaryKind::acos>},
    {"Acosh", unary<UnaryKind::acosh>},
    {"Add", binary<BinaryKind::add>},
    {"And", binary<BinaryKind::logical_and>},
    {"Asin", unary<UnaryKind::asin>},
    {"Asinh", unary<UnaryKind::asinh>},
    {"Atan", unary<UnaryKind::atan>},
    {"Atanh", unary<UnaryKind::atanh>},
    {"BitShift", map_bit_shift},
    {"BitwiseAnd", binary<BinaryKind::bit_and>},
    {"BitwiseNot", unary<UnaryKind::bitwise_not>},
    {"BitwiseOr", binary<BinaryKind::bit_or>},
    {"BitwiseXor", binary<BinaryKind::bit_xor>},
    {"Cast", map_cast},
    {"CastLike", map_cast_like},
    {"Ceil", unary<UnaryKind::ceil>},
    {"Celu", map_celu},
    {"Clip", map_clip},
    {"Cos", unary<UnaryKind::cos>},
    {"Cosh", unary<UnaryKind::cosh>},
    {"Div", binary<BinaryKind::div>},
    {"Elu", map_elu},
    {"Equal", binary<BinaryKind::equal>},
    {"Erf", unary<UnaryKind::erf>},
    {"Exp", unary<UnaryKind::exp>},
    {"Floor", unary<UnaryKind::floor>},
    {"Gelu", map_gelu},
    {"Greater", binary<BinaryKind::greater>},
    {"GreaterOrEqual", binary<BinaryKind::greater_equal>},
    {"HardSigmoid", map_hard_sigmoid},
    {"HardSwish", map_hard_swish},
    {"IsInf", map_is_inf},
    {"IsNaN", unary<UnaryKind::is_nan>},
    {"LeakyRelu", map_leaky_relu},
    {"Less", binary<BinaryKind::less>},
    {"LessOrEqual", binary<BinaryKind::less_equal>},
    {"Log", unary<UnaryKind::log>},
    {"Max", variadic<BinaryKind::max>},
    {"Mean", map_mean},
    {"Min", variadic<BinaryKind::min>},
    {"Mish", unary<UnaryKind::mish>},
    {"Mod", map_mod},
    {"Mul", binary<BinaryKind::mul>},
    {"Neg", unary<UnaryKind::neg>},
    {"Not", unary<UnaryKind::logical_not>},
    {"Or", binary<BinaryKind::logical_or>},
    {"PRelu", map_prelu},
    {"Pow", map_pow},
    {"Reciprocal", unary<UnaryKind::reciprocal>},
    {"Relu", unary<UnaryKind::relu>},
    {"Round", unary<UnaryKind::round>},
    {"Selu", map_selu},
    {"Shrink", map_shrink},
    {"Sigmoid", unary<UnaryKind::sigmoid>},
    {"Sign", unary<UnaryKind::sign>},
    {"Sin", unary<UnaryKind::sin>},
    {"Sinh", unary<UnaryKind::sinh>},
    {"Softplus", unary<UnaryKind::softplus>},
    {"Softsign", unary<UnaryKind::softsign>},
    {"Sqrt", unary<UnaryKind::sqrt>},
    {"Sub", binary<BinaryKind::sub>},
    {"Sum", variadic<BinaryKind::add>},
    {"SwiGLU", map_swiglu},
    {"Swish", map_swish},
    {"Tan", unary<UnaryKind::tan>},
    {"Tanh", unary<UnaryKind::tanh>},
    {"ThresholdedRelu", map_thresholded_relu},
    {"Where", map_where},
    {"Xor", binary<BinaryKind::logical_xor>},
};

}  // namespace

std::span<const MapEntry> elementwise_ops() { return kOps; }

// All inputs but the last, combined from the left.
ValueId binary_chain(NodeContext& ctx, BinaryKind kind) {
  ValueId sum = ctx.in(0);
  for (int i = 1; i + 1 < ctx.inputs(); ++i)
    sum = ctx.emit(Binary{kind}, {sum, ctx.in(i)}, "part_" + std::to_string(i));
  return sum;
}

Status map_clip_bounds(NodeContext& ctx, ValueId x, ValueId low, ValueId high) {
  const auto bound = [&](ValueId v, float otherwise) -> std::optional<float> {
    if (v == kNoValue) return otherwise;
    const auto values = ctx.known_reals(v);
    if (!values || values->size() != 1) return std::nullopt;
    return static_cast<float>((*values)[0]);
  };
  const auto a = bound(low, -kInfinity), b = bound(high, kInfinity);
  const auto dtype = ctx.dtype(x);
  if (a && b && (!dtype || *dtype == DType::f32 || *dtype == DType::f16 || *dtype == DType::bf16))
    return ctx.finish(Unary{UnaryKind::clip, *a, *b}, {x});
  if (low == kNoValue && high == kNoValue) return ctx.finish(graph::Identity{}, {x});
  if (high == kNoValue) return ctx.finish(Binary{BinaryKind::max}, {x, low});
  const ValueId raised =
      low == kNoValue ? x : ctx.emit(Binary{BinaryKind::max}, {x, low}, "raised");
  return ctx.finish(Binary{BinaryKind::min}, {raised, high});
}

}  // namespace fold8::onnx_io
