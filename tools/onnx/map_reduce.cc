// Reductions along axes, and order statistics.
#include "tools/onnx/op_map.h"

namespace fold8::onnx_io {
namespace {

using graph::ReduceKind;

// Axes are an attribute up to opset 17 (ReduceSum: 12), an input since.
template <ReduceKind kind>
Status reduce(NodeContext& ctx) {
  ctx.need_inputs(1, 2);
  graph::Reduce op{kind, ctx.integers("axes"), ctx.flag("keepdims", true),
                   ctx.flag("noop_with_empty_axes")};
  ValueId axes = ctx.in(1);
  if (axes != kNoValue) {
    if (const auto known = ctx.known_ints(axes)) {
      op.axes = *known;
      axes = kNoValue;
    }
  }
  ctx.normalize(op.axes, ctx.rank(ctx.in(0)));
  return ctx.finish(op, {ctx.in(0), ctx.as_s64(axes, "axes")});
}

template <bool max>
Status arg_reduce(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  return ctx.finish(graph::ArgReduce{max, ctx.axis("axis", 0, ctx.in(0)),
                                     ctx.flag("keepdims", true), ctx.flag("select_last_index")},
                    {ctx.in(0)});
}

Status map_cum_sum(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  return ctx.finish(graph::CumSum{ctx.flag("exclusive"), ctx.flag("reverse")},
                    {ctx.in(0), ctx.in(1)});
}

Status map_top_k(NodeContext& ctx) {
  ctx.need_inputs(1, 2);
  graph::TopK op{ctx.axis("axis", -1, ctx.in(0)), ctx.flag("largest", true),
                 ctx.flag("sorted", true)};
  const ValueId k =
      ctx.opset() < 10 ? ctx.ints({ctx.integer("k")}, "k") : ctx.as_s64(ctx.in(1), "k");
  if (k == kNoValue) return ctx.reject("k is missing");
  return ctx.finish(op, {ctx.in(0), k});
}

constexpr MapEntry kOps[] = {
    {"ArgMax", arg_reduce<true>},
    {"ArgMin", arg_reduce<false>},
    {"CumSum", map_cum_sum},
    {"ReduceL1", reduce<ReduceKind::l1>},
    {"ReduceL2", reduce<ReduceKind::l2>},
    {"ReduceLogSum", reduce<ReduceKind::log_sum>},
    {"ReduceLogSumExp", reduce<ReduceKind::log_sum_exp>},
    {"ReduceMax", reduce<ReduceKind::max>},
    {"ReduceMean", reduce<ReduceKind::mean>},
    {"ReduceMin", reduce<ReduceKind::min>},
    {"ReduceProd", reduce<ReduceKind::prod>},
    {"ReduceSum", reduce<ReduceKind::sum>},
    {"ReduceSumSquare", reduce<ReduceKind::sum_square>},
    {"TopK", map_top_k},
};

}  // namespace

std::span<const MapEntry> reduce_ops() { return kOps; }

}  // namespace fold8::onnx_io
