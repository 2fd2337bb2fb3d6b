// ONNX Attention (kernels/attention.h): heads by strides, the past in front, one kernel call for
// the rows of a head of keys.
#include "runtime/kernels/attention.h"

#include "runtime/ops/attention_past.h"

namespace fold8::ops {

using namespace attention;

namespace {

Status check_attributes(const graph::Attention& op) {
  if (op.heads < 1 || op.kv_heads < 1 || op.heads % op.kv_heads != 0)
    return invalid_model("attention with " + std::to_string(op.heads) + " heads of queries over " +
                         std::to_string(op.kv_heads) + " heads of keys");
  constexpr std::int64_t kMost = 65793, kMostHeads = std::int64_t{1} << 24;
  if (op.heads > kMostHeads)
    return invalid_model("attention with " + std::to_string(op.heads) + " heads");
  if (op.depth < 1 || op.value_depth < 1 || op.depth > kMost || op.value_depth > kMost)
    return invalid_model("attention over heads of " + std::to_string(op.depth) + " and " +
                         std::to_string(op.value_depth) + " elements");
  return ok_status();
}

Heads q_of(const graph::Attention& op) { return {op.q_rows, op.heads, op.depth, op.q_offset}; }
Heads k_of(const graph::Attention& op) { return {op.k_rows, op.kv_heads, op.depth, op.k_offset}; }
Heads v_of(const graph::Attention& op) {
  return {op.v_rows, op.kv_heads, op.value_depth, op.v_offset};
}

Status infer_past(InferContext& c, std::size_t past, const Heads& heads, Dim batch, Dim& keys) {
  if (!c.has(past)) return ok_status();
  const Heads own{false, heads.heads, heads.depth, 0};
  FOLD8_CHECK_OK(expect_heads(c, past, own));
  if (differ(batch, c.shape(past)[0]))
    return bad_input(c, past, "the batch of input 0, " + to_string(c.shape(0)));
  keys = keys + c.shape(past)[2];
  return ok_status();
}

Status infer_mask(const graph::Attention& op, InferContext& c, Dim batch, Dim queries, Dim keys) {
  if (!c.has(kMask)) return ok_status();
  FOLD8_CHECK_OK(expect_dtype(c, kMask, {DType::f32, DType::boolean}));
  const Shape scores{batch, Dim(op.heads), queries, keys};
  const auto both = broadcast(scores, c.shape(kMask));
  bool fits = both.has_value() && both->rank() == 4;
  for (int i = 0; fits && i < 4; ++i) fits = !differ((*both)[i], scores[i]);
  if (!fits)
    return bad_input(c, kMask,
                     "a mask that broadcasts to the scores " + to_string(scores) +
                         ", batch, heads, queries, keys; scores do not grow to a larger mask");
  return ok_status();
}

}  // namespace

Status infer_op(const graph::Attention& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 3, kInputs, kOutputs));
  FOLD8_CHECK_OK(check_attributes(op));
  FOLD8_CHECK_OK(expect_heads(c, kQ, q_of(op)));
  FOLD8_CHECK_OK(expect_heads(c, kK, k_of(op)));
  FOLD8_CHECK_OK(expect_heads(c, kV, v_of(op)));
  const Dim batch = c.shape(kQ)[0], queries = q_of(op).tokens(c.shape(kQ));
  for (std::size_t i : {kK, kV})
    if (differ(batch, c.shape(i)[0]))
      return bad_input(c, i, "the batch of input 0, " + to_string(c.shape(kQ)));
  Dim keys = k_of(op).tokens(c.shape(kK)), values = v_of(op).tokens(c.shape(kV));
  FOLD8_CHECK_OK(infer_past(c, kPastK, k_of(op), batch, keys));
  FOLD8_CHECK_OK(infer_past(c, kPastV, v_of(op), batch, values));
  if (differ(keys, values))
    return bad_input(c, kV, "as many values as keys, " + to_string(Shape{keys}));
  FOLD8_CHECK_OK(infer_mask(op, c, batch, queries, keys));
  c.set(kY, DType::f32,
        op.y_rows ? Shape{batch, queries, Dim(op.heads * op.value_depth)}
                  : Shape{batch, Dim(op.heads), queries, Dim(op.value_depth)});
  c.set(kPresentK, DType::f32, Shape{batch, Dim(op.kv_heads), keys, Dim(op.depth)});
  c.set(kPresentV, DType::f32, Shape{batch, Dim(op.kv_heads), keys, Dim(op.value_depth)});
  return ok_status();
}

namespace {

struct Plan {
  kernels::AttentionArgs args;
  kernels::attention_f32_fn* kernel = nullptr;
  kernels::attention_pack_f32_fn* pack = nullptr;
  bool int8 = false;
  HeadStrides q, y;
  Cache k, v;
  std::size_t batches = 0, kv_heads = 0;
  std::size_t mask_batch = 0, mask_head = 0;  // elements
  bool f32_mask = false, bool_mask = false;
  std::size_t call_scratch = 0, calls_at = 0;

  void set_mask(const PrepareContext& c, const graph::Attention& op) {
    if (!c.has(kMask)) return;
    f32_mask = c.type(kMask).dtype == DType::f32;
    bool_mask = !f32_mask;
    const Shape scores{Dim(static_cast<std::int64_t>(batches)), Dim(op.heads),
                       Dim(static_cast<std::int64_t>(args.queries)),
                       Dim(static_cast<std::int64_t>(args.keys))};
    const Strides s = broadcast_strides(c.type(kMask), scores);
    mask_batch = static_cast<std::size_t>(s[0]);
    mask_head = args.mask_head_stride = static_cast<std::size_t>(s[1]);
    args.mask_stride = static_cast<std::size_t>(s[2]);
    args.mask_step = static_cast<std::size_t>(s[3]);
  }

  Packed packed(const RunContext& run) const {
    Packed p;
    if (run.appended.size() < 2) return p;
    const AppendPlace &keys = run.appended[0], &values = run.appended[1];
    if (keys.rows == nullptr || values.rows == nullptr) return p;
    p.k = &keys;
    p.v = &values;
    p.key_bytes = blocks_of(keys.capacity) * kernels::attention_key_block_bytes(args.depth, int8);
    p.value_bytes =
        blocks_of(values.capacity) * kernels::attention_value_block_bytes(args.value_depth, int8);
    return p;
  }

  // What came since the last run, of each head of keys.
  void pack_fresh(const RunContext& run, const Packed& packed, const Rows& keys,
                  const Rows& values) const {
    kernels::AttentionPackArgs p;
    p.depth = args.depth;
    p.value_depth = args.value_depth;
    p.k_stride = args.k_stride;
    p.v_stride = args.v_stride;
    p.begin = std::min({packed.k->ready, packed.v->ready, args.first_position});
    p.end = args.keys;
    const std::size_t work = (p.end - p.begin) * (p.depth + p.value_depth);
    parallel(run, batches * kv_heads, (std::size_t{1} << 15) / (work + 1) + 1,
             [&](std::size_t first, std::size_t last, std::size_t part) {
               kernels::AttentionPackArgs a = p;
               a.scratch = run.scratch + calls_at + part * call_scratch;
               for (std::size_t unit = first; unit < last; ++unit) {
                 a.k = keys.of(unit, kv_heads);
                 a.v = values.of(unit, kv_heads);
                 a.keys = packed.keys(unit);
                 a.values = packed.values(unit);
                 pack(a);
               }
             });
  }

  // What a run reads beside its operands.
  struct Sources {
    Rows keys, values;
    Packed packed;
  };

  // Rows [begin, end) of one head of keys.
  void rows(const RunContext& run, const Sources& from, std::size_t unit, std::size_t begin,
            std::size_t end, std::size_t part) const {
    kernels::AttentionArgs a = args;
    const std::size_t b = unit / kv_heads, h = unit % kv_heads;
    a.q = in<float>(run, kQ) + q.first + b * q.batch + h * a.heads * q.head;
    a.k = from.keys.of(unit, kv_heads);
    a.v = from.values.of(unit, kv_heads);
    if (from.packed.k != nullptr) {
      a.packed_keys = from.packed.keys(unit);
      a.packed_values = from.packed.values(unit);
    }
    const std::size_t mask_at = b * mask_batch + h * a.heads * mask_head;
    if (f32_mask) a.mask = in<float>(run, kMask) + mask_at;
    if (bool_mask) a.visible = in<std::uint8_t>(run, kMask) + mask_at;
    a.y = out<float>(run, kY) + b * y.batch + h * a.heads * y.head;
    a.row_begin = begin;
    a.row_end = end;
    a.scratch = run.scratch + calls_at + part * call_scratch;
    kernel(a);
  }
};

Plan make_plan(const graph::Attention& op, const PrepareContext& c) {
  Plan p;
  const Shape& q = c.type(kQ).shape;
  const Heads y{op.y_rows, op.heads, op.value_depth, 0};
  p.q = q_of(op).strides(q);
  p.y = y.strides(c.out(kY).shape);
  p.k = make_cache(c, kK, kPastK, kPresentK, k_of(op));
  p.v = make_cache(c, kV, kPastV, kPresentV, v_of(op));
  p.v.scratch_at = p.k.bytes();
  p.calls_at = p.v.scratch_at + p.v.bytes();
  p.batches = static_cast<std::size_t>(q.extent(0));
  p.kv_heads = static_cast<std::size_t>(op.kv_heads);
  kernels::AttentionArgs& a = p.args;
  a.queries = static_cast<std::size_t>(q_of(op).tokens(q).value());
  a.keys = p.k.past + p.k.fresh;
  a.heads = static_cast<std::size_t>(op.heads / op.kv_heads);
  a.depth = static_cast<std::size_t>(op.depth);
  a.value_depth = static_cast<std::size_t>(op.value_depth);
  a.q_stride = p.q.token;
  a.q_head_stride = p.q.head;
  a.k_stride = p.k.gathered.token;
  a.v_stride = p.v.gathered.token;
  a.scale = op.scale;
  a.softcap = op.softcap;
  a.causal = op.causal;
  a.first_position = p.k.past;
  a.y_stride = p.y.token;
  a.y_head_stride = p.y.head;
  p.set_mask(c, op);
  p.int8 = op.int8;
  p.kernel = op.int8 ? c.kernels->attention_q8 : c.kernels->attention_f32;
  p.pack = op.int8 ? c.kernels->attention_pack_q8 : c.kernels->attention_pack_f32;
  p.call_scratch =
      round_up(kernels::attention_scratch_bytes(a.keys, a.depth, a.value_depth), kAlignment);
  return p;
}

}  // namespace

Result<StepPtr> prepare_op(const graph::Attention& op, const PrepareContext& c) {
  const Plan plan = make_plan(op, c);
  const kernels::AttentionArgs& a = plan.args;
  const std::size_t units = plan.batches * plan.kv_heads, rows = a.queries * a.heads;
  const double macs = static_cast<double>(units * rows) * static_cast<double>(a.keys) *
                      static_cast<double>(a.depth + a.value_depth);
  const std::size_t threads = static_cast<std::size_t>(std::max(c.threads, 1));
  return make_step(
      [plan, units, rows, results = count(c.out(kY))](const RunContext& run) {
        const Plan::Sources from{gather(plan.k, run, kK, kPastK, kPresentK),
                                 gather(plan.v, run, kV, kPastV, kPresentV), plan.packed(run)};
        if (from.packed.k != nullptr) plan.pack_fresh(run, from.packed, from.keys, from.values);
        if (plan.args.keys == 0) {  // a sum of nothing
          std::fill_n(out<float>(run, kY), results, 0.0f);
          return ok_status();
        }
        const std::size_t work = plan.args.keys * (plan.args.depth + plan.args.value_depth);
        const std::size_t least = std::max<std::size_t>(1, (std::size_t{1} << 18) / (work + 1));
        parallel(run, units * rows, least, [&](std::size_t b, std::size_t e, std::size_t part) {
          while (b < e) {
            const std::size_t unit = b / rows, first = b % rows,
                              last = std::min(rows, first + (e - b));
            plan.rows(run, from, unit, first, last, part);
            b += last - first;
          }
        });
        return ok_status();
      },
      plan.calls_at + plan.call_scratch * threads, macs);
}

}  // namespace fold8::ops
