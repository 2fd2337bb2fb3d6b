// Into a product of two activations:
//   matmul(a, b) * c, matmul(a * c, b), matmul(a, b * c), and / c     =>  matmul(a, b), alpha *= c
//   matmul(transpose(a), b) with the last two axes swapped            =>  matmul(a, b), transpose_a
//   flipped
#include <cmath>

#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::BinaryKind;
using graph::Graph;
using graph::MatMul;
using graph::ValueId;

namespace {

Pattern scaled(Pattern x) {
  return either({binary(BinaryKind::mul, x, scalar("c"), "mul"),
                 binary(BinaryKind::div, x, scalar("c"), "div")});
}

std::vector<Pattern> scale_patterns() {
  const auto a = any("a"), b = any("b");
  return {scaled(op<MatMul>("product", {a, b})), op<MatMul>("product", {scaled(a), b}),
          op<MatMul>("product", {a, scaled(b)})};
}

Result<Outcome> scale_apply(const Match& m, Graph& g, const Context&) {
  for (const char* name : {"a", "b"})
    if (g.type(m[name]).dtype != DType::f32 || g.type(m[name]).quant) return Outcome{NotMine{}};
  // The number must not add axes to what it scales.
  if (g.type(m["c"]).shape.rank() > std::max(g.type(m["a"]).shape.rank(), 0) &&
      g.type(m["c"]).shape.rank() > 1)
    return Outcome{NotMine{}};
  MatMul op = std::get<MatMul>(g.node(m.node("product")).op);
  const double c = *scalar_value(g, m["c"]);
  const double alpha = m.node("div") != graph::kNoNode ? static_cast<double>(op.alpha) / c
                                                       : static_cast<double>(op.alpha) * c;
  op.alpha = static_cast<float>(alpha);
  if (!std::isfinite(op.alpha)) return Outcome{Decline{"alpha would leave the range of float"}};
  return Outcome{Replace{op, {m["a"], m["b"]}, g.node(m.node("product")).name}};
}

std::vector<Pattern> transpose_patterns() {
  return {op<MatMul>("", {op<graph::Transpose>("left", {any("a")}), any("b")}).open(),
          op<MatMul>("", {any("a"), op<graph::Transpose>("right", {any("b")})}).open()};
}

bool swaps_last_two(const Graph& g, const Match& m, graph::NodeId n, ValueId x) {
  const graph::Ints& perm = std::get<graph::Transpose>(g.node(n).op).perm;
  const auto rank = static_cast<std::size_t>(g.type(x).shape.rank());
  (void)m;
  if (rank < 2) return false;
  if (perm.empty()) return rank == 2;
  for (std::size_t i = 0; i + 2 < rank; ++i)
    if (perm[i] != static_cast<std::int64_t>(i)) return false;
  return perm[rank - 2] == static_cast<std::int64_t>(rank - 1) &&
         perm[rank - 1] == static_cast<std::int64_t>(rank - 2);
}

Result<Outcome> transpose_apply(const Match& m, Graph& g, const Context&) {
  const bool left = m.node("left") != graph::kNoNode;
  const graph::NodeId transpose = m.node(left ? "left" : "right");
  if (!swaps_last_two(g, m, transpose, m[left ? "a" : "b"])) return Outcome{NotMine{}};
  MatMul op = std::get<MatMul>(g.node(m.root).op);
  std::vector<ValueId> inputs = g.node(m.root).inputs;
  if (left)
    op.transpose_a = !op.transpose_a;
  else
    op.transpose_b = !op.transpose_b;
  inputs[left ? 0 : 1] = m[left ? "a" : "b"];
  return Outcome{Replace{op, inputs, {}}};
}

}  // namespace

const Rewrite fuse_matmul_scale{"fuse_matmul_scale", scale_patterns, scale_apply, nullptr, true};
const Rewrite fuse_matmul_transpose{"fuse_matmul_transpose", transpose_patterns, transpose_apply,
                                    nullptr, true};

}  // namespace fold8::fusion
