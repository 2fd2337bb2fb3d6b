// com.microsoft GroupQueryAttention: causal, keys padded on the right per sample, rotary embedding
// inside, the past appended where each sample ends.
#include <cmath>
#include <limits>

#include "tools/onnx/attention_nodes.h"

namespace fold8::onnx_io {
namespace {

using graph::Binary;
using graph::BinaryKind;

enum Input {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kBias,
  kSink,
};

struct Sizes {
  std::int64_t heads = 0, kv_heads = 0, depth = 0;
};

// Numbers of tokens, s64: of this call [1], in front of it [B, 1], and those of `present` [1].
struct Tokens {
  ValueId fresh = kNoValue, before = kNoValue, present = kNoValue;
};

std::optional<Sizes> sizes_of(NodeContext& ctx) {
  Sizes s{ctx.integer("num_heads"), ctx.integer("kv_num_heads"), 0};
  if (s.heads < 1 || s.kv_heads < 1 || s.heads % s.kv_heads != 0) {
    ctx.fail(invalid_model("num_heads must be a multiple of kv_num_heads"));
    return std::nullopt;
  }
  const bool packed = ctx.in(kKey) == kNoValue;
  const std::int64_t all = packed ? s.heads + 2 * s.kv_heads : s.heads;
  const auto q = head_sizes(ctx, ctx.in(kQuery), all, "num_heads");
  if (!q) return std::nullopt;
  if (!q->rows || packed != (ctx.in(kValue) == kNoValue)) {
    ctx.fail(
        invalid_model("query must be [batch, tokens, heads * size], with key and value or none"));
    return std::nullopt;
  }
  s.depth = q->depth;
  return s;
}

// What fold8 does not have. Empty: nothing.
std::string left_out(NodeContext& ctx) {
  if (ctx.inputs() > kSink + 1) return "quantized keys and values (k_scale, v_scale)";
  if (ctx.text("k_quant_type", "NONE") != "NONE" || ctx.text("v_quant_type", "NONE") != "NONE")
    return "quantized keys and values (k_quant_type, v_quant_type)";
  ctx.integer("kv_cache_bit_width");
  if (ctx.integer("qk_output") != 0) return "the scores as an output (qk_output)";
  return "";
}

Tokens count_tokens(NodeContext& ctx) {
  Tokens t;
  t.fresh = extent(ctx, ctx.in(kQuery), 1);
  const ValueId total = reshaped(ctx, ctx.as_s64(ctx.in(kTotal), "total_s64"), {1}, "total");
  const ValueId last =
      reshaped(ctx, ctx.as_s64(ctx.in(kLengths), "seqlens_s64"), {-1, 1}, "seqlens");
  const ValueId length = add_ints(ctx, last, ctx.ints({1}, "one"), "length");
  const ValueId before = ctx.emit(Binary{BinaryKind::sub}, {length, t.fresh}, "before");
  const ValueId first = ctx.emit(Binary{BinaryKind::equal}, {total, t.fresh}, "is_first");
  t.before = ctx.emit(graph::Where{}, {first, ctx.ints({0}, "none"), before}, "past_tokens");
  t.present = ctx.in(kPastKey) == kNoValue
                  ? t.fresh
                  : ctx.emit(Binary{BinaryKind::max}, {total, extent(ctx, ctx.in(kPastKey), 2)},
                             "present_tokens");
  return t;
}

// Rows of q, k and v, turned.
void split_and_turn(NodeContext& ctx, AttentionOperands& a, const Sizes& s, const Tokens& t) {
  a.q = ctx.in(kQuery), a.k = ctx.in(kKey), a.v = ctx.in(kValue);
  if (a.k == kNoValue) {
    graph::Split split;
    split.axis = 2;
    split.sizes = {s.heads * s.depth, s.kv_heads * s.depth, s.kv_heads * s.depth};
    const ValueId packed = a.q;
    a.q = ctx.value("query"), a.k = ctx.value("key"), a.v = ctx.value("value");
    ctx.emit_into(split, {packed}, {a.q, a.k, a.v}, "split");
  }
  if (!ctx.flag("do_rotary")) return;
  const auto table = known_extent(ctx, ctx.in(kCos), 1);
  if (!table)
    return ctx.fail(unsupported("do_rotary with cos_cache of unknown width, or without it"));
  ValueId positions = ctx.as_s64(ctx.in(kPositions), "positions");
  if (positions == kNoValue)
    positions = add_ints(ctx, counted(ctx, t.fresh, "token"), t.before, "position");
  const ValueId cos = ctx.emit(graph::Gather{0}, {ctx.in(kCos), positions}, "cos"),
                sin = ctx.emit(graph::Gather{0}, {ctx.in(kSin), positions}, "sin");
  graph::Rotary op;
  op.rows = true;
  op.depth = s.depth;
  op.dims = 2 * *table;
  op.interleaved = ctx.flag("rotary_interleaved");
  op.heads = s.heads;
  a.q = ctx.emit(op, {a.q, cos, sin}, "query_turned");
  op.heads = s.kv_heads;
  a.k = ctx.emit(op, {a.k, cos, sin}, "key_turned");
}

// Where row j of present comes from, of the past and behind it the fresh rows: [B, kv_heads, T, 1].
ValueId present_rows(NodeContext& ctx, const Tokens& t, std::int64_t kv_heads) {
  const ValueId at = counted(ctx, t.present, "present_row"),
                past = extent(ctx, ctx.in(kPastKey), 2), one = ctx.ints({1}, "one"),
                zero = ctx.ints({0}, "zero");
  const ValueId behind = ctx.emit(Binary{BinaryKind::sub}, {at, t.before}, "fresh_row");
  const ValueId newest = ctx.emit(Binary{BinaryKind::sub}, {t.fresh, one}, "newest_row");
  const ValueId least = ctx.emit(Binary{BinaryKind::max}, {behind, zero}, "fresh_from_0");
  const ValueId fresh = ctx.emit(Binary{BinaryKind::min}, {least, newest}, "fresh_kept");
  const ValueId is_past = ctx.emit(Binary{BinaryKind::less}, {at, t.before}, "is_past");
  const ValueId row =
      ctx.emit(graph::Where{}, {is_past, at, add_ints(ctx, fresh, past, "fresh_at")}, "row");
  const ValueId wide = ctx.emit(graph::Unsqueeze{{1, 3}}, {row}, "row_of_heads");
  return ctx.emit(graph::Expand{}, {wide, ctx.ints({1, kv_heads, 1, 1}, "heads_shape")}, "rows");
}

// The past and the fresh rows [B, kv_heads, T, D]; written as `output` where it is read.
ValueId append(NodeContext& ctx, ValueId fresh, ValueId past, ValueId rows, const Sizes& s,
               int output, const std::string& name) {
  const ValueId heads = reshaped(ctx, fresh, {0, 0, s.kv_heads, s.depth}, name + "_heads");
  const ValueId present =
      output < ctx.outputs() && ctx.wanted(output) ? ctx.out(output) : ctx.value(name + "_present");
  const graph::Transpose swap{{0, 2, 1, 3}};
  if (past == kNoValue) {
    ctx.emit_into(swap, {heads}, {present}, name + "_present");
    return present;
  }
  const ValueId first = ctx.emit(swap, {heads}, name + "_first");
  const ValueId all = ctx.emit(graph::Concat{2}, {past, first}, name + "_all");
  ctx.emit_into(graph::GatherND{2}, {all, rows}, {present}, name + "_present");
  return present;
}

// head_sink, smooth_softmax: one more key of score `sink` (0) whose value is 0.
void add_sink(NodeContext& ctx, AttentionOperands& a, ValueId tokens, std::int64_t heads) {
  const ValueId sink = ctx.in(kSink);
  if (sink == kNoValue && !ctx.flag("smooth_softmax")) return;
  const ValueId pads = ctx.ints({0, 0, 0, 0, 0, 0, 1, 0}, "one_more");
  a.k = ctx.emit(graph::Pad{}, {a.k, pads}, "key_and_sink");
  a.v = ctx.emit(graph::Pad{}, {a.v, pads}, "value_and_sink");
  if (ctx.dtype(a.mask) == DType::boolean)
    a.mask = ctx.emit(graph::Where{},
                      {a.mask, ctx.scalar_like(a.q, 0, "shown"),
                       ctx.scalar_like(a.q, -std::numeric_limits<double>::infinity(), "hidden")},
                      "bias");
  const ValueId one = ctx.ints({1}, "one");
  a.mask = padded_mask(ctx, a.mask, add_ints(ctx, tokens, one, "tokens_and_sink"), 0);
  if (sink == kNoValue) return;
  const ValueId front = ctx.ints({0, 0, 0}, "no_pads"),
                back = ctx.ints({0, 0, 0, 0}, "none_behind");
  const ValueId all = ctx.emit(graph::Concat{0}, {front, tokens, back}, "sink_pads");
  const ValueId column = ctx.emit(
      graph::Pad{}, {reshaped(ctx, sink, {1, heads, 1, 1}, "sink_heads"), all}, "sink_column");
  a.mask = both_masks(ctx, a.mask, column, "mask_and_sink");
}

Status map_grouped_query(NodeContext& ctx) {
  ctx.need_inputs(1, 14);
  for (Input i : {kQuery, kKey, kValue, kPastKey})
    if (ctx.in(i) != kNoValue && ctx.type(ctx.in(i)) == nullptr)
      return ctx.finish(graph::Attention{}, {ctx.in(kQuery), ctx.in(kQuery), ctx.in(kQuery)});
  if (const std::string what = left_out(ctx); !what.empty()) return ctx.refuse(what);
  for (Input i : {kLengths, kTotal})
    if (ctx.in(i) == kNoValue) return ctx.reject("seqlens_k or total_sequence_length is missing");
  if ((ctx.in(kPastKey) == kNoValue) != (ctx.in(kPastValue) == kNoValue))
    return ctx.reject("past_key and past_value come together or not at all");
  const auto s = sizes_of(ctx);
  if (!s) return ctx.done();
  const Tokens t = count_tokens(ctx);
  AttentionOperands a;
  split_and_turn(ctx, a, *s, t);
  const bool past = ctx.in(kPastKey) != kNoValue;
  const ValueId rows = past ? present_rows(ctx, t, s->kv_heads) : kNoValue;
  a.k = append(ctx, a.k, ctx.in(kPastKey), rows, *s, 1, "key");
  a.v = append(ctx, a.v, ctx.in(kPastValue), rows, *s, 2, "value");
  a.op.heads = s->heads;
  a.op.kv_heads = s->kv_heads;
  a.op.depth = a.op.value_depth = s->depth;
  a.op.q_rows = a.op.y_rows = true;
  const float scale = ctx.real("scale");
  a.op.scale = scale == 0 ? 1.0f / std::sqrt(static_cast<float>(s->depth)) : scale;
  a.op.softcap = ctx.real("softcap");
  Window w;
  w.queries = t.fresh;
  w.keys = t.present;
  const std::int64_t window =
      ctx.integer("local_window_size", -1);  // keys, the query's own one of them
  w.left = window > 0 ? window - 1 : -1;
  if (past) w.offset = reshaped(ctx, t.before, {-1, 1, 1, 1}, "offset");
  const bool sinks = ctx.in(kSink) != kNoValue || ctx.flag("smooth_softmax");
  a.op.causal = !past && w.left < 0 && !sinks;
  if (!a.op.causal) a.mask = window_mask(ctx, w);
  if (ctx.in(kBias) != kNoValue)
    a.mask = both_masks(ctx, a.mask, padded_mask(ctx, ctx.in(kBias), t.present, 0), "with_bias");
  add_sink(ctx, a, t.present, s->heads);
  return finish_attention(ctx, a, {-1, -1});
}

constexpr MapEntry kOps[] = {{"GroupQueryAttention", map_grouped_query}};

}  // namespace

std::span<const MapEntry> grouped_query_ops() { return kOps; }

}  // namespace fold8::onnx_io
