// An activation becomes the end of the operator in front of it:
//   act(op(x))  =>  op(x) with activation act          op: Linear, Conv, Binary add, sub, mul, div,
//   Affine
// Only if the value between them is f32: a u8 one would have been rounded.
#include <cmath>
#include <optional>

#include "fusion/passes/affine.h"
#include "fusion/passes/passes.h"

namespace fold8::fusion {

using graph::BinaryKind;
using graph::Graph;
using graph::Unary;
using graph::UnaryKind;

namespace {

bool takes_activation(const graph::Op& op) {
  if (const auto* b = std::get_if<graph::Binary>(&op))
    return b->kind == BinaryKind::add || b->kind == BinaryKind::sub || b->kind == BinaryKind::mul ||
           b->kind == BinaryKind::div;
  return is_linear_layer(op) || std::holds_alternative<graph::Affine>(op);
}

struct Fused {
  Activation activation;
  float a, b;
};

// The epilogue's word for a Unary, if it has one.
std::optional<Fused> as_activation(const Unary& u) {
  switch (u.kind) {
    case UnaryKind::relu:
      return Fused{Activation::clip, 0.0f, HUGE_VALF};
    case UnaryKind::clip:
      return Fused{Activation::clip, u.a, u.b};
    case UnaryKind::leaky_relu:
      return Fused{Activation::leaky_relu, u.a, 0};
    case UnaryKind::hard_sigmoid:
      return Fused{Activation::hard_sigmoid, u.a, u.b};
    case UnaryKind::hard_swish:
      return Fused{Activation::hard_swish, u.a, u.b};
    case UnaryKind::sigmoid:
      return Fused{Activation::sigmoid, 0, 0};
    case UnaryKind::silu:
      return Fused{Activation::silu, u.a, 0};
    case UnaryKind::tanh:
      return Fused{Activation::tanh, 0, 0};
    case UnaryKind::gelu_erf:
      return Fused{Activation::gelu_erf, 0, 0};
    case UnaryKind::gelu_tanh:
      return Fused{Activation::gelu_tanh, 0, 0};
    case UnaryKind::elu:
      return Fused{Activation::elu, u.a, 0};
    default:
      return std::nullopt;
  }
}

std::vector<Pattern> patterns() {
  return {op<Unary>("", {op_if("inner", takes_activation, {any("")}).open()},
                    [](const Unary& u) { return as_activation(u).has_value(); })};
}

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  const graph::Node& inner = g.node(m.node("inner"));
  const TensorType& between = g.type(inner.outputs[0]);
  if (between.dtype != DType::f32 || between.quant)
    return Outcome{Decline{"'" + g.value(inner.outputs[0]).name + "' is rounded in front of it"}};
  const Fused fused = *as_activation(std::get<Unary>(g.node(m.root).op));
  graph::Op op = inner.op;
  const bool free = std::visit(
      [&](auto& o) {
        if constexpr (requires {
                        o.activation;
                        o.a;
                        o.b;
                      }) {
          if (o.activation != Activation::none) return false;
          o.activation = fused.activation;
          o.a = fused.a;
          o.b = fused.b;
          return true;
        }
        return false;
      },
      op);
  if (!free)
    return Outcome{Decline{describe(g, m.node("inner")) + " already ends in an activation"}};
  return Outcome{Replace{std::move(op), inner.inputs, inner.name}};
}

}  // namespace

const Rewrite fuse_activation{"fuse_activation", patterns, apply, nullptr, true};

}  // namespace fold8::fusion
