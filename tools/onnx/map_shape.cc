// Operators that only move, copy or name elements: shapes, joins, gathers, scatters, constants.
#include <onnx/onnx_pb.h>

#include <cstring>

#include "tools/onnx/op_map.h"

namespace fold8::onnx_io {
namespace {

Status map_reshape(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  return ctx.finish(graph::Reshape{ctx.flag("allowzero")},
                    {ctx.in(0), ctx.as_s64(ctx.in(1), "shape")});
}

Status map_flatten(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  std::int64_t axis = ctx.integer("axis", 1);
  const auto rank = ctx.rank(ctx.in(0));
  if (!rank || axis != *rank) axis = ctx.normalized(axis, rank);  // axis == rank is allowed here
  return ctx.finish(graph::Flatten{axis}, {ctx.in(0)});
}

// Axes: an attribute up to opset 12, an input since, which must be known at import.
std::optional<Ints> squeeze_axes(NodeContext& ctx) {
  if (ctx.in(1) == kNoValue) return ctx.integers("axes");
  return ctx.known_ints(ctx.in(1));
}

Status map_squeeze(NodeContext& ctx) {
  ctx.need_inputs(1, 2);
  auto axes = squeeze_axes(ctx);
  if (!axes) return ctx.refuse("axes that are computed from data");
  ctx.normalize(*axes, ctx.rank(ctx.in(0)));
  return ctx.finish(graph::Squeeze{*axes}, {ctx.in(0)});
}

Status map_unsqueeze(NodeContext& ctx) {
  ctx.need_inputs(1, 2);
  auto axes = squeeze_axes(ctx);
  if (!axes) return ctx.refuse("axes that are computed from data");
  if (const auto rank = ctx.rank(ctx.in(0))) {
    if (*rank + axes->size() > Shape::kMaxRank)
      return ctx.refuse("a result of more than " + std::to_string(Shape::kMaxRank) + " axes");
    ctx.normalize(*axes, *rank + static_cast<int>(axes->size()));
  }
  return ctx.finish(graph::Unsqueeze{*axes}, {ctx.in(0)});
}

Status map_transpose(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  Ints perm = ctx.integers("perm");
  ctx.normalize(perm, ctx.rank(ctx.in(0)));
  return ctx.finish(graph::Transpose{perm}, {ctx.in(0)});
}

Status map_concat(NodeContext& ctx) {
  ctx.need_inputs(1, -1);
  return ctx.finish(graph::Concat{ctx.axis("axis", 1, ctx.in(0))}, ctx.all_inputs());
}

Status map_expand(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  return ctx.finish(graph::Expand{}, {ctx.in(0), ctx.as_s64(ctx.in(1), "shape")});
}

Status map_tile(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  return ctx.finish(graph::Tile{}, {ctx.in(0), ctx.as_s64(ctx.in(1), "repeats")});
}

Status map_gather(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  return ctx.finish(graph::Gather{ctx.axis("axis", 0, ctx.in(0))}, {ctx.in(0), ctx.in(1)});
}

Status map_gather_elements(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  return ctx.finish(graph::GatherElements{ctx.axis("axis", 0, ctx.in(0))}, {ctx.in(0), ctx.in(1)});
}

Status map_gather_nd(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  return ctx.finish(graph::GatherND{ctx.integer("batch_dims")}, {ctx.in(0), ctx.in(1)});
}

graph::ScatterReduction scatter_reduction(NodeContext& ctx) {
  const std::string text = ctx.text("reduction", "none");
  if (text == "add") return graph::ScatterReduction::add;
  if (text == "mul") return graph::ScatterReduction::mul;
  if (text == "min") return graph::ScatterReduction::min;
  if (text == "max") return graph::ScatterReduction::max;
  if (text != "none") ctx.fail(invalid_model("reduction='" + text + "' is unknown"));
  return graph::ScatterReduction::none;
}

Status map_scatter_elements(NodeContext& ctx) {
  ctx.need_inputs(3, 3);
  return ctx.finish(graph::ScatterElements{ctx.axis("axis", 0, ctx.in(0)), scatter_reduction(ctx)},
                    ctx.all_inputs());
}

Status map_scatter_nd(NodeContext& ctx) {
  ctx.need_inputs(3, 3);
  return ctx.finish(graph::ScatterND{scatter_reduction(ctx)}, ctx.all_inputs());
}

Status map_depth_to_space(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  const std::int64_t block = ctx.integer("blocksize");
  const std::string mode = ctx.text("mode", "DCR");
  if (block < 1 || block > INT16_MAX) return ctx.reject("blocksize is " + std::to_string(block));
  if (mode != "DCR" && mode != "CRD") return ctx.reject("mode='" + mode + "' is unknown");
  return ctx.finish(graph::DepthToSpace{block, mode == "CRD"}, {ctx.in(0)});
}

Status map_space_to_depth(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  const std::int64_t block = ctx.integer("blocksize");
  if (block < 1 || block > INT16_MAX) return ctx.reject("blocksize is " + std::to_string(block));
  return ctx.finish(graph::SpaceToDepth{block}, {ctx.in(0)});
}

Status map_trilu(NodeContext& ctx) {
  ctx.need_inputs(1, 2);
  return ctx.finish(graph::Trilu{ctx.flag("upper", true)}, {ctx.in(0), ctx.in(1)});
}

Status map_one_hot(NodeContext& ctx) {
  ctx.need_inputs(3, 3);
  const auto rank = ctx.rank(ctx.in(0));
  const std::int64_t axis =
      ctx.normalized(ctx.integer("axis", -1), rank ? std::optional<int>(*rank + 1) : std::nullopt);
  return ctx.finish(graph::OneHot{axis}, ctx.all_inputs());
}

Status map_shape_of(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  graph::ShapeOf op{ctx.integer("start"), ctx.has("end") ? ctx.integer("end") : INT64_MAX};
  if (const auto rank = ctx.rank(ctx.in(0))) {
    const auto clamp = [&](std::int64_t v) {
      return std::min<std::int64_t>(std::max<std::int64_t>(v < 0 ? v + *rank : v, 0), *rank);
    };
    op.start = clamp(op.start);
    op.end = clamp(op.end) == *rank ? INT64_MAX : clamp(op.end);
  }
  return ctx.finish(op, {ctx.in(0)});
}

Status map_size_of(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  return ctx.finish(graph::SizeOf{}, {ctx.in(0)});
}

Status map_range(NodeContext& ctx) {
  ctx.need_inputs(3, 3);
  ctx.integer("stash_type", 1);
  return ctx.finish(graph::Range{}, ctx.all_inputs());
}

Status map_non_zero(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  return ctx.finish(graph::NonZero{}, {ctx.in(0)});
}

// Elements along an axis (or of the flat tensor) where the condition holds.
Status map_compress(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  const bool flat = !ctx.has("axis");
  const std::int64_t axis = flat ? 0 : ctx.axis("axis", 0, ctx.in(0));
  const ValueId where = ctx.emit(graph::NonZero{}, {ctx.in(1)}, "where");
  const ValueId indices = ctx.emit(graph::Squeeze{{0}}, {where}, "indices");
  const ValueId x =
      flat ? ctx.emit(graph::Reshape{}, {ctx.in(0), ctx.ints({-1}, "flat_shape")}, "flat")
           : ctx.in(0);
  return ctx.finish(graph::Gather{axis}, {x, indices});
}

Status map_constant_of_shape(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  graph::ConstantOfShape op;
  if (const onnx::TensorProto* t = ctx.tensor("value")) {
    auto data = read_tensor(*t, ctx.name() + "/value", ctx.builder().folder);
    if (!data.ok()) {
      ctx.fail(data.error());
      return ctx.done();
    }
    if (data->shape.count() != 1) return ctx.reject("value must have one element");
    op.dtype = data->dtype;
    std::memcpy(&op.bits, data->data->data(), size_of(data->dtype));
  }
  return ctx.finish(op, {ctx.as_s64(ctx.in(0), "shape")});
}

// Of a constant: the same bytes under another name.
Status map_identity(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  const ValueId x = ctx.in(0);
  if (!ctx.graph().is_constant(x) || ctx.failed()) return ctx.finish(graph::Identity{}, {x});
  const graph::Value copy = ctx.graph().value(x);
  ctx.builder().bind(ctx.output_name(0),
                     ctx.graph().add_constant(ctx.output_name(0), copy.type, copy.constant));
  return ctx.done();
}

Status map_dropout(NodeContext& ctx) {
  ctx.need_inputs(1, 3);
  ctx.integer("seed");
  ctx.integer("is_test");
  const float ratio_attribute = ctx.real("ratio", 0.5f);
  const ValueId x = ctx.in(0);
  if (ctx.in(2) != kNoValue) {
    const auto training = ctx.known_ints(ctx.in(2));
    const auto ratio = ctx.in(1) == kNoValue
                           ? std::vector<double>{double{ratio_attribute}}
                           : ctx.known_reals(ctx.in(1)).value_or(std::vector<double>());
    const bool off = training && training->size() == 1 && (*training)[0] == 0;
    const bool nothing = ratio.size() == 1 && ratio[0] == 0;
    if (!off && !nothing)
      return ctx.refuse(
          "Dropout in training mode: results would not be reproducible; export the model for "
          "inference");
  }
  if (ctx.wanted(1)) {
    const ValueId shape = ctx.emit(graph::ShapeOf{}, {x}, "mask_shape");
    ctx.emit_into(graph::ConstantOfShape{DType::boolean, 1}, {shape}, {ctx.out(1)}, "mask");
    if (!ctx.wanted(0)) return ctx.done();
  }
  ctx.emit_into(graph::Identity{}, {x}, {ctx.out(0)}, "");
  return ctx.done();
}

constexpr MapEntry kOps[] = {
    {"Compress", map_compress},
    {"Concat", map_concat},
    {"ConstantOfShape", map_constant_of_shape},
    {"DepthToSpace", map_depth_to_space},
    {"Dropout", map_dropout},
    {"Expand", map_expand},
    {"Flatten", map_flatten},
    {"Gather", map_gather},
    {"GatherElements", map_gather_elements},
    {"GatherND", map_gather_nd},
    {"Identity", map_identity},
    {"NonZero", map_non_zero},
    {"OneHot", map_one_hot},
    {"Range", map_range},
    {"Reshape", map_reshape},
    {"Scatter", map_scatter_elements},
    {"ScatterElements", map_scatter_elements},
    {"ScatterND", map_scatter_nd},
    {"Shape", map_shape_of},
    {"Size", map_size_of},
    {"SpaceToDepth", map_space_to_depth},
    {"Squeeze", map_squeeze},
    {"Tile", map_tile},
    {"Transpose", map_transpose},
    {"Trilu", map_trilu},
    {"Unsqueeze", map_unsqueeze},
};

}  // namespace

std::span<const MapEntry> shape_ops() { return kOps; }

}  // namespace fold8::onnx_io
