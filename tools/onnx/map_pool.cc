// Pooling and resizing.
#include <algorithm>

#include "tools/onnx/op_map.h"

namespace fold8::onnx_io {
namespace {

using graph::Pool;
using graph::PoolKind;
using graph::Resize;

void check_window(NodeContext& ctx, Pool& op) {
  const std::size_t n = op.kernel.size();
  if (op.strides.empty()) op.strides.assign(n, 1);
  if (op.dilations.empty()) op.dilations.assign(n, 1);
  if (op.pads.empty()) op.pads.assign(2 * n, 0);
  const auto positive = [](std::int64_t v) { return v >= 1 && v <= INT32_MAX; };
  const auto rank = ctx.rank(ctx.in(0));
  if (n == 0) return ctx.fail(invalid_model("kernel_shape is missing"));
  if (n > 3)
    return ctx.fail(
        unsupported(std::to_string(n) + " spatial axes; fold8 pools along one to three"));
  if (op.strides.size() != n || op.dilations.size() != n || op.pads.size() != 2 * n ||
      (rank && *rank != static_cast<int>(n) + 2))
    return ctx.fail(invalid_model(
        "kernel_shape, strides, dilations, pads and the input's rank do not fit each other"));
  if (!std::all_of(op.kernel.begin(), op.kernel.end(), positive) ||
      !std::all_of(op.strides.begin(), op.strides.end(), positive) ||
      !std::all_of(op.dilations.begin(), op.dilations.end(), positive))
    return ctx.fail(invalid_model("kernel_shape, strides and dilations must be at least 1"));
  if (std::any_of(op.pads.begin(), op.pads.end(),
                  [](std::int64_t p) { return p < 0 || p > INT32_MAX; }))
    ctx.fail(unsupported("negative or huge pads"));
}

// SAME padding with stride 1 does not depend on the size of the input.
void resolve_same(Pool& op) {
  if (std::any_of(op.strides.begin(), op.strides.end(), [](std::int64_t s) { return s != 1; }))
    return;
  for (std::size_t i = 0; i < op.kernel.size(); ++i) {
    const std::int64_t total = (op.kernel[i] - 1) * op.dilations[i];
    op.pads[i] = op.auto_pad == graph::AutoPad::same_upper ? total / 2 : total - total / 2;
    op.pads[op.kernel.size() + i] = total - op.pads[i];
  }
  op.auto_pad = graph::AutoPad::none;
}

template <PoolKind kind>
Status map_pool(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  Pool op{kind};
  op.kernel = ctx.integers("kernel_shape");
  op.strides = ctx.integers("strides");
  op.dilations = ctx.integers("dilations");
  op.ceil_mode = ctx.flag("ceil_mode");
  op.count_include_pad = ctx.flag("count_include_pad");
  op.p = ctx.integer("p", 2);
  op.storage_order = ctx.integer("storage_order");
  const std::string auto_pad = ctx.text("auto_pad", "NOTSET");
  if (ctx.has("pads") && (auto_pad == "NOTSET" || auto_pad.empty())) op.pads = ctx.integers("pads");
  if (auto_pad == "SAME_UPPER")
    op.auto_pad = graph::AutoPad::same_upper;
  else if (auto_pad == "SAME_LOWER")
    op.auto_pad = graph::AutoPad::same_lower;
  else if (auto_pad != "NOTSET" && auto_pad != "VALID" && !auto_pad.empty())
    return ctx.reject("auto_pad='" + auto_pad + "' is unknown");
  check_window(ctx, op);
  if (ctx.failed()) return ctx.done();
  if (op.auto_pad != graph::AutoPad::none) resolve_same(op);
  return ctx.finish(op, {ctx.in(0)});
}

template <PoolKind kind>
Status map_global_pool(NodeContext& ctx) {
  ctx.need_inputs(1, 1);
  Pool op{kind, true};
  op.p = ctx.integer("p", 2);
  return ctx.finish(op, {ctx.in(0)});
}

// ----------------------------------------------------------------------------------------------
// resize

template <class E>
struct Name {
  std::string_view text;
  E value;
};
constexpr Name<graph::ResizeMode> kModes[] = {{"nearest", graph::ResizeMode::nearest},
                                              {"linear", graph::ResizeMode::linear},
                                              {"bilinear", graph::ResizeMode::linear},
                                              {"cubic", graph::ResizeMode::cubic}};
constexpr Name<graph::Coordinates> kCoordinates[] = {
    {"half_pixel", graph::Coordinates::half_pixel},
    {"pytorch_half_pixel", graph::Coordinates::pytorch_half_pixel},
    {"align_corners", graph::Coordinates::align_corners},
    {"asymmetric", graph::Coordinates::asymmetric},
    {"half_pixel_symmetric", graph::Coordinates::half_pixel_symmetric},
    {"tf_crop_and_resize", graph::Coordinates::tf_crop_and_resize}};
constexpr Name<graph::NearestMode> kNearest[] = {
    {"round_prefer_floor", graph::NearestMode::round_prefer_floor},
    {"round_prefer_ceil", graph::NearestMode::round_prefer_ceil},
    {"floor", graph::NearestMode::floor},
    {"ceil", graph::NearestMode::ceil}};
constexpr Name<std::int64_t> kAspect[] = {{"stretch", 0}, {"not_larger", 1}, {"not_smaller", 2}};

template <class E, std::size_t n>
E choose(NodeContext& ctx, const Name<E> (&names)[n], const char* attribute,
         const char* otherwise) {
  const std::string text = ctx.text(attribute, otherwise);
  for (const auto& name : names)
    if (name.text == text) return name.value;
  ctx.fail(unsupported(std::string(attribute) + "='" + text + "'"));
  return names[0].value;
}

// Opset 10 knows nearest and linear, both with asymmetric coordinates.
Status map_resize_10(NodeContext& ctx, ValueId scales) {
  Resize op;
  op.mode = choose(ctx, kModes, "mode", "nearest");
  op.coordinates = graph::Coordinates::asymmetric;
  op.nearest = graph::NearestMode::floor;
  return ctx.finish(op, {ctx.in(0), scales});
}

Status map_resize(NodeContext& ctx) {
  if (ctx.opset() < 11) {
    ctx.need_inputs(2, 2);
    return map_resize_10(ctx, ctx.in(1));
  }
  ctx.need_inputs(1, 4);
  Resize op;
  op.mode = choose(ctx, kModes, "mode", "nearest");
  op.coordinates = choose(ctx, kCoordinates, "coordinate_transformation_mode", "half_pixel");
  op.nearest = choose(ctx, kNearest, "nearest_mode", "round_prefer_floor");
  op.keep_aspect_ratio = choose(ctx, kAspect, "keep_aspect_ratio_policy", "stretch");
  op.cubic_a = ctx.real("cubic_coeff_a", -0.75f);
  op.exclude_outside = ctx.flag("exclude_outside");
  op.antialias = ctx.flag("antialias");
  op.extrapolation_value = ctx.real("extrapolation_value");
  op.axes = ctx.integers("axes");
  ctx.normalize(op.axes, ctx.rank(ctx.in(0)));
  // Opset 11 passes empty tensors for what is absent.
  const auto present = [&](int i) { return ctx.empty_constant(ctx.in(i)) ? kNoValue : ctx.in(i); };
  const ValueId scales = present(2), sizes = present(3);
  if ((scales == kNoValue) == (sizes == kNoValue))
    return ctx.reject("needs either scales or sizes");
  const ValueId roi =
      op.coordinates == graph::Coordinates::tf_crop_and_resize ? present(1) : kNoValue;
  return ctx.finish(op, {ctx.in(0), scales, ctx.as_s64(sizes, "sizes"), roi});
}

Status map_upsample(NodeContext& ctx) {
  ctx.need_inputs(1, 2);
  if (ctx.in(1) != kNoValue) return map_resize_10(ctx, ctx.in(1));
  const std::vector<float> scales = ctx.reals("scales");
  if (scales.empty()) return ctx.reject("scales are missing");
  return map_resize_10(
      ctx, ctx.floats(scales, Shape{static_cast<std::int64_t>(scales.size())}, "scales"));
}

constexpr MapEntry kOps[] = {
    {"AveragePool", map_pool<PoolKind::average>},
    {"GlobalAveragePool", map_global_pool<PoolKind::average>},
    {"GlobalLpPool", map_global_pool<PoolKind::lp>},
    {"GlobalMaxPool", map_global_pool<PoolKind::max>},
    {"LpPool", map_pool<PoolKind::lp>},
    {"MaxPool", map_pool<PoolKind::max>},
    {"Resize", map_resize},
    {"Upsample", map_upsample},
};

}  // namespace

std::span<const MapEntry> pool_ops() { return kOps; }

}  // namespace fold8::onnx_io
