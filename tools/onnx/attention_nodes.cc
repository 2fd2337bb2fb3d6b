#include "tools/onnx/attention_nodes.h"

#include <limits>

namespace fold8::onnx_io {
namespace {

using graph::Binary;
using graph::BinaryKind;

constexpr double kInf = std::numeric_limits<double>::infinity();

// [B, heads, S, D], whatever way the heads lie.
ValueId heads_first(NodeContext& ctx, ValueId v, bool rows, std::int64_t offset, const Ints& sizes,
                    const std::string& suffix) {
  if (!rows) return v;
  if (offset != 0 || known_extent(ctx, v, 2) != sizes[0] * sizes[1])
    v = ctx.emit(
        graph::Slice{},
        {v, ctx.ints({offset}, suffix + "_from"),
         ctx.ints({offset + sizes[0] * sizes[1]}, suffix + "_to"), ctx.ints({2}, suffix + "_axis")},
        suffix + "_part");
  const ValueId heads = reshaped(ctx, v, {0, 0, sizes[0], sizes[1]}, suffix + "_heads");
  return ctx.emit(graph::Transpose{{0, 2, 1, 3}}, {heads}, suffix + "_first");
}

// Keys or values of all heads of queries, the past in front; the present is written on the way.
ValueId all_keys(NodeContext& ctx, ValueId fresh, ValueId past, int present, const Ints& heads,
                 const std::string& suffix) {
  const bool read = present >= 0 && present < ctx.outputs() && ctx.wanted(present);
  const ValueId all = read ? ctx.out(present) : ctx.value(suffix + "_all");
  if (past != kNoValue)
    ctx.emit_into(graph::Concat{2}, {past, fresh}, {all}, suffix + "_all");
  else
    ctx.emit_into(graph::Identity{}, {fresh}, {all}, suffix + "_all");
  if (heads[0] == heads[1]) return all;
  const ValueId one = ctx.emit(graph::Unsqueeze{{2}}, {all}, suffix + "_group");
  const ValueId each = ctx.emit(
      graph::Expand{}, {one, ctx.ints({1, 1, heads[0] / heads[1], 1, 1}, suffix + "_times")},
      suffix + "_repeated");
  return reshaped(ctx, each, {0, heads[0], -1, heads[2]}, suffix + "_each");
}

// 0 where the mask shows, -inf where it hides; float masks as they are.
ValueId as_bias(NodeContext& ctx, ValueId mask, ValueId like) {
  if (ctx.dtype(mask) != DType::boolean) return mask;
  return ctx.emit(graph::Where{},
                  {mask, ctx.scalar_like(like, 0, "shown"), ctx.scalar_like(like, -kInf, "hidden")},
                  "bias");
}

ValueId softcapped(NodeContext& ctx, ValueId scores, float cap) {
  const ValueId limit = ctx.scalar_like(scores, cap, "softcap");
  const ValueId ratio = ctx.emit(Binary{BinaryKind::div}, {scores, limit}, "ratio");
  const ValueId bent = ctx.emit(graph::Unary{graph::UnaryKind::tanh}, {ratio}, "bent");
  return ctx.emit(Binary{BinaryKind::mul}, {bent, limit}, "capped");
}

// Probabilities; a row whose bias is -inf throughout is 0.
ValueId probabilities(NodeContext& ctx, ValueId scores, ValueId bias, bool may_hide_all) {
  const ValueId p = ctx.emit(graph::Softmax{3}, {scores}, "softmax");
  if (!may_hide_all) return p;
  const ValueId top = ctx.emit(graph::Reduce{graph::ReduceKind::max, {-1}}, {bias}, "bias_top");
  const ValueId none =
      ctx.emit(Binary{BinaryKind::equal}, {top, ctx.scalar_like(bias, -kInf, "nothing")}, "unseen");
  return ctx.emit(graph::Where{}, {none, ctx.scalar_like(scores, 0, "zero"), p}, "weights");
}

// Causal bounds as a mask beside a's own.
ValueId with_causal(NodeContext& ctx, const AttentionOperands& a) {
  if (!a.op.causal) return a.mask;
  Window w;
  w.queries = extent(ctx, a.q, a.op.q_rows ? 1 : 2);
  w.keys = extent(ctx, a.k, a.op.k_rows ? 1 : 2);
  if (a.past_k != kNoValue) {
    w.offset = extent(ctx, a.past_k, 2);
    w.keys = add_ints(ctx, w.keys, w.offset, "all_keys");
  }
  return both_masks(ctx, a.mask, window_mask(ctx, w), "causal");
}

// Which rows see a key: bool, the mask's shape with a last axis of 1.
ValueId seen_rows(NodeContext& ctx, ValueId mask, ValueId like) {
  const ValueId bias = as_bias(ctx, mask, like);
  const ValueId top = ctx.emit(graph::Reduce{graph::ReduceKind::max, {-1}}, {bias}, "mask_top");
  return ctx.emit(Binary{BinaryKind::greater}, {top, ctx.scalar_like(bias, -kInf, "nothing")},
                  "seen");
}

void write_rows(NodeContext& ctx, ValueId heads, std::int64_t width) {
  const ValueId swapped = ctx.emit(graph::Transpose{{0, 2, 1, 3}}, {heads}, "swapped");
  ctx.emit_into(graph::Reshape{}, {swapped, ctx.ints({0, 0, width}, "rows_shape")}, {ctx.out(0)},
                "");
}

// Output 0 with 0 in the rows that see nothing.
Status finish_guarded(NodeContext& ctx, AttentionOperands a, std::vector<ValueId> results) {
  ValueId seen = seen_rows(ctx, with_causal(ctx, a), a.q);
  const int rank = ctx.rank(seen).value_or(0);
  const bool by_head = rank >= 3 && known_extent(ctx, seen, -3) != 1;
  const bool rows = a.op.y_rows;
  if (rows && by_head) a.op.y_rows = false;
  if (rows && !by_head && rank == 4) seen = ctx.emit(graph::Squeeze{{1}}, {seen}, "seen_tokens");
  results[0] = ctx.value("unguarded");
  ctx.emit_into(a.op, a.list(), results, "");
  const std::vector<ValueId> chosen{seen, results[0], ctx.scalar_like(a.q, 0, "zero")};
  if (rows && by_head)
    write_rows(ctx, ctx.emit(graph::Where{}, chosen, "guarded"), a.op.heads * a.op.value_depth);
  else
    ctx.emit_into(graph::Where{}, chosen, {ctx.out(0)}, "guarded");
  return ctx.done();
}

void alias(NodeContext& ctx, ValueId v, int output) {
  ctx.emit_into(graph::Identity{}, {v}, {ctx.out(output)}, "scores_read");
}

Status finish_in_parts(NodeContext& ctx, const AttentionOperands& a, const AttentionOutputs& o) {
  const graph::Attention& op = a.op;
  const ValueId q = heads_first(ctx, a.q, op.q_rows, op.q_offset, {op.heads, op.depth}, "query");
  const ValueId k =
      all_keys(ctx, heads_first(ctx, a.k, op.k_rows, op.k_offset, {op.kv_heads, op.depth}, "key"),
               a.past_k, o.present_k, {op.heads, op.kv_heads, op.depth}, "key");
  const ValueId v = all_keys(
      ctx, heads_first(ctx, a.v, op.v_rows, op.v_offset, {op.kv_heads, op.value_depth}, "value"),
      a.past_v, o.present_v, {op.heads, op.kv_heads, op.value_depth}, "value");
  const ValueId mask = with_causal(ctx, a);
  std::vector<ValueId> stages{ctx.emit(graph::MatMul{op.scale, false, true}, {q, k}, "scores")};
  stages.push_back(op.softcap > 0 ? softcapped(ctx, stages[0], op.softcap) : stages[0]);
  const ValueId bias = mask == kNoValue ? kNoValue : as_bias(ctx, mask, q);
  stages.push_back(bias == kNoValue
                       ? stages[1]
                       : ctx.emit(Binary{BinaryKind::add}, {stages[1], bias}, "biased"));
  stages.push_back(probabilities(ctx, stages[2], bias, a.mask != kNoValue));
  alias(ctx, stages[static_cast<std::size_t>(o.scores_mode)], o.scores);
  if (!op.y_rows) {
    ctx.emit_into(graph::MatMul{}, {stages[3], v}, {ctx.out(0)}, "");
    return ctx.done();
  }
  write_rows(ctx, ctx.emit(graph::MatMul{}, {stages[3], v}, "heads"), op.heads * op.value_depth);
  return ctx.done();
}

}  // namespace

Status finish_attention(NodeContext& ctx, AttentionOperands a, const AttentionOutputs& o) {
  if (ctx.failed()) return ctx.done();
  if (o.scores >= 0 && ctx.wanted(o.scores)) return finish_in_parts(ctx, a, o);
  std::vector<ValueId> results{ctx.out(0)};
  for (int present : {o.present_k, o.present_v})
    results.push_back(present >= 0 && present < ctx.outputs() && ctx.wanted(present)
                          ? ctx.out(present)
                          : kNoValue);
  while (results.size() > 1 && results.back() == kNoValue) results.pop_back();
  if (a.zero_unseen && results[0] != kNoValue) return finish_guarded(ctx, a, results);
  if (results[0] == kNoValue) results[0] = ctx.value("unused");
  ctx.emit_into(a.op, a.list(), results, "");
  return ctx.done();
}

std::optional<std::int64_t> known_extent(NodeContext& ctx, ValueId v, int axis) {
  const TensorType* t = ctx.type(v);
  if (t == nullptr) return std::nullopt;
  if (axis < 0) axis += t->shape.rank();
  if (axis < 0 || axis >= t->shape.rank() || !t->shape[axis].known()) return std::nullopt;
  return t->shape[axis].value();
}

ValueId extent(NodeContext& ctx, ValueId v, int axis) {
  if (const auto known = known_extent(ctx, v, axis)) return ctx.ints({*known}, "extent");
  return ctx.emit(graph::ShapeOf{axis, axis + 1}, {v}, "extent");
}

ValueId counted(NodeContext& ctx, ValueId n, const std::string& suffix) {
  const auto known = ctx.known_ints(n);
  if (known && known->size() == 1 && (*known)[0] >= 0 && (*known)[0] <= 65536) {
    Ints all(static_cast<std::size_t>((*known)[0]));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    return ctx.ints(all, suffix);
  }
  return ctx.emit(graph::Range{}, {ctx.int_scalar(0, "first"), n, ctx.int_scalar(1, "step")},
                  suffix);
}

ValueId add_ints(NodeContext& ctx, ValueId a, ValueId b, const std::string& suffix) {
  return ctx.emit(Binary{BinaryKind::add}, {a, b}, suffix);
}

ValueId reshaped(NodeContext& ctx, ValueId v, const Ints& shape, const std::string& suffix) {
  return ctx.emit(graph::Reshape{}, {v, ctx.ints(shape, suffix + "_shape")}, suffix);
}

std::optional<HeadSizes> head_sizes(NodeContext& ctx, ValueId v, std::int64_t heads,
                                    const char* heads_attribute) {
  const auto rank = ctx.rank(v);
  const std::string what = "'" + (v == kNoValue ? std::string() : ctx.graph().value(v).name) + "'";
  if (!rank || (*rank != 3 && *rank != 4)) {
    ctx.fail(invalid_model("the operand " + what + " must have rank 3 or 4"));
    return std::nullopt;
  }
  const auto last = known_extent(ctx, v, -1), second = known_extent(ctx, v, 1);
  if (!last || (*rank == 4 && !second)) {
    ctx.fail(unsupported("the number of heads or their size is not known: the shape of " + what +
                         " is dynamic in an axis that must be fixed"));
    return std::nullopt;
  }
  if (*rank == 4) return HeadSizes{false, *second, *last};
  if (heads < 1 || *last % heads != 0 || *last == 0) {
    ctx.fail(invalid_model("rows of " + std::to_string(*last) + " elements in " + what +
                           " do not divide into " + heads_attribute + "=" + std::to_string(heads)));
    return std::nullopt;
  }
  return HeadSizes{true, heads, *last / heads};
}

ValueId both_masks(NodeContext& ctx, ValueId a, ValueId b, const std::string& suffix) {
  if (a == kNoValue || b == kNoValue) return a == kNoValue ? b : a;
  const bool a_bool = ctx.dtype(a) == DType::boolean, b_bool = ctx.dtype(b) == DType::boolean;
  if (a_bool && b_bool) return ctx.emit(Binary{BinaryKind::logical_and}, {a, b}, suffix);
  if (!a_bool && !b_bool) return ctx.emit(Binary{BinaryKind::add}, {a, b}, suffix);
  const ValueId seen = a_bool ? a : b, added = a_bool ? b : a;
  return ctx.emit(graph::Where{}, {seen, added, ctx.scalar_like(added, -kInf, "hidden")}, suffix);
}

ValueId window_mask(NodeContext& ctx, const Window& w) {
  ValueId at = reshaped(ctx, counted(ctx, w.queries, "query_number"), {-1, 1}, "query_at");
  if (w.offset != kNoValue) at = add_ints(ctx, at, w.offset, "query_position");
  const ValueId key = counted(ctx, w.keys, "key_number");
  ValueId seen = kNoValue;
  if (w.right >= 0) {
    const ValueId last =
        w.right == 0 ? at : add_ints(ctx, at, ctx.ints({w.right}, "right"), "last_seen");
    seen = ctx.emit(Binary{BinaryKind::less_equal}, {key, last}, "not_behind");
  }
  if (w.left >= 0) {
    const ValueId first = add_ints(ctx, at, ctx.ints({-w.left}, "left"), "first_seen");
    seen = both_masks(ctx, seen,
                      ctx.emit(Binary{BinaryKind::greater_equal}, {key, first}, "not_before"),
                      "in_window");
  }
  return seen;
}

ValueId length_mask(NodeContext& ctx, ValueId lengths, ValueId keys) {
  const ValueId per_batch = reshaped(ctx, lengths, {-1, 1, 1, 1}, "lengths");
  return ctx.emit(Binary{BinaryKind::less}, {counted(ctx, keys, "key_number"), per_batch},
                  "not_padding");
}

ValueId padded_mask(NodeContext& ctx, ValueId mask, ValueId keys, double value) {
  const auto rank = ctx.rank(mask);
  if (!rank || *rank == 0) return mask;
  const auto have = known_extent(ctx, mask, *rank - 1);
  const auto want = ctx.known_ints(keys);
  if (have && want && (*want)[0] == *have) return mask;
  const ValueId missing =
      ctx.emit(Binary{BinaryKind::sub}, {keys, extent(ctx, mask, *rank - 1)}, "missing");
  const ValueId front = ctx.ints(Ints(static_cast<std::size_t>(2 * *rank - 1), 0), "no_pads");
  const ValueId pads = ctx.emit(graph::Concat{0}, {front, missing}, "pads");
  return ctx.emit(graph::Pad{}, {mask, pads, ctx.scalar_like(mask, value, "padding")}, "padded");
}

}  // namespace fold8::onnx_io
