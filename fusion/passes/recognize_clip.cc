// Clips written as Min and Max by a number, and clips in a row:
//   max(x, c)  =>  clip(x, c, +inf)     max(x, 0)  =>  relu(x)     min(x, c)  =>  clip(x, -inf, c)
//   clip(clip(x, a, b), c, d)  =>  clip(x, min(max(a, c), d), min(max(b, c), d))     relu counts as
//   clip(x, 0, +inf)
#include <algorithm>
#include <cmath>

#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::BinaryKind;
using graph::Graph;
using graph::Unary;
using graph::UnaryKind;

namespace {

bool is_clip(const graph::Op& op) {
  const auto* u = std::get_if<Unary>(&op);
  return u != nullptr && (u->kind == UnaryKind::clip || u->kind == UnaryKind::relu);
}

std::vector<Pattern> patterns() {
  return {op_if("second", is_clip, {op_if("first", is_clip, {any("x")})}),
          binary(BinaryKind::max, any("x"), scalar("c")),
          binary(BinaryKind::min, any("x"), scalar("c"))};
}

Unary clip(float low, float high) {
  if (low == 0 && std::isinf(high) && high > 0) return {UnaryKind::relu, 0, 0};
  return {UnaryKind::clip, low, high};
}

std::pair<float, float> bounds(const graph::Op& op) {
  const Unary& u = std::get<Unary>(op);
  if (u.kind == UnaryKind::relu) return {0.0f, HUGE_VALF};
  return {u.a, u.b};
}

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  const TensorType& type = g.type(m["x"]);
  if (type.dtype != DType::f32 || type.quant) return Outcome{NotMine{}};
  if (m.node("first") != graph::kNoNode) {
    const auto [a, b] = bounds(g.node(m.node("first")).op);
    const auto [c, d] = bounds(g.node(m.root).op);
    if (!(a <= b) || !(c <= d)) return Outcome{NotMine{}};
    return Outcome{
        Replace{clip(std::min(std::max(a, c), d), std::min(std::max(b, c), d)), {m["x"]}, {}}};
  }
  const auto c = static_cast<float>(*scalar_value(g, m["c"]));
  if (std::isnan(c) || g.type(m["c"]).shape.rank() > type.shape.rank()) return Outcome{NotMine{}};
  const bool max = std::get<graph::Binary>(g.node(m.root).op).kind == BinaryKind::max;
  return Outcome{Replace{max ? clip(c, HUGE_VALF) : clip(-HUGE_VALF, c), {m["x"]}, {}}};
}

}  // namespace

const Rewrite recognize_clip{"recognize_clip", patterns, apply, nullptr, true};

}  // namespace fold8::fusion
