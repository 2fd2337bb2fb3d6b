// Rotary position embedding as exporters write it (rotate_half of Hugging Face):
//   x * cos + concat(-x[.., D/2:], x[.., :D/2]) * sin          =>  rotary(x, cos, sin)
// The two halves by Slice or by Split, x [B, heads, S, D].
#include <algorithm>

#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::Graph;
using graph::Ints;
using graph::NodeId;
using graph::ValueId;

namespace {

std::vector<Pattern> patterns() {
  const auto x = any("x");
  const auto turned = [&](const Pattern& upper, const Pattern& lower) {
    return op<graph::Concat>("both", {unary(graph::UnaryKind::neg, upper), lower});
  };
  const auto slices =
      turned(op<graph::Slice>("upper", {x}).open(), op<graph::Slice>("lower", {x}).open());
  const auto split = op<graph::Split>("split", {x}).open().any_result();
  std::vector<Pattern> found;
  for (const Pattern& both : {slices, turned(split, split)})
    found.push_back(x * any("cos") + both * any("sin"));
  return found;
}

// The node cuts [begin, end) out of the last axis.
bool cuts(const Graph& g, NodeId node, int axis, std::int64_t extent, std::int64_t begin,
          std::int64_t end) {
  const graph::Node& n = g.node(node);
  const auto starts = integers(g, n.inputs[1]), ends = integers(g, n.inputs[2]);
  const auto axes = n.inputs.size() > 3 ? integers(g, n.inputs[3]) : std::nullopt;
  if (!starts || !ends || !axes || starts->size() != 1 || axes->size() != 1) return false;
  if (n.inputs.size() > 4 && integers(g, n.inputs[4]) != Ints{1}) return false;
  const auto whole = [extent](std::int64_t i) { return i < 0 ? i + extent : std::min(i, extent); };
  return whole((*axes)[0] < 0 ? (*axes)[0] + axis + 1 : (*axes)[0]) == axis &&
         whole((*starts)[0]) == begin && whole((*ends)[0]) == end;
}

// Tables the operator takes: a row of `depth` per token, one head for all.
bool is_table(const Shape& table, const Shape& x) {
  const int rank = table.rank();
  if (rank < 2 || rank > 4 || !same_shape(Shape{table[rank - 1]}, Shape{x[3]})) return false;
  if (!same_shape(Shape{table[rank - 2]}, Shape{x[2]})) return false;
  if (rank >= 3 && !(table[rank - 3].known() && table[rank - 3].value() == 1)) return false;
  return rank < 4 || (table[0].known() && table[0].value() == 1) ||
         same_shape(Shape{table[0]}, Shape{x[0]});
}

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  const Shape& x = g.type(m["x"]).shape;
  if (g.type(m["x"]).dtype != DType::f32 || g.type(m["x"]).quant || x.rank() != 4 ||
      !x[1].known() || !x[3].known() || x[3].value() % 2 != 0)
    return Outcome{NotMine{}};
  for (const char* table : {"cos", "sin"})
    if (g.type(m[table]).dtype != DType::f32 || g.type(m[table]).quant ||
        !is_table(g.type(m[table]).shape, x))
      return Outcome{NotMine{}};
  const std::int64_t depth = x[3].value(), half = depth / 2;
  const auto& both = std::get<graph::Concat>(g.node(m.node("both")).op);
  if (both.axis != 3) return Outcome{NotMine{}};
  if (m.node("split") != graph::kNoNode) {
    const graph::Node& split = g.node(m.node("split"));
    const NodeId neg = m.index->producer(g.node(m.node("both")).inputs[0]);
    if (std::get<graph::Split>(split.op).axis != 3 || split.outputs.size() != 2 ||
        g.node(neg).inputs[0] != split.outputs[1] ||
        g.node(m.node("both")).inputs[1] != split.outputs[0] ||
        !same_shape(Shape{g.type(split.outputs[0]).shape[3]}, Shape{Dim(half)}))
      return Outcome{NotMine{}};
  } else if (!cuts(g, m.node("upper"), 3, depth, half, depth) ||
             !cuts(g, m.node("lower"), 3, depth, 0, half)) {
    return Outcome{NotMine{}};
  }
  graph::Rotary op;
  op.heads = x[1].value();
  op.depth = op.dims = depth;
  return Outcome{Replace{op, {m["x"], m["cos"], m["sin"]}, {}}};
}

}  // namespace

const Rewrite recognize_rotary{"recognize_rotary", patterns, apply, nullptr, true};

}  // namespace fold8::fusion
