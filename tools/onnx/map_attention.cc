// Attention (opset 23 to 25) and RotaryEmbedding (23).
#include <cmath>

#include "tools/onnx/attention_nodes.h"

namespace fold8::onnx_io {
namespace {

// Numbers of queries and of all keys, s64 [1], made when first asked for.
class Counts {
 public:
  Counts(NodeContext& ctx, const AttentionOperands& a) : ctx_(ctx), a_(a) {}
  ValueId queries() {
    if (queries_ == kNoValue) queries_ = extent(ctx_, a_.q, a_.op.q_rows ? 1 : 2);
    return queries_;
  }
  ValueId past() {
    if (past_ == kNoValue && a_.past_k != kNoValue) past_ = extent(ctx_, a_.past_k, 2);
    return past_;
  }
  ValueId keys() {
    if (keys_ != kNoValue) return keys_;
    keys_ = extent(ctx_, a_.k, a_.op.k_rows ? 1 : 2);
    if (a_.past_k != kNoValue) keys_ = add_ints(ctx_, keys_, past(), "all_keys");
    return keys_;
  }
  Dim key_extent() const {
    const Dim fresh = ctx_.type(a_.k)->shape[a_.op.k_rows ? 1 : 2];
    const TensorType* past = ctx_.type(a_.past_k);
    return past == nullptr ? fresh : fresh + past->shape[2];
  }

 private:
  NodeContext& ctx_;
  const AttentionOperands& a_;
  ValueId queries_ = kNoValue, past_ = kNoValue, keys_ = kNoValue;
};

// Whether keys behind the mask's last are hidden. Opset 23 wants masks that broadcast.
bool is_shorter(NodeContext& ctx, ValueId mask, Dim keys) {
  const TensorType* t = ctx.type(mask);
  if (t == nullptr || t->shape.rank() == 0) return false;
  const Dim last = t->shape[t->shape.rank() - 1];
  if (last.known() && keys.known())
    return last.value() < keys.value() && (last.value() > 1 || ctx.opset() >= 24);
  return ctx.opset() >= 24 && !same(last, keys);
}

// Everything that hides keys, but a plain causal mask.
void set_masks(NodeContext& ctx, AttentionOperands& a) {
  Counts counts(ctx, a);
  if (is_shorter(ctx, a.mask, counts.key_extent()))
    a.mask = padded_mask(ctx, a.mask, counts.keys(),
                         ctx.dtype(a.mask) == DType::boolean ? 0 : -HUGE_VAL);
  // Keys behind nonpad_kv_seqlen[b] are padding; queries stand at the end of the others.
  const ValueId nonpad = ctx.opset() < 24 ? kNoValue : ctx.as_s64(ctx.in(6), "nonpad");
  Window w;
  w.offset = counts.past();
  if (nonpad != kNoValue) {
    a.mask = both_masks(ctx, a.mask, length_mask(ctx, nonpad, counts.keys()), "not_padded");
    w.offset = ctx.emit(graph::Binary{graph::BinaryKind::sub},
                        {reshaped(ctx, nonpad, {-1, 1, 1, 1}, "nonpad_lengths"), counts.queries()},
                        "offset");
  }
  const auto hide = [&](std::int64_t left, std::int64_t right, const std::string& suffix) {
    w.queries = counts.queries();
    w.keys = counts.keys();
    w.left = left;
    w.right = right;
    a.mask = both_masks(ctx, a.mask, window_mask(ctx, w), suffix);
  };
  if (a.op.causal && nonpad != kNoValue) {  // every sample has a frontier of its own
    a.op.causal = false;
    hide(-1, 0, "causal");
  }
  if (ctx.opset() < 25) return;
  const std::int64_t left = ctx.integer("left_window_size", -1),
                     right = ctx.integer("right_window_size", -1);
  if (left >= 0 || right >= 0) hide(left, right, "windowed");
}

Status map_attention(NodeContext& ctx) {
  ctx.need_inputs(3, ctx.opset() < 24 ? 6 : 7);
  AttentionOperands a;
  a.q = ctx.in(0), a.k = ctx.in(1), a.v = ctx.in(2);
  a.mask = ctx.in(3), a.past_k = ctx.in(4), a.past_v = ctx.in(5);
  ctx.integer("softmax_precision");  // at least f32 here
  for (ValueId v : {a.q, a.k, a.v})
    if (ctx.type(v) == nullptr) return ctx.finish(a.op, a.list());  // behind what is not supported
  if ((a.past_k == kNoValue) != (a.past_v == kNoValue))
    return ctx.reject("past_key and past_value come together or not at all");
  const auto q = head_sizes(ctx, a.q, ctx.integer("q_num_heads"), "q_num_heads"),
             k = head_sizes(ctx, a.k, ctx.integer("kv_num_heads"), "kv_num_heads"),
             v = head_sizes(ctx, a.v, ctx.integer("kv_num_heads"), "kv_num_heads");
  if (!q || !k || !v) return ctx.done();
  a.op.heads = q->heads;
  a.op.kv_heads = k->heads;
  a.op.depth = q->depth;
  a.op.value_depth = v->depth;
  a.op.q_rows = a.op.y_rows = q->rows;
  a.op.k_rows = k->rows;
  a.op.v_rows = v->rows;
  a.op.scale = ctx.real("scale", 1.0f / std::sqrt(static_cast<float>(q->depth)));
  a.op.softcap = ctx.real("softcap");
  a.op.causal = ctx.flag("is_causal");
  if (!(a.op.scale >= 0)) return ctx.reject("scale is negative or NaN");
  AttentionOutputs outputs;
  outputs.scores = 3;
  outputs.scores_mode = ctx.integer("qk_matmul_output_mode");
  if (outputs.scores_mode < 0 || outputs.scores_mode > 3)
    return ctx.reject("qk_matmul_output_mode must be 0 to 3");
  set_masks(ctx, a);
  a.zero_unseen = a.mask != kNoValue;
  return finish_attention(ctx, a, outputs);
}

Status map_rotary(NodeContext& ctx) {
  ctx.need_inputs(3, 4);
  const ValueId x = ctx.in(0);
  ValueId cos = ctx.in(1), sin = ctx.in(2);
  if (ctx.type(x) == nullptr || ctx.type(cos) == nullptr)
    return ctx.finish(graph::Rotary{}, {x, cos, sin});
  const auto sizes = head_sizes(ctx, x, ctx.integer("num_heads"), "num_heads");
  if (!sizes) return ctx.done();
  graph::Rotary op;
  op.rows = sizes->rows;
  op.heads = sizes->heads;
  op.depth = sizes->depth;
  op.dims = ctx.integer("rotary_embedding_dim");
  if (op.dims == 0) op.dims = op.depth;
  op.interleaved = ctx.flag("interleaved");
  if (ctx.in(3) != kNoValue) {
    cos = ctx.emit(graph::Gather{0}, {cos, ctx.in(3)}, "cos");
    sin = ctx.emit(graph::Gather{0}, {sin, ctx.in(3)}, "sin");
  }
  return ctx.finish(op, {x, cos, sin});
}

constexpr MapEntry kOps[] = {{"Attention", map_attention}, {"RotaryEmbedding", map_rotary}};

}  // namespace

std::span<const MapEntry> attention_ops() { return kOps; }

}  // namespace fold8::onnx_io
