// Data movement in a row:
//   transpose_q(transpose_p(x))  =>  transpose_(p then q)(x)        (a pair that cancels goes
//   altogether, by drop_noop) view2(view1(x))              =>  x, if the shape is x's again
//   reshape(view(x), shape)      =>  reshape(x, shape)
// The first one may have other readers: they keep it.
#include <algorithm>

#include "fusion/passes/movement.h"
#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::Graph;

namespace {

std::vector<Pattern> patterns() {
  return {op<graph::Transpose>("", {op<graph::Transpose>("first", {any("x")})}).shared(),
          op_if("", is_view, {op_if("first", is_view, {any("x")}).open()}).open().shared()};
}

graph::Ints full_perm(const graph::Transpose& t, int rank) {
  graph::Ints perm = t.perm;
  if (perm.empty())
    for (int i = rank - 1; i >= 0; --i) perm.push_back(i);
  return perm;
}

Outcome merge_transposes(const Match& m, const Graph& g) {
  const int rank = g.type(m["x"]).shape.rank();
  const graph::Ints p = full_perm(std::get<graph::Transpose>(g.node(m.node("first")).op), rank);
  const graph::Ints q = full_perm(std::get<graph::Transpose>(g.node(m.root).op), rank);
  if (p.size() != q.size()) return NotMine{};
  graph::Ints perm;
  for (const std::int64_t i : q) perm.push_back(p[static_cast<std::size_t>(i)]);
  return Replace{graph::Transpose{perm}, {m["x"]}, {}};
}

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  const graph::Node& root = g.node(m.root);
  if (!g.value(m["x"]).has_type || !g.value(root.outputs[0]).has_type) return Outcome{NotMine{}};
  if (std::holds_alternative<graph::Transpose>(root.op)) return Outcome{merge_transposes(m, g)};
  const TensorType &in = g.type(m["x"]), &out = g.type(root.outputs[0]);
  if (in.dtype == out.dtype && in.quant == out.quant && same_shape_given_count(in.shape, out.shape))
    return Outcome{Forward{m["x"]}};
  const auto* reshape = std::get_if<graph::Reshape>(&root.op);
  if (reshape == nullptr || in.quant ||
      std::holds_alternative<graph::Identity>(g.node(m.node("first")).op))
    return Outcome{NotMine{}};
  const auto shape = integers(g, root.inputs[1]);
  // A 0 copies an extent of the tensor in front, which is about to be another one.
  if (!shape || (!reshape->allow_zero && std::count(shape->begin(), shape->end(), 0) > 0))
    return Outcome{NotMine{}};
  return Outcome{Replace{*reshape, {m["x"], root.inputs[1]}, {}}};
}

}  // namespace

const Rewrite merge_movement{"merge_movement", patterns, apply};

}  // namespace fold8::fusion
