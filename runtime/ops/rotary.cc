// Rotary position embedding (kernels/rotary.h).
#include "runtime/kernels/rotary.h"

#include "runtime/ops/heads.h"

namespace fold8::ops {

Status expect_heads(const InferContext& c, std::size_t i, const Heads& heads) {
  if (!c.type(i).quant) FOLD8_CHECK_OK(expect_dtype(c, i, {DType::f32}));
  const Shape& x = c.shape(i);
  constexpr std::int64_t kMost = std::int64_t{1} << 24, kFarthest = std::int64_t{1} << 40;
  if (heads.heads < 1 || heads.heads > kMost || heads.depth < 1 || heads.depth > kMost ||
      heads.offset < 0 || heads.offset > kFarthest)
    return invalid_model(std::to_string(heads.heads) + " heads of " + std::to_string(heads.depth) +
                         " elements from column " + std::to_string(heads.offset) + " on");
  if (heads.rows) {
    const std::int64_t least = heads.offset + heads.heads * heads.depth;
    if (x.rank() != 3 || (x[2].known() && x[2].value() < least))
      return bad_input(c, i, "[batch, tokens, " + std::to_string(least) + " or more]");
    return ok_status();
  }
  if (x.rank() != 4 || differ(x[1], Dim(heads.heads)) || differ(x[3], Dim(heads.depth)))
    return bad_input(c, i,
                     "[batch, " + std::to_string(heads.heads) + ", tokens, " +
                         std::to_string(heads.depth) + "]");
  return ok_status();
}

namespace {

Heads heads_of(const graph::Rotary& op) { return {op.rows, op.heads, op.depth, 0}; }

// The tables are [S, D] or [B, S, D], with axes of 1 between and before.
struct Table {
  Dim batch{1}, tokens, width;
};
std::optional<Table> table_of(const Shape& s) {
  const int rank = s.rank();
  if (rank < 2) return std::nullopt;
  Table t{Dim(1), s[rank - 2], s[rank - 1]};
  for (int i = 0; i < rank - 2; ++i) {
    if (s[i].known() && s[i].value() == 1) continue;
    if (i != 0 || rank > 4) return std::nullopt;
    t.batch = s[i];
  }
  return t;
}

}  // namespace

Status infer_op(const graph::Rotary& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 3, 3));
  if (op.heads < 1 || op.dims < 2 || op.dims % 2 != 0 || op.dims > op.depth)
    return invalid_model("rotary embedding of " + std::to_string(op.dims) + " of " +
                         std::to_string(op.depth) + " elements of a head");
  FOLD8_CHECK_OK(expect_heads(c, 0, heads_of(op)));
  const Shape& x = c.shape(0);
  for (std::size_t i : {1, 2}) {
    FOLD8_CHECK_OK(expect_dtype(c, i, {DType::f32}));
    const auto t = table_of(c.shape(i));
    const bool fits = t && !differ(t->tokens, heads_of(op).tokens(x)) &&
                      (!differ(t->width, Dim(op.dims)) || !differ(t->width, Dim(op.dims / 2))) &&
                      (!differ(t->batch, Dim(1)) || !differ(t->batch, x[0]));
    if (!fits)
      return bad_input(c, i, "a row of " + std::to_string(op.dims) + " or half as many per token");
    if (i == 2 && differ(t->width, table_of(c.shape(1))->width))
      return bad_input(c, i, "rows as long as those of input 1, " + to_string(c.shape(1)));
  }
  c.set(0, DType::f32, x);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Rotary& op, const PrepareContext& c) {
  const Shape& x = c.type(0).shape;
  const HeadStrides s = heads_of(op).strides(x);
  const Table table = *table_of(c.type(1).shape), sines = *table_of(c.type(2).shape);
  kernels::RotaryArgs args;
  args.tokens = static_cast<std::size_t>(heads_of(op).tokens(x).value());
  args.heads = static_cast<std::size_t>(op.heads);
  args.depth = static_cast<std::size_t>(op.depth);
  args.dims = static_cast<std::size_t>(op.dims);
  args.interleaved = op.interleaved;
  args.full_tables = table.width.value() == op.dims;
  args.table_stride = static_cast<std::size_t>(table.width.value());
  args.stride = s.token;
  args.head_stride = s.head;
  const std::size_t rows = args.tokens * args.table_stride,
                    cos_batch = table.batch.value() == 1 ? 0 : rows,
                    sin_batch = sines.batch.value() == 1 ? 0 : rows,
                    batches = static_cast<std::size_t>(x.extent(0));
  if (count(c.type(0)) == 0) return make_step([](const RunContext&) { return ok_status(); });
  return make_step([=, kernel = c.kernels->rotary](const RunContext& run) {
    parallel(run, batches * args.tokens, grain_for(2 * args.heads * args.depth),
             [&](std::size_t begin, std::size_t end, std::size_t) {
               while (begin < end) {
                 const std::size_t b = begin / args.tokens, t = begin % args.tokens;
                 kernels::RotaryArgs a = args;
                 a.tokens = std::min(args.tokens - t, end - begin);
                 const std::size_t at = b * s.batch + t * s.token;
                 a.x = in<float>(run, 0) + at;
                 a.y = out<float>(run, 0) + at;
                 a.cos = in<float>(run, 1) + b * cos_batch + t * a.table_stride;
                 a.sin = in<float>(run, 2) + b * sin_batch + t * a.table_stride;
                 kernel(a);
                 begin += a.tokens;
               }
             });
    return ok_status();
  });
}

}  // namespace fold8::ops
