// Sigmoid and its relatives as exporters write them:
//   1/(1+exp(-x)), tanh(x/2)/2+1/2          =>  sigmoid(x)
//   x*sigmoid(x), x*sigmoid(a*x), x/(1+exp(-x))  =>  silu(x) with a
//   log(1+exp(x))                           =>  softplus(x)
//   x*tanh(softplus(x))                     =>  mish(x)
#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::BinaryKind;
using graph::Graph;
using graph::Unary;
using graph::UnaryKind;

namespace {

std::vector<Pattern> patterns() {
  const auto x = any("x");
  const auto one_plus_exp_minus = unary(UnaryKind::exp, unary(UnaryKind::neg, x)) + scalar(1);
  const auto half_tanh = unary(UnaryKind::tanh, times(x, 0.5));
  return {
      binary(BinaryKind::mul, x, unary(UnaryKind::sigmoid, x), "silu"),
      binary(BinaryKind::mul, x, unary(UnaryKind::sigmoid, x * scalar("alpha")), "silu"),
      binary(BinaryKind::div, x, one_plus_exp_minus, "silu"),
      binary(BinaryKind::mul, x, unary(UnaryKind::tanh, unary(UnaryKind::softplus, x)), "mish"),
      unary(UnaryKind::log, unary(UnaryKind::exp, x) + scalar(1), "softplus"),
      scalar(1) / one_plus_exp_minus,
      unary(UnaryKind::reciprocal, one_plus_exp_minus),
      times(half_tanh, 0.5) + scalar(0.5),
      times(half_tanh + scalar(1), 0.5),
  };
}

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  if (g.type(m["x"]).dtype != DType::f32 || g.type(m["x"]).quant || g.is_constant(m["x"]))
    return Outcome{NotMine{}};
  Unary result{UnaryKind::sigmoid, 0, 0};
  if (m.node("silu") != graph::kNoNode) {
    const auto alpha = scalar_value(g, m["alpha"]);
    result = {UnaryKind::silu, alpha ? static_cast<float>(*alpha) : 1.0f, 0};
  } else if (m.node("mish") != graph::kNoNode) {
    result.kind = UnaryKind::mish;
  } else if (m.node("softplus") != graph::kNoNode) {
    result.kind = UnaryKind::softplus;
  }
  return Outcome{Replace{result, {m["x"]}, {}}};
}

}  // namespace

const Rewrite recognize_sigmoid{"recognize_sigmoid", patterns, apply, nullptr, true};

}  // namespace fold8::fusion
