// Normalizations (SPEC §1), softmax.
#include "tools/onnx/op_map.h"

namespace fold8::onnx_io {
namespace {

using graph::Binary;
using graph::BinaryKind;
using graph::Norm;
using graph::NormKind;

// Before opset 14 a node with more outputs than y is in training mode; since then the attribute
// says so.
Status map_batch_norm(NodeContext& ctx) {
  ctx.need_inputs(5, 5);
  if (!ctx.flag("spatial", true))
    return ctx.refuse(
        "BatchNormalization with spatial=0 (statistics per position) is not supported");
  graph::BatchNorm op;
  op.epsilon = ctx.real("epsilon", 1e-5f);
  op.momentum = ctx.real("momentum", 0.9f);
  op.training = ctx.opset() >= 14 ? ctx.flag("training_mode")
                                  : ctx.outputs() > 1 && !ctx.output_name(1).empty();
  if (ctx.opset() == 6 && ctx.flag("is_test")) op.training = false;
  if (!(op.epsilon >= 0)) return ctx.reject("epsilon is negative or NaN");
  if (ctx.wanted(3) || ctx.wanted(4))
    return ctx.refuse("the saved statistics of a training BatchNormalization are not supported");
  if (!op.training && (ctx.wanted(1) || ctx.wanted(2)))
    return ctx.reject("running statistics are read, but training_mode is 0");
  return ctx.finish(op, {ctx.in(0), ctx.in(1), ctx.in(2), ctx.in(3), ctx.in(4)});
}

// True if scale or shift `v` has just the normalized axes, as Norm wants them, or nothing
// contradicts that.
bool fits_normalized(NodeContext& ctx, ValueId v, ValueId x, std::int64_t axis) {
  const TensorType *tv = ctx.type(v), *tx = ctx.type(x);
  if (tv == nullptr || tx == nullptr || axis < 0) return true;
  if (tv->shape.rank() != tx->shape.rank() - axis) return false;
  for (int i = 0; i < tv->shape.rank(); ++i) {
    const Dim d = tx->shape[static_cast<int>(axis) + i];
    if (d.known() && !same(d, tv->shape[i])) return false;
  }
  return true;
}

// A layer or RMS norm; scale and shift that only broadcast become a multiplication and an addition.
Status finish_row_norm(NodeContext& ctx, Norm op, ValueId x, ValueId gamma, ValueId beta) {
  const auto rank = ctx.rank(x);
  const std::int64_t axis = ctx.normalized(op.axis, rank);
  op.axis = rank && axis == *rank - 1 ? -1 : axis;  // the last axis has one name, whatever the rank
  if (!(op.epsilon >= 0)) return ctx.reject("epsilon is negative or NaN");
  const bool fits = (gamma == kNoValue || fits_normalized(ctx, gamma, x, axis)) &&
                    (beta == kNoValue || fits_normalized(ctx, beta, x, axis));
  if (fits) return ctx.finish(op, {x, gamma, beta});
  const ValueId bare = ctx.emit(op, {x}, "normalized");
  if (gamma == kNoValue) return ctx.finish(Binary{BinaryKind::add}, {bare, beta});
  if (beta == kNoValue) return ctx.finish(Binary{BinaryKind::mul}, {bare, gamma});
  return ctx.finish(Binary{BinaryKind::add},
                    {ctx.emit(Binary{BinaryKind::mul}, {bare, gamma}, "scaled"), beta});
}

// Outputs 1 and 2, where somebody reads them: the mean, and 1 / sqrt(variance + epsilon).
Status row_statistics(NodeContext& ctx, const Norm& op) {
  const ValueId x = ctx.in(0);
  const auto rank = ctx.rank(x);
  if (!rank) return ctx.refuse("statistics of an input of unknown rank");
  Ints axes;
  for (auto a = ctx.normalized(op.axis, rank); a < *rank; ++a) axes.push_back(a);
  const graph::Reduce mean_op{graph::ReduceKind::mean, axes};
  const ValueId mean = ctx.wanted(1) ? ctx.out(1) : ctx.value("mean");
  ctx.emit_into(mean_op, {x}, {mean}, "mean");
  if (!ctx.wanted(2)) return ok_status();
  const ValueId centred = ctx.emit(Binary{BinaryKind::sub}, {x, mean}, "centred");
  const ValueId square = ctx.emit(Binary{BinaryKind::mul}, {centred, centred}, "square");
  const ValueId variance = ctx.emit(mean_op, {square}, "variance");
  const ValueId shifted = ctx.emit(
      Binary{BinaryKind::add}, {variance, ctx.scalar_like(x, op.epsilon, "epsilon")}, "shifted");
  const ValueId deviation = ctx.emit(graph::Unary{graph::UnaryKind::sqrt}, {shifted}, "deviation");
  ctx.emit_into(graph::Unary{graph::UnaryKind::reciprocal}, {deviation}, {ctx.out(2)},
                "inverse_deviation");
  return ok_status();
}

Status map_layer_norm(NodeContext& ctx) {
  ctx.need_inputs(1, 3);
  ctx.integer("stash_type", 1);
  const Norm op{NormKind::layer, ctx.integer("axis", -1), ctx.real("epsilon", 1e-5f)};
  if (ctx.wanted(1) || ctx.wanted(2)) FOLD8_CHECK_OK(row_statistics(ctx, op));
  return finish_row_norm(ctx, op, ctx.in(0), ctx.in(1), ctx.in(2));
}

Status map_rms_norm(NodeContext& ctx) {
  ctx.need_inputs(1, 2);
  ctx.integer("stash_type", 1);
  if (ctx.wanted(1)) return ctx.refuse("the inverse deviation output is not supported");
  return finish_row_norm(ctx,
                         Norm{NormKind::rms, ctx.integer("axis", -1), ctx.real("epsilon", 1e-5f)},
                         ctx.in(0), ctx.in(1), kNoValue);
}

// Opset 18: scale and bias per group; opset 21: per channel.
Status map_group_norm(NodeContext& ctx) {
  ctx.need_inputs(3, 3);
  ctx.integer("stash_type", 1);
  Norm op{NormKind::group};
  op.epsilon = ctx.real("epsilon", 1e-5f);
  op.groups = ctx.integer("num_groups");
  op.affine_per_group = ctx.opset() < 21;
  if (op.groups <= 0) return ctx.reject("num_groups must be at least 1");
  if (!(op.epsilon >= 0)) return ctx.reject("epsilon is negative or NaN");
  return ctx.finish(op, {ctx.in(0), ctx.in(1), ctx.in(2)});
}

Status map_instance_norm(NodeContext& ctx) {
  ctx.need_inputs(3, 3);
  Norm op{NormKind::instance};
  op.epsilon = ctx.real("epsilon", 1e-5f);
  if (!(op.epsilon >= 0)) return ctx.reject("epsilon is negative or NaN");
  return ctx.finish(op, {ctx.in(0), ctx.in(1), ctx.in(2)});
}

Status map_lrn(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  graph::Lrn op{ctx.real("alpha", 1e-4f), ctx.real("beta", 0.75f), ctx.real("bias", 1),
                ctx.integer("size")};
  if (op.size <= 0) return ctx.reject("size must be at least 1");
  return ctx.finish(op, {ctx.in(0)});
}

// Before opset 13 everything from the axis (1 by default) on is one row.
template <bool log>
Status map_softmax(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  graph::Softmax op;
  op.log = log;
  const bool old = ctx.opset() < 13;
  op.axis = ctx.axis("axis", old ? 1 : -1, ctx.in(0));
  const auto rank = ctx.rank(ctx.in(0));
  op.flatten = old && !(rank && op.axis == *rank - 1);
  return ctx.finish(op, {ctx.in(0)});
}

// x / ‖x‖ along an axis; 0 where the norm is 0.
Status map_lp_normalization(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  const std::int64_t p = ctx.integer("p", 2);
  if (p != 1 && p != 2) return ctx.reject("p must be 1 or 2");
  graph::Reduce norm{p == 1 ? graph::ReduceKind::l1 : graph::ReduceKind::l2,
                     {ctx.axis("axis", -1, ctx.in(0))}};
  const ValueId length = ctx.emit(norm, {ctx.in(0)}, "norm");
  const ValueId is_zero = ctx.emit(Binary{BinaryKind::equal},
                                   {length, ctx.scalar_like(ctx.in(0), 0, "zero")}, "is_zero");
  const ValueId divisor =
      ctx.emit(graph::Where{}, {is_zero, ctx.scalar_like(ctx.in(0), 1, "one"), length}, "divisor");
  return ctx.finish(Binary{BinaryKind::div}, {ctx.in(0), divisor});
}

// (x - mean) / (sqrt(mean(x^2) - mean^2) + 1e-9), as ONNX defines the function.
Status map_mean_variance(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  const ValueId x = ctx.in(0);
  Ints axes = ctx.has("axes") ? ctx.integers("axes") : Ints{0, 2, 3};
  ctx.normalize(axes, ctx.rank(x));
  const graph::Reduce mean_op{graph::ReduceKind::mean, axes};
  const ValueId mean = ctx.emit(mean_op, {x}, "mean");
  const ValueId mean_squared = ctx.emit(Binary{BinaryKind::mul}, {mean, mean}, "mean_squared");
  const ValueId square = ctx.emit(Binary{BinaryKind::mul}, {x, x}, "square");
  const ValueId mean_of_squares = ctx.emit(mean_op, {square}, "mean_of_squares");
  const ValueId variance =
      ctx.emit(Binary{BinaryKind::sub}, {mean_of_squares, mean_squared}, "variance");
  const ValueId deviation = ctx.emit(graph::Unary{graph::UnaryKind::sqrt}, {variance}, "deviation");
  const ValueId divisor = ctx.emit(Binary{BinaryKind::add},
                                   {deviation, ctx.scalar_like(x, 1e-9, "epsilon")}, "divisor");
  const ValueId centred = ctx.emit(Binary{BinaryKind::sub}, {x, mean}, "centred");
  return ctx.finish(Binary{BinaryKind::div}, {centred, divisor});
}

constexpr MapEntry kOps[] = {
    {"BatchNormalization", map_batch_norm},
    {"GroupNormalization", map_group_norm},
    {"InstanceNormalization", map_instance_norm},
    {"LRN", map_lrn},
    {"LayerNormalization", map_layer_norm},
    {"LogSoftmax", map_softmax<true>},
    {"LpNormalization", map_lp_normalization},
    {"MeanVarianceNormalization", map_mean_variance},
    {"RMSNormalization", map_rms_norm},
    {"SimplifiedLayerNormalization", map_rms_norm},
    {"Softmax", map_softmax<false>},
};

}  // namespace

std::span<const MapEntry> norm_ops() { return kOps; }

}  // namespace fold8::onnx_io
