// Attention and Rotary read and write heads where the linear layers around them have them:
//   attention(.., transpose_0213(x), ..)         =>  attention(.., rows of x, ..)
//   attention(.., part i of transpose_20314(x))  =>  the same, from column i * heads * D on (q, k
//   and v
//                                                    of one layer)
//   attention(.., split_last(x)[i], ..)          =>  the same, from the part's first column on
//   rotary(transpose_0213(x))                    =>  transpose_0213(rotary(rows of x))
//   transpose_0213(attention)                    =>  attention that writes rows
// and heads of keys that are repeated for groups of queries (GQA) are read where they are:
//   attention(q, repeat(k), repeat(v))           =>  attention(q, k, v) with fewer kv_heads
#include <algorithm>

#include "fusion/passes/attention_operands.h"
#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::Attention;
using graph::Graph;
using graph::Ints;
using graph::NodeId;
using graph::Rotary;
using graph::ValueId;

namespace {

// Attributes of operand 0, 1 or 2.
struct Operand {
  bool Attention::*rows;
  std::int64_t Attention::*offset;
  std::int64_t Attention::*heads;
  std::int64_t Attention::*depth;
};
constexpr Operand kOperands[] = {
    {&Attention::q_rows, &Attention::q_offset, &Attention::heads, &Attention::depth},
    {&Attention::k_rows, &Attention::k_offset, &Attention::kv_heads, &Attention::depth},
    {&Attention::v_rows, &Attention::v_offset, &Attention::kv_heads, &Attention::value_depth}};

// Patterns with `operand` in place of q, of k and of v.
std::vector<Pattern> at_each_operand(const Pattern& operand) {
  const auto q = any("q"), k = any("k"), v = any("v");
  return {op<Attention>("attention", {operand, k, v}).open().shared(),
          op<Attention>("attention", {q, operand, v}).open().shared(),
          op<Attention>("attention", {q, k, operand}).open().shared()};
}

// Which operand the pattern found: the one without a name of its own.
std::size_t found_operand(const Match& m) { return !m.has("q") ? 0 : !m.has("k") ? 1 : 2; }

Outcome with_operand(const Match& m, const Graph& g, const Attention& op, std::size_t i,
                     ValueId operand) {
  std::vector<ValueId> inputs = g.node(m.root).inputs;
  inputs[i] = operand;
  return Replace{op, inputs, {}};
}

bool swaps_heads_and_tokens(const graph::Op& op) {
  const auto* t = std::get_if<graph::Transpose>(&op);
  return t != nullptr && t->perm == Ints{0, 2, 1, 3};
}
Pattern heads_first(Pattern x) { return op_if("swap", swaps_heads_and_tokens, {x}); }

// ---- transpose_0213
std::vector<Pattern> rows_patterns() { return at_each_operand(heads_first(any("x"))); }

Result<Outcome> rows_apply(const Match& m, Graph& g, const Context&) {
  const std::size_t i = found_operand(m);
  Attention op = std::get<Attention>(g.node(m.root).op);
  if (op.*kOperands[i].rows) return Outcome{NotMine{}};
  const std::int64_t width = op.*kOperands[i].heads * op.*kOperands[i].depth;
  op.*kOperands[i].rows = true;
  return Outcome{with_operand(m, g, op, i, tokens_reshaped(g, m["x"], {width}))};
}

// ---- one of three in front of [B, heads, S, D]
bool thirds_first(const graph::Op& op) {
  const auto* t = std::get_if<graph::Transpose>(&op);
  return t != nullptr && t->perm == Ints{2, 0, 3, 1, 4};
}
std::vector<Pattern> thirds_patterns() {
  const auto all = op_if("swap", thirds_first, {any("x")});
  std::vector<Pattern> found;
  for (const Pattern& part :
       {op<graph::Squeeze>("squeeze", {op<graph::Split>("part", {all}).open().any_result()}),
        op<graph::Squeeze>("squeeze", {op<graph::Slice>("part", {all}).open()}),
        op<graph::Gather>("part", {all, any("index")})})
    for (Pattern& p : at_each_operand(part)) found.push_back(std::move(p));
  return found;
}

// Which part of axis 0 the node `part` cuts out, one element of it; nullopt if it does not.
std::optional<std::int64_t> part_of_first_axis(const Graph& g, const Match& m, std::int64_t parts) {
  const graph::Node& n = g.node(m.node("part"));
  if (const auto* gather = std::get_if<graph::Gather>(&n.op)) {
    const auto index = integers(g, m["index"]);
    if (gather->axis != 0 || !index || index->size() != 1 || g.type(m["index"]).shape.rank() != 0)
      return std::nullopt;
    return (*index)[0] < 0 ? (*index)[0] + parts : (*index)[0];
  }
  if (std::holds_alternative<graph::Split>(n.op)) {
    const ValueId read = g.node(m.node("squeeze")).inputs[0];
    const auto at = std::find(n.outputs.begin(), n.outputs.end(), read) - n.outputs.begin();
    if (std::get<graph::Split>(n.op).axis != 0 ||
        static_cast<std::int64_t>(n.outputs.size()) != parts)
      return std::nullopt;
    return at;
  }
  const auto starts = integers(g, n.inputs[1]), ends = integers(g, n.inputs[2]);
  const auto axes = n.inputs.size() > 3 ? integers(g, n.inputs[3]) : Ints{0};
  if (!starts || !ends || !axes || starts->size() != 1 || *axes != Ints{0}) return std::nullopt;
  const auto whole = [parts](std::int64_t i) { return i < 0 ? i + parts : std::min(i, parts); };
  if (whole((*ends)[0]) - whole((*starts)[0]) != 1) return std::nullopt;
  if (n.inputs.size() > 4 && integers(g, n.inputs[4]) != Ints{1}) return std::nullopt;
  return whole((*starts)[0]);
}

Result<Outcome> thirds_apply(const Match& m, Graph& g, const Context&) {
  const std::size_t i = found_operand(m);
  Attention op = std::get<Attention>(g.node(m.root).op);
  const Shape& x = g.type(m["x"]).shape;  // [B, S, parts, heads, D]
  if (op.*kOperands[i].rows || x.rank() != 5 || !x[2].known()) return Outcome{NotMine{}};
  const std::int64_t each = op.*kOperands[i].heads * op.*kOperands[i].depth;
  const auto part = part_of_first_axis(g, m, x[2].value());
  if (!part || *part < 0 || *part >= x[2].value()) return Outcome{NotMine{}};
  if (m.node("squeeze") != graph::kNoNode) {
    const Ints& axes = std::get<graph::Squeeze>(g.node(m.node("squeeze")).op).axes;
    if (axes != Ints{0}) return Outcome{NotMine{}};
  }
  op.*kOperands[i].rows = true;
  op.*kOperands[i].offset = *part * each;
  return Outcome{with_operand(m, g, op, i, tokens_reshaped(g, m["x"], {x[2].value() * each}))};
}

// ---- a part of the last axis
std::vector<Pattern> split_patterns() {
  return at_each_operand(op<graph::Split>("split", {any("x")}).open().any_result());
}

Result<Outcome> split_apply(const Match& m, Graph& g, const Context&) {
  const std::size_t i = found_operand(m);
  Attention op = std::get<Attention>(g.node(m.root).op);
  const graph::Node& split = g.node(m.node("split"));
  const auto& parts = std::get<graph::Split>(split.op);
  if (!(op.*kOperands[i].rows) || parts.axis != 2) return Outcome{NotMine{}};
  // Outputs that nobody reads any more have no type.
  Ints sizes = parts.sizes;
  const Dim width = g.type(m["x"]).shape[2];
  const auto count = static_cast<std::int64_t>(split.outputs.size());
  if (sizes.empty() && split.inputs.size() > 1 && split.inputs[1] != graph::kNoValue)
    sizes = integers(g, split.inputs[1]).value_or(Ints{});
  else if (sizes.empty() && width.known() && width.value() % count == 0)
    sizes.assign(split.outputs.size(), width.value() / count);
  if (sizes.size() != split.outputs.size()) return Outcome{NotMine{}};
  const ValueId read = g.node(m.root).inputs[i];
  std::int64_t before = 0;
  for (std::size_t o = 0; split.outputs[o] != read; ++o) before += sizes[o];
  op.*kOperands[i].offset += before;
  return Outcome{with_operand(m, g, op, i, m["x"])};
}

// ---- rotary
std::vector<Pattern> rotary_patterns() {
  return {op<Rotary>("rotary", {heads_first(any("x")), any("cos"), any("sin")}).shared()};
}

Result<Outcome> rotary_apply(const Match& m, Graph& g, const Context&) {
  Rotary op = std::get<Rotary>(g.node(m.root).op);
  if (op.rows) return Outcome{NotMine{}};
  const std::int64_t width = op.heads * op.depth;
  op.rows = true;
  const ValueId rows = tokens_reshaped(g, m["x"], {width});
  const std::string name = g.fresh_name(g.value(g.node(m.root).outputs[0]).name + "_rows");
  const ValueId turned = g.add_value(name, g.type(rows));
  g.add_node(op, name, {rows, m["cos"], m["sin"]}, {turned});
  return Outcome{Replace{
      graph::Transpose{{0, 2, 1, 3}}, {tokens_reshaped(g, turned, {op.heads, op.depth})}, {}}};
}

// ---- what attention writes
std::vector<Pattern> output_patterns() {
  return {op_if("", swaps_heads_and_tokens, {op<Attention>("attention", {any("q")}).open()})};
}

Result<Outcome> output_apply(const Match& m, Graph& g, const Context&) {
  const graph::Node& n = g.node(m.node("attention"));
  Attention op = std::get<Attention>(n.op);
  if (op.y_rows || n.outputs.size() > 1) return Outcome{NotMine{}};
  op.y_rows = true;
  const std::vector<ValueId> inputs = n.inputs;
  const Shape heads = g.type(n.outputs[0]).shape;
  const std::string name = g.fresh_name(n.name + "_rows");
  const ValueId y = g.add_value(
      name, {DType::f32, {heads[0], heads[2], Dim(op.heads * op.value_depth)}, {}, Layout::plain});
  g.add_node(op, n.name, inputs, {y});
  return Outcome{Replace{
      graph::Reshape{}, {y, kept_two(g, name, {op.heads, op.value_depth})}, g.node(m.root).name}};
}

// ---- repeated heads
// By Expand, or by Tile.
Pattern repeated(const char* x, const char* axis) {
  const auto one = op<graph::Unsqueeze>(axis, {any(x)});
  return op<graph::Reshape>("", {either({op<graph::Expand>("", {one}).open(),
                                         op<graph::Tile>("", {one, constant("")})})})
      .open();
}

// `wide` [B, heads, T, D] is x [B, kv, T, D] with each head `times` times in a row: one axis is
// repeated, and then only joined with the heads.
bool repeats_heads(const Graph& g, const Index& index, ValueId x, ValueId wide,
                   std::int64_t times) {
  const graph::Node& reshape = g.node(index.producer(wide));
  const Shape &narrow = g.type(x).shape, &joined = g.type(wide).shape;
  const Shape& five = g.type(reshape.inputs[0]).shape;  // [B, kv, times, T, D]
  if (five.rank() != 5 || joined.rank() != 4 || !five[2].known() || five[2].value() != times)
    return false;
  for (int i = 0; i < 4; ++i)
    if (differ(narrow[i], five[i < 2 ? i : i + 1])) return false;
  const graph::Node& repeat = g.node(index.producer(reshape.inputs[0]));
  if (std::holds_alternative<graph::Tile>(repeat.op)) {
    const auto counts = integers(g, repeat.inputs[1]);
    if (!counts || *counts != Ints{1, 1, times, 1, 1}) return false;
  }
  return !differ(joined[0], narrow[0]) && !differ(joined[2], narrow[2]) && joined[1].known() &&
         narrow[1].known() && joined[1].value() == narrow[1].value() * times && joined[3].known() &&
         narrow[3].known() && joined[3].value() == narrow[3].value();
}

std::vector<Pattern> repeat_patterns() {
  return {op<Attention>("", {any("q"), repeated("k", "k_axis"), repeated("v", "v_axis")})
              .open()
              .shared()};
}

Result<Outcome> repeat_apply(const Match& m, Graph& g, const Context&) {
  Attention op = std::get<Attention>(g.node(m.root).op);
  const Shape &k = g.type(m["k"]).shape, &v = g.type(m["v"]).shape;
  if (op.k_rows || op.v_rows || op.kv_heads != op.heads || k.rank() != 4 || v.rank() != 4 ||
      !k[1].known() || !v[1].known() || k[1].value() != v[1].value() || k[1].value() < 1 ||
      op.heads % k[1].value() != 0)
    return Outcome{NotMine{}};
  for (const char* axis : {"k_axis", "v_axis"})
    if (std::get<graph::Unsqueeze>(g.node(m.node(axis)).op).axes != Ints{2})
      return Outcome{NotMine{}};
  const std::vector<ValueId>& wide = g.node(m.root).inputs;
  const std::int64_t times = op.heads / k[1].value();
  if (!repeats_heads(g, *m.index, m["k"], wide[1], times) ||
      !repeats_heads(g, *m.index, m["v"], wide[2], times))
    return Outcome{NotMine{}};
  op.kv_heads = k[1].value();
  std::vector<ValueId> inputs = g.node(m.root).inputs;
  inputs[1] = m["k"];
  inputs[2] = m["v"];
  return Outcome{Replace{op, inputs, {}}};
}

}  // namespace

const Rewrite attention_repeats{"attention_repeats", repeat_patterns, repeat_apply, nullptr, true};
const Rewrite rotary_rows{"rotary_rows", rotary_patterns, rotary_apply, nullptr, true};
const Rewrite attention_rows{"attention_rows", rows_patterns, rows_apply, nullptr, true};
const Rewrite attention_thirds{"attention_thirds", thirds_patterns, thirds_apply, nullptr, true};
const Rewrite attention_splits{"attention_splits", split_patterns, split_apply, nullptr, true};
const Rewrite attention_output{"attention_output", output_patterns, output_apply, nullptr, true};

}  // namespace fold8::fusion
