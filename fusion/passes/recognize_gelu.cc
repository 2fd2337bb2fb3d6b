// GELU as exporters write it, factors in any order and grouping:
//   x * 1/2 * (1 + erf(x/sqrt(2)))                              =>  gelu_erf(x)
//   x * 1/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))       =>  gelu_tanh(x)
#include "fusion/passes/passes.h"

namespace fold8::fusion {

using graph::Graph;
using graph::Unary;
using graph::UnaryKind;

namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

// x * (1 + f) / 2
std::vector<Pattern> half_product(const Pattern& x, const Pattern& f) {
  const auto phi = f + scalar(1);
  return {times(x * phi, 0.5), times(x, 0.5) * phi, x * times(phi, 0.5),
          x * (times(f, 0.5) + scalar(0.5))};
}

std::vector<Pattern> patterns() {
  const auto x = any("x");
  const auto square = either({x * x, pow(x, scalar(2)), unary(UnaryKind::square, x)});
  const auto cube = either({pow(x, scalar(3)), x * square});
  // x + c*x^3; also x*(1 + c*x^2)
  const auto c_square = either({times(square, kCubic), times(x, kCubic) * x});
  const auto c_cube = either(
      {times(cube, kCubic), times(square, kCubic) * x, times(x, kCubic) * square, x * c_square});
  const auto one_plus = c_square + scalar(1);
  const auto inner = either({times(x + c_cube, kSqrtTwoOverPi), times(x, kSqrtTwoOverPi) * one_plus,
                             times(x * one_plus, kSqrtTwoOverPi)});
  std::vector<Pattern> all = half_product(x, unary(UnaryKind::erf, times(x, kSqrtHalf), "erf"));
  for (Pattern& p : half_product(x, unary(UnaryKind::tanh, inner, "tanh")))
    all.push_back(std::move(p));
  return all;
}

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  if (g.type(m["x"]).dtype != DType::f32 || g.type(m["x"]).quant || g.is_constant(m["x"]))
    return Outcome{NotMine{}};
  const UnaryKind kind =
      m.node("erf") != graph::kNoNode ? UnaryKind::gelu_erf : UnaryKind::gelu_tanh;
  return Outcome{Replace{Unary{kind, 0, 0}, {m["x"]}, {}}};
}

}  // namespace

const Rewrite recognize_gelu{"recognize_gelu", patterns, apply, nullptr, true};

}  // namespace fold8::fusion
