// Attention of the domain com.microsoft: Attention, MultiHeadAttention, RotaryEmbedding. The masks
// of padding add mask_filter_value (-10000) there, where the default domain hides with -inf.
#include <cmath>

#include "tools/onnx/attention_nodes.h"

namespace fold8::onnx_io {
namespace {

using graph::Binary;
using graph::BinaryKind;

float scale_of(NodeContext& ctx, std::int64_t depth) {
  const float scale = ctx.real("scale");  // 0: not given
  return scale == 0 ? 1.0f / std::sqrt(static_cast<float>(depth)) : scale;
}

// 0 where `seen` (bool), else mask_filter_value.
ValueId filtered(NodeContext& ctx, ValueId seen, ValueId like) {
  const double filter = double{ctx.real("mask_filter_value", -10000.0f)};
  return ctx.emit(
      graph::Where{},
      {seen, ctx.scalar_like(like, 0, "shown"), ctx.scalar_like(like, filter, "filter")},
      "padding");
}

// Lengths [B], or ends and starts [2B], of the keys that are no padding, as bool [B, 1, 1, T].
ValueId between(NodeContext& ctx, ValueId mask, ValueId like, ValueId keys) {
  const auto batch = known_extent(ctx, like, 0), length = known_extent(ctx, mask, 0);
  const ValueId whole = ctx.as_s64(mask, "lengths_s64");
  if (!batch || !length || *length == *batch) return length_mask(ctx, whole, keys);
  if (*length != 2 * *batch) {
    ctx.fail(unsupported(
        "a mask of rank 1 must hold a length for each sample, or an end and a start for each"));
    return kNoValue;
  }
  const auto half = [&](std::int64_t from, const std::string& suffix) {
    return ctx.emit(graph::Slice{},
                    {whole, ctx.ints({from}, "from"), ctx.ints({from + *batch}, "to")}, suffix);
  };
  const ValueId before = length_mask(ctx, half(*batch, "starts"), keys),
                end = length_mask(ctx, half(0, "ends"), keys);
  const ValueId begun = ctx.emit(graph::Unary{graph::UnaryKind::logical_not}, {before}, "begun");
  return both_masks(ctx, begun, end, "between");
}

// key_padding_mask or mask_index: rank 1 as above, [B, T] or [B, S, T] of 0 and 1.
ValueId padding_mask(NodeContext& ctx, ValueId mask, const AttentionOperands& a, int token_axis) {
  const auto rank = ctx.rank(mask);
  if (mask == kNoValue || ctx.failed()) return kNoValue;
  if (rank == 1) {
    ValueId keys = extent(ctx, a.k, token_axis);
    if (a.past_k != kNoValue) keys = add_ints(ctx, keys, extent(ctx, a.past_k, 2), "all_keys");
    const ValueId seen = between(ctx, mask, a.q, keys);
    return ctx.failed() ? kNoValue : filtered(ctx, seen, a.q);
  }
  if (rank != 2 && rank != 3) {
    ctx.fail(unsupported("a mask of rank " + std::to_string(rank.value_or(0))));
    return kNoValue;
  }
  const ValueId seen = ctx.dtype(mask) == DType::boolean
                           ? mask
                           : ctx.emit(graph::Cast{DType::boolean}, {mask}, "mask_seen");
  const ValueId wide =
      ctx.emit(graph::Unsqueeze{rank == 2 ? Ints{1, 2} : Ints{1}}, {seen}, "mask_of_heads");
  return filtered(ctx, wide, a.q);
}

ValueId column_part(NodeContext& ctx, ValueId v, std::int64_t from, std::int64_t count,
                    const std::string& suffix) {
  return ctx.emit(graph::Slice{},
                  {v, ctx.ints({from}, suffix + "_from"), ctx.ints({from + count}, suffix + "_to")},
                  suffix);
}

// ---- MultiHeadAttention

// Part `index` of [B, S, heads, parts, D] as rows.
ValueId packed_part(NodeContext& ctx, ValueId v, std::int64_t index, std::int64_t width,
                    const std::string& suffix) {
  const ValueId one =
      ctx.emit(graph::Gather{3}, {v, ctx.int_scalar(index, suffix + "_index")}, suffix + "_heads");
  return reshaped(ctx, one, {0, 0, width}, suffix);
}

// Brings q, k and v into rows or heads; an error if they are of no known form.
void unpack(NodeContext& ctx, AttentionOperands& a, std::int64_t heads) {
  const auto sizes = [&](ValueId v, int parts) -> std::int64_t {
    const auto d = known_extent(ctx, v, 4);
    if (known_extent(ctx, v, 2) == heads && known_extent(ctx, v, 3) == parts && d) return *d;
    ctx.fail(unsupported("packed heads must be [batch, tokens, num_heads, " +
                         std::to_string(parts) + ", size] with fixed sizes"));
    return 1;
  };
  if (a.k == kNoValue && a.v == kNoValue) {
    const ValueId all = a.q;
    const std::int64_t width = heads * sizes(all, 3);
    a.q = packed_part(ctx, all, 0, width, "query");
    a.k = packed_part(ctx, all, 1, width, "key");
    a.v = packed_part(ctx, all, 2, width, "value");
  } else if (a.v == kNoValue) {
    const ValueId both = a.k;
    const std::int64_t width = heads * sizes(both, 2);
    a.k = packed_part(ctx, both, 0, width, "key");
    a.v = packed_part(ctx, both, 1, width, "value");
  }
}

void add_biases(NodeContext& ctx, AttentionOperands& a, ValueId bias) {
  if (bias == kNoValue || ctx.failed()) return;
  const graph::Attention& op = a.op;
  const std::int64_t widths[] = {op.heads * op.depth, op.heads * op.depth,
                                 op.heads * op.value_depth};
  std::int64_t from = 0;
  ValueId* operands[] = {&a.q, &a.k, &a.v};
  const bool rows[] = {op.q_rows, op.k_rows, op.v_rows};
  const char* names[] = {"query", "key", "value"};
  for (int i = 0; i < 3; ++i) {
    const std::string name = std::string(names[i]) + "_bias";
    if (rows[i])  // keys and values of rank 4 were computed before, with theirs
      *operands[i] = ctx.emit(Binary{BinaryKind::add},
                              {*operands[i], column_part(ctx, bias, from, widths[i], name)},
                              std::string(names[i]) + "_biased");
    from += widths[i];
  }
}

void set_sizes(AttentionOperands& a, const HeadSizes& q, const HeadSizes& k, const HeadSizes& v) {
  a.op.heads = q.heads;
  a.op.kv_heads = k.heads;
  a.op.depth = q.depth;
  a.op.value_depth = v.depth;
  a.op.q_rows = q.rows;
  a.op.k_rows = k.rows;
  a.op.v_rows = v.rows;
  a.op.y_rows = true;
}

Status map_multi_head(NodeContext& ctx) {
  ctx.need_inputs(1, 10);
  AttentionOperands a;
  a.q = ctx.in(0), a.k = ctx.in(1), a.v = ctx.in(2);
  a.past_k = ctx.in(6), a.past_v = ctx.in(7);
  for (int i = 0; i < 3; ++i)
    if (ctx.in(i) != kNoValue && ctx.type(ctx.in(i)) == nullptr)
      return ctx.finish(a.op, {a.q, a.k, a.v});
  if (ctx.in(8) != kNoValue || ctx.in(9) != kNoValue)
    return ctx.refuse("past_sequence_length and cache_indirection (a shared buffer, beam search)");
  const std::int64_t heads = ctx.integer("num_heads");
  if (heads < 1) return ctx.reject("num_heads must be at least 1");
  if ((a.past_k == kNoValue) != (a.past_v == kNoValue))
    return ctx.reject("past_key and past_value come together or not at all");
  unpack(ctx, a, heads);
  if (ctx.failed()) return ctx.done();
  const auto q = head_sizes(ctx, a.q, heads, "num_heads"),
             k = head_sizes(ctx, a.k, heads, "num_heads"),
             v = head_sizes(ctx, a.v, heads, "num_heads");
  if (!q || !k || !v) return ctx.done();
  set_sizes(a, *q, *k, *v);
  a.op.scale = scale_of(ctx, q->depth);
  a.op.causal = ctx.flag("unidirectional");
  add_biases(ctx, a, ctx.in(3));
  a.mask = both_masks(ctx, padding_mask(ctx, ctx.in(4), a, k->rows ? 1 : 2), ctx.in(5), "masks");
  AttentionOutputs outputs;
  outputs.scores = 3;
  return finish_attention(ctx, a, outputs);
}

// ---- Attention

// Half `index` of past [2, B, heads, P, D].
ValueId past_half(NodeContext& ctx, std::int64_t index, const std::string& suffix) {
  return ctx.in(4) == kNoValue
             ? kNoValue
             : ctx.emit(graph::Gather{0}, {ctx.in(4), ctx.int_scalar(index, suffix + "_index")},
                        suffix);
}

Status map_projected(NodeContext& ctx) {
  ctx.need_inputs(2, 7);
  if (ctx.type(ctx.in(0)) == nullptr || ctx.type(ctx.in(1)) == nullptr)
    return ctx.finish(graph::MatMul{}, {ctx.in(0), ctx.in(1)});
  if (ctx.flag("do_rotary")) return ctx.refuse("do_rotary=1");
  if (ctx.flag("past_present_share_buffer") || ctx.in(6) != kNoValue)
    return ctx.refuse("past and present in one buffer");
  const auto width = known_extent(ctx, ctx.in(1), -1);
  if (!width) return ctx.refuse("weights of unknown width");
  Ints sizes = ctx.integers("qkv_hidden_sizes");
  if (sizes.empty()) sizes.assign(3, *width / 3);
  const std::int64_t heads = ctx.integer("num_heads");
  if (sizes.size() != 3 || heads < 1 || sizes[0] < 1 || sizes[2] < 1 || sizes[0] != sizes[1] ||
      sizes[0] % heads != 0 || sizes[2] % heads != 0 || sizes[0] + sizes[1] + sizes[2] != *width)
    return ctx.reject("num_heads and qkv_hidden_sizes do not fit weights of " +
                      std::to_string(*width) + " columns");
  ValueId all = ctx.emit(graph::MatMul{}, {ctx.in(0), ctx.in(1)}, "projected");
  if (ctx.in(2) != kNoValue)
    all = ctx.emit(Binary{BinaryKind::add}, {all, ctx.in(2)}, "projected_biased");
  AttentionOperands a;
  a.q = a.k = a.v = all;
  set_sizes(a, {true, heads, sizes[0] / heads}, {true, heads, sizes[1] / heads},
            {true, heads, sizes[2] / heads});
  a.op.k_offset = sizes[0];
  a.op.v_offset = sizes[0] + sizes[1];
  a.op.scale = scale_of(ctx, a.op.depth);
  a.op.causal = ctx.flag("unidirectional");
  a.past_k = past_half(ctx, 0, "past_key");
  a.past_v = past_half(ctx, 1, "past_value");
  a.mask = both_masks(ctx, padding_mask(ctx, ctx.in(3), a, 1), ctx.in(5), "masks");
  if (ctx.outputs() < 2 || !ctx.wanted(1)) return finish_attention(ctx, a, {-1, -1});
  const ValueId k = ctx.value("present_key"), v = ctx.value("present_value");
  const ValueId y = ctx.wanted(0) ? ctx.out(0) : ctx.value("unused");
  ctx.emit_into(a.op, a.list(), {y, k, v}, "");
  const ValueId k_half = ctx.emit(graph::Unsqueeze{{0}}, {k}, "present_key_half"),
                v_half = ctx.emit(graph::Unsqueeze{{0}}, {v}, "present_value_half");
  ctx.emit_into(graph::Concat{0}, {k_half, v_half}, {ctx.out(1)}, "present");
  return ctx.done();
}

// ---- RotaryEmbedding: position ids are the second operand, [B, S], or the first position [1]
Status map_rotary(NodeContext& ctx) {
  ctx.need_inputs(4, 4);
  const ValueId x = ctx.in(0), ids = ctx.in(1), cos = ctx.in(2), sin = ctx.in(3);
  for (ValueId v : {x, ids, cos, sin})
    if (ctx.type(v) == nullptr) return ctx.finish(graph::Rotary{}, {x, cos, sin});
  if (ctx.flag("is_packed_batching")) return ctx.refuse("is_packed_batching=1");
  if (ctx.real("scale", 1) != 1) return ctx.refuse("a scale other than 1");
  const auto table = known_extent(ctx, cos, 1), last = known_extent(ctx, x, -1);
  if (!table || !last) return ctx.refuse("the size of a head is not known");
  graph::Rotary op;
  op.dims = 2 * *table;
  op.interleaved = ctx.flag("interleaved");
  std::int64_t heads = ctx.integer("num_heads");
  const std::int64_t partial = ctx.integer("rotary_embedding_dim");
  if (partial != 0 && partial != op.dims)
    return ctx.reject("the caches have " + std::to_string(*table) +
                      " columns, rotary_embedding_dim is " + std::to_string(partial));
  if (partial == 0 && ctx.rank(x) == 3) heads = *last / op.dims;
  const auto sizes = head_sizes(ctx, x, heads, "num_heads");
  if (!sizes) return ctx.done();
  op.rows = sizes->rows;
  op.heads = sizes->heads;
  op.depth = sizes->depth;
  ValueId positions = ctx.as_s64(ids, "positions");
  if (ctx.rank(ids) == 1)
    positions = add_ints(ctx, counted(ctx, extent(ctx, x, op.rows ? 1 : 2), "token"), positions,
                         "position");
  return ctx.finish(op, {x, ctx.emit(graph::Gather{0}, {cos, positions}, "cos"),
                         ctx.emit(graph::Gather{0}, {sin, positions}, "sin")});
}

constexpr MapEntry kOps[] = {{"Attention", map_projected},
                             {"MultiHeadAttention", map_multi_head},
                             {"RotaryEmbedding", map_rotary}};

}  // namespace

std::span<const MapEntry> microsoft_attention_ops() { return kOps; }

}  // namespace fold8::onnx_io
