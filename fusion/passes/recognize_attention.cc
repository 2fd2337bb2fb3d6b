// Attention as exporters write it, scales and transposes already inside the products
// (fuse_matmul.cc):
//   softmax(alpha * q k^T [+ mask [+ mask]]) v                =>  attention(q, k, v, mask)
//   softmax(where(seen, alpha * q k^T, c)) v, or the arms the other way round
// c <= -1e30 as a mask of its own: where(seen, 0, c), added, since a score beside it is rounded
// away; c = -inf alone as `seen` itself, which hides a score that is NaN, too. Masks are added to
// each other first, once for all layers that have the same. Operands are [B, heads, S, D]; of rank
// 3 they are one head of rows.
#include <cmath>

#include "fusion/passes/attention_operands.h"
#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::Attention;
using graph::Graph;
using graph::MatMul;
using graph::ValueId;

namespace {

std::vector<Pattern> patterns() {
  const auto scores = op<MatMul>("scores", {any("q"), any("k")});
  const auto hidden = op<graph::Where>("where", {any("seen"), scores, scalar("c")}),
             shown = op<graph::Where>("where", {any("hidden"), scalar("c"), scores});
  const auto masked = either({scores, scores + any("mask"), (scores + any("mask")) + any("mask2"),
                              hidden, shown, hidden + any("mask"), shown + any("mask")});
  return {op<MatMul>("out", {op<graph::Softmax>("softmax", {masked}), any("v")})};
}

bool plain_f32(const Graph& g, ValueId v) {
  const graph::Value& value = g.value(v);
  return value.has_type && value.type.dtype == DType::f32 && !value.type.quant;
}

// What stands for the number of heads and their sizes; nullopt where they are not known.
std::optional<Attention> attention_of(const Graph& g, const Match& m) {
  const auto& scores = std::get<MatMul>(g.node(m.node("scores")).op);
  const auto& out = std::get<MatMul>(g.node(m.root).op);
  const Shape &q = g.type(m["q"]).shape, &k = g.type(m["k"]).shape, &v = g.type(m["v"]).shape;
  const int rank = q.rank();
  if ((rank != 3 && rank != 4) || k.rank() != rank || v.rank() != rank) return std::nullopt;
  if (scores.transpose_a || out.transpose_a || out.alpha != 1.0f) return std::nullopt;
  Attention a;
  a.scale = scores.alpha;
  const Dim depth = q[rank - 1], key_depth = k[rank - (scores.transpose_b ? 1 : 2)],
            value_depth = v[rank - (out.transpose_b ? 2 : 1)];
  const Dim d = depth.known() ? depth : key_depth;
  if (!d.known() || !value_depth.known() || d.value() < 1 || value_depth.value() < 1)
    return std::nullopt;
  a.depth = d.value();
  a.value_depth = value_depth.value();
  if (rank == 3) {
    a.q_rows = a.k_rows = a.v_rows = a.y_rows = true;
  } else {
    if (!q[1].known() || !k[1].known() || !v[1].known() || q[1].value() != k[1].value() ||
        q[1].value() != v[1].value() || q[1].value() < 1)
      return std::nullopt;
    a.heads = a.kv_heads = q[1].value();
  }
  // Batches that broadcast are not those of the operator.
  if (!same_shape(Shape{q[0]}, Shape{k[0]}) || !same_shape(Shape{q[0]}, Shape{v[0]}))
    return std::nullopt;
  return a;
}

// A mask the operator takes: of rank 4, or of less where that says the same.
std::optional<ValueId> fitting_mask(Graph& g, ValueId mask, const Shape& scores) {
  const Shape& s = g.type(mask).shape;
  const int rank = s.rank();
  if (rank > scores.rank()) return std::nullopt;
  for (int i = 1; i <= rank; ++i) {
    const Dim d = s[rank - i], want = scores[scores.rank() - i];
    if (differ(d, Dim(1)) && differ(d, want)) return std::nullopt;
  }
  if (scores.rank() == 4 || rank < 3) return mask;
  return unsqueezed(g, mask, 1);  // [B, S, T] of one head
}

// What a node that fits makes, or kNoValue: layers share what their masks need.
template <class Op, class Fits>
ValueId made_before(const Graph& g, const Fits& fits) {
  for (graph::NodeId id = 0; id < g.node_count(); ++id) {
    const graph::Node& n = g.node(id);
    const auto* op = n.dead ? nullptr : std::get_if<Op>(&n.op);
    if (op != nullptr && fits(*op, n)) return n.outputs[0];
  }
  return graph::kNoValue;
}

// The condition under which keys are seen.
ValueId seen_mask(Graph& g, const Match& m) {
  if (m.has("seen")) return m["seen"];
  const ValueId hidden = m["hidden"];
  const ValueId before = made_before<graph::Unary>(g, [&](const graph::Unary& u, const auto& n) {
    return u.kind == graph::UnaryKind::logical_not && n.inputs[0] == hidden;
  });
  if (before != graph::kNoValue) return before;
  const std::string name = g.fresh_name(g.value(hidden).name + "_not");
  const ValueId seen = g.add_value(name, g.type(hidden));
  g.add_node(graph::Unary{graph::UnaryKind::logical_not}, name, {hidden}, {seen});
  return seen;
}

ValueId where_mask(Graph& g, const Match& m) {
  const bool seen = m.has("seen");
  const ValueId condition = m[seen ? "seen" : "hidden"];
  const ValueId before = made_before<graph::Where>(g, [&](const graph::Where&, const auto& n) {
    return n.inputs[0] == condition && n.outputs[0] != graph::kNoValue &&
           g.type(n.outputs[0]).shape == g.type(condition).shape &&
           scalar_value(g, n.inputs[seen ? 1 : 2]) == 0.0 &&
           scalar_value(g, n.inputs[seen ? 2 : 1]) == scalar_value(g, m["c"]);
  });
  if (before != graph::kNoValue) return before;
  const std::string name = g.fresh_name(g.value(condition).name + "_mask");
  const double zero = 0;
  const ValueId none = add_floats(g, name + "_zero", Shape({}), std::span(&zero, 1)), c = m["c"];
  const ValueId mask = g.add_value(name, {DType::f32, g.type(condition).shape, {}, Layout::plain});
  g.add_node(graph::Where{}, name, {condition, seen ? none : c, seen ? c : none}, {mask});
  return mask;
}

ValueId sum(Graph& g, ValueId a, ValueId b) {
  const ValueId before =
      made_before<graph::Binary>(g, [&](const graph::Binary& add, const auto& n) {
        return add.kind == graph::BinaryKind::add && n.inputs == std::vector<ValueId>{a, b} &&
               n.outputs[0] != graph::kNoValue && !g.type(n.outputs[0]).quant &&
               g.type(n.outputs[0]).dtype == DType::f32;
      });
  if (before != graph::kNoValue) return before;
  const auto shape = broadcast(g.type(a).shape, g.type(b).shape);
  const std::string name = g.fresh_name(g.value(a).name + "_with_" + g.value(b).name);
  const ValueId y = g.add_value(name, {DType::f32, *shape, {}, Layout::plain});
  g.add_node(graph::Binary{graph::BinaryKind::add}, name, {a, b}, {y});
  return y;
}

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  for (const char* name : {"q", "k", "v"})
    if (!plain_f32(g, m[name])) return Outcome{NotMine{}};
  const ValueId scores_value = g.node(m.node("scores")).outputs[0];
  const auto& softmax = std::get<graph::Softmax>(g.node(m.node("softmax")).op);
  const Shape scores = g.type(scores_value).shape;
  if (softmax.log || (softmax.axis != scores.rank() - 1 && softmax.axis != -1))
    return Outcome{NotMine{}};
  std::optional<Attention> op = attention_of(g, m);
  if (!op) return Outcome{NotMine{}};
  std::vector<ValueId> masks;
  if (m.node("where") != graph::kNoNode) {
    const double c = *scalar_value(g, m["c"]);
    if (!(c <= -1e30)) return Outcome{NotMine{}};
    const bool alone = std::isinf(c) && !m.has("mask");
    masks.push_back(alone ? seen_mask(g, m) : where_mask(g, m));
  }
  for (const char* name : {"mask", "mask2"})
    if (m.has(name)) masks.push_back(m[name]);
  ValueId mask = graph::kNoValue;
  for (ValueId v : masks) {
    const bool shows = g.type(v).dtype == DType::boolean && masks.size() == 1;
    if ((g.type(v).dtype != DType::f32 && !shows) || g.type(v).quant) return Outcome{NotMine{}};
    const auto fits = fitting_mask(g, v, scores);
    if (!fits) return Outcome{NotMine{}};
    mask = mask == graph::kNoValue ? *fits : sum(g, mask, *fits);
  }
  const ValueId k = std::get<MatMul>(g.node(m.node("scores")).op).transpose_b
                        ? m["k"]
                        : last_two_swapped(g, m["k"]),
                v = std::get<MatMul>(g.node(m.root).op).transpose_b ? last_two_swapped(g, m["v"])
                                                                    : m["v"];
  std::vector<ValueId> inputs{m["q"], k, v};
  if (mask != graph::kNoValue) inputs.push_back(mask);
  return Outcome{Replace{*op, inputs, {}}};
}

}  // namespace

const Rewrite recognize_attention{"recognize_attention", patterns, apply, nullptr, true};

}  // namespace fold8::fusion
