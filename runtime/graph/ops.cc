#include "runtime/graph/ops.h"

#include <algorithm>

#include "runtime/graph/enum_names.h"

namespace fold8::graph {

#define FOLD8_ENUMERATORS(E, ...)                              \
  template <>                                                  \
  std::span<const std::string_view> enumerators<E>() {         \
    static constexpr std::string_view names[] = {__VA_ARGS__}; \
    return names;                                              \
  }

FOLD8_ENUMERATORS(Activation, "none", "clip", "leaky_relu", "hard_sigmoid", "hard_swish", "sigmoid",
                  "silu", "tanh", "gelu_erf", "gelu_tanh", "elu")
FOLD8_ENUMERATORS(DType, "f32", "s32", "s64", "u8", "s8", "bool", "f16", "bf16", "f64", "s16",
                  "u16", "u32", "u64", "s4", "u4")
FOLD8_ENUMERATORS(UnaryKind, "relu", "clip", "leaky_relu", "hard_sigmoid", "hard_swish", "sigmoid",
                  "silu", "tanh", "gelu_erf", "gelu_tanh", "elu", "abs", "neg", "sqrt", "exp",
                  "log", "reciprocal", "floor", "ceil", "round", "sign", "erf", "sin", "cos", "tan",
                  "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "softplus",
                  "softsign", "mish", "selu", "celu", "thresholded_relu", "shrink", "logical_not",
                  "is_nan", "is_inf", "bitwise_not", "square")
FOLD8_ENUMERATORS(BinaryKind, "add", "sub", "mul", "div", "pow", "min", "max", "mod", "fmod",
                  "prelu", "equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
                  "logical_or", "logical_xor", "bit_and", "bit_or", "bit_xor", "shift_left",
                  "shift_right")
FOLD8_ENUMERATORS(AutoPad, "none", "same_upper", "same_lower")
FOLD8_ENUMERATORS(PoolKind, "max", "average", "lp")
FOLD8_ENUMERATORS(ResizeMode, "nearest", "linear", "cubic")
FOLD8_ENUMERATORS(Coordinates, "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                  "half_pixel_symmetric", "tf_crop_and_resize")
FOLD8_ENUMERATORS(NearestMode, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
FOLD8_ENUMERATORS(NormKind, "layer", "rms", "group", "instance")
FOLD8_ENUMERATORS(ReduceKind, "sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square",
                  "log_sum", "log_sum_exp")
FOLD8_ENUMERATORS(Pad::Mode, "constant", "reflect", "edge", "wrap")
FOLD8_ENUMERATORS(ScatterReduction, "none", "add", "mul", "min", "max")
#undef FOLD8_ENUMERATORS

std::string_view enum_name(UnaryKind e) { return enumerator_name(e); }
std::string_view enum_name(BinaryKind e) { return enumerator_name(e); }
std::string_view enum_name(PoolKind e) { return enumerator_name(e); }
std::string_view enum_name(NormKind e) { return enumerator_name(e); }
std::string_view enum_name(ReduceKind e) { return enumerator_name(e); }
std::string_view enum_name(Activation e) { return enumerator_name(e); }

std::string display_name(const Op& op) {
  if (const auto* u = std::get_if<Unary>(&op)) return std::string(enum_name(u->kind));
  if (const auto* b = std::get_if<Binary>(&op)) return std::string(enum_name(b->kind));
  if (const auto* p = std::get_if<Pool>(&op))
    return (p->global ? "global_" : "") + std::string(enum_name(p->kind)) + "_pool";
  if (const auto* n = std::get_if<Norm>(&op)) return std::string(enum_name(n->kind)) + "_norm";
  if (const auto* r = std::get_if<Reduce>(&op)) return "reduce_" + std::string(enum_name(r->kind));
  if (const auto* c = std::get_if<Conv>(&op))
    return c->transposed ? "conv_transpose" : c->group > 1 ? "grouped_conv" : "conv";
  if (const auto* a = std::get_if<ArgReduce>(&op)) return a->max ? "arg_max" : "arg_min";
  return std::string(name(op));
}

namespace {

template <std::size_t I = 0>
std::optional<Op> find_op(std::string_view text) {
  if constexpr (I < std::variant_size_v<Op>) {
    using O = std::variant_alternative_t<I, Op>;
    if (O::kName == text) return Op(O{});
    return find_op<I + 1>(text);
  } else {
    return std::nullopt;
  }
}

}  // namespace

std::optional<Op> op_from_name(std::string_view text) { return find_op(text); }

bool equal(const Op& a, const Op& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) {
        using O = std::decay_t<decltype(x)>;
        const O& y = std::get<O>(b);
        bool same = true;
        O::each_field_of(x, [&](std::string_view field, const auto& mine) {
          O::each_field_of(y, [&](std::string_view other, const auto& theirs) {
            if constexpr (std::is_same_v<decltype(mine), decltype(theirs)>)
              if (field == other) same = same && mine == theirs;
          });
        });
        return same;
      },
      a);
}

}  // namespace fold8::graph
