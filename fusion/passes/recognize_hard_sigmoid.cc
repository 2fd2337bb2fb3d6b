// HardSigmoid and HardSwish as exporters write them:
//   clip(x+3, 0, 6)/6, clip((x+3)/6, 0, 1), clip(a*x+b, 0, 1)   =>  hard_sigmoid(x) with a, b
//   x*hard_sigmoid(x), (x*clip(x+3, 0, 6))/6, (x/6)*clip(...)   =>  hard_swish(x) with a, b
#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::BinaryKind;
using graph::Graph;
using graph::Unary;
using graph::UnaryKind;

namespace {

constexpr double kSixth = 1.0 / 6;

Pattern clip(Pattern x, float low, float high) {
  return op<Unary>("", {std::move(x)}, [low, high](const Unary& u) {
    return u.kind == UnaryKind::clip && u.a == low && u.b == high;
  });
}

std::vector<Pattern> patterns() {
  const auto x = any("x");
  const auto relu6 = clip(x + scalar(3), 0, 6);
  const auto gate = unary(UnaryKind::hard_sigmoid, x, "gate");
  return {
      binary(BinaryKind::mul, x, gate, "swish"),
      binary(BinaryKind::mul, x * relu6, scalar(kSixth), "swish"),
      binary(BinaryKind::div, x * relu6, scalar(6), "swish"),
      binary(BinaryKind::mul, times(x, kSixth), relu6, "swish"),
      times(relu6, kSixth),
      clip(times(x + scalar(3), kSixth), 0, 1),
      clip(x * scalar("a") + scalar("b"), 0, 1),
      clip(x / scalar("reciprocal") + scalar("b"), 0, 1),
  };
}

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  if (g.type(m["x"]).dtype != DType::f32 || g.type(m["x"]).quant || g.is_constant(m["x"]))
    return Outcome{NotMine{}};
  double a = kSixth, b = 0.5;
  if (const auto given = scalar_value(g, m["b"])) b = *given;
  if (const auto given = scalar_value(g, m["a"])) a = *given;
  if (const auto given = scalar_value(g, m["reciprocal"])) a = 1 / *given;
  Unary result{m.node("swish") != graph::kNoNode ? UnaryKind::hard_swish : UnaryKind::hard_sigmoid,
               static_cast<float>(a), static_cast<float>(b)};
  if (m.node("gate") != graph::kNoNode) {
    const Unary& gate = std::get<Unary>(g.node(m.node("gate")).op);
    result.a = gate.a;
    result.b = gate.b;
  }
  return Outcome{Replace{result, {m["x"]}, {}}};
}

}  // namespace

const Rewrite recognize_hard_sigmoid{"recognize_hard_sigmoid", patterns, apply, nullptr, true};

}  // namespace fold8::fusion
