// Constant, Slice, Split, Pad: operators whose numbers moved from attributes to inputs over the
// opsets.
#include <onnx/onnx_pb.h>

#include "tools/onnx/op_map.h"

namespace fold8::onnx_io {
namespace {

Status add_constant(NodeContext& ctx, ConstantData data) {
  if (!ctx.failed())
    ctx.builder().bind(ctx.output_name(0),
                       ctx.builder().add_constant(ctx.output_name(0), std::move(data)));
  return ctx.done();
}

template <class T>
ConstantData list_data(std::span<const T> values, const Shape& shape) {
  auto buffer = Buffer::allocate(values.size_bytes());
  std::copy(values.begin(), values.end(), reinterpret_cast<T*>(buffer->mutable_data()));
  return {dtype_of<T>::value, shape, buffer};
}

Status map_constant(NodeContext& ctx) {
  ctx.need_inputs(0, 0);
  if (ctx.has("sparse_value")) return ctx.refuse("sparse constants are not supported");
  if (ctx.has("value_string") || ctx.has("value_strings"))
    return ctx.refuse("strings are not supported");
  if (const onnx::TensorProto* t = ctx.tensor("value")) {
    auto data = read_tensor(*t, ctx.output_name(0), ctx.builder().folder);
    if (!data.ok()) ctx.fail(data.error());
    return ctx.failed() ? ctx.done() : add_constant(ctx, std::move(data).value());
  }
  if (ctx.has("value_int")) {
    const std::int64_t v = ctx.integer("value_int");
    return add_constant(ctx, list_data<std::int64_t>({&v, 1}, Shape()));
  }
  if (ctx.has("value_float")) {
    const float v = ctx.real("value_float");
    return add_constant(ctx, list_data<float>({&v, 1}, Shape()));
  }
  if (ctx.has("value_ints")) {
    const Ints v = ctx.integers("value_ints");
    return add_constant(ctx,
                        list_data<std::int64_t>(v, Shape{static_cast<std::int64_t>(v.size())}));
  }
  if (ctx.has("value_floats")) {
    const auto v = ctx.reals("value_floats");
    return add_constant(ctx, list_data<float>(v, Shape{static_cast<std::int64_t>(v.size())}));
  }
  return ctx.reject("has no value");
}

// Negative axes of a constant are brought into range; others are left to the run.
ValueId normalized_axes(NodeContext& ctx, ValueId axes) {
  const auto known = ctx.known_ints(axes);
  const auto rank = ctx.rank(ctx.in(0));
  if (!known || !rank) return ctx.as_s64(axes, "axes");
  Ints normal = *known;
  ctx.normalize(normal, rank);
  return normal == *known ? ctx.as_s64(axes, "axes") : ctx.ints(normal, "axes");
}

Status map_slice(NodeContext& ctx) {
  ctx.need_inputs(ctx.opset() < 10 ? 1 : 3, 5);
  const ValueId starts = ctx.ints_operand(1, "starts"), ends = ctx.ints_operand(2, "ends");
  ValueId axes = ctx.ints_operand(3, "axes");
  if (starts == kNoValue || ends == kNoValue) return ctx.reject("starts or ends are missing");
  if (axes != kNoValue) axes = normalized_axes(ctx, axes);
  return ctx.finish(graph::Slice{},
                    {ctx.in(0), starts, ends, axes, ctx.as_s64(ctx.in(4), "steps")});
}

// Equal parts, the last one smaller, as opset 18 counts them. nullopt: the extent is not known.
std::optional<Ints> equal_parts(NodeContext& ctx, std::int64_t axis, std::int64_t parts) {
  const TensorType* t = ctx.type(ctx.in(0));
  if (t == nullptr || axis < 0 || axis >= t->shape.rank() ||
      !t->shape[static_cast<int>(axis)].known())
    return std::nullopt;
  const std::int64_t extent = t->shape.extent(static_cast<int>(axis));
  const std::int64_t each = (extent + parts - 1) / parts;
  Ints sizes;
  for (std::int64_t i = 0; i < parts; ++i)
    sizes.push_back(std::max<std::int64_t>(std::min(each, extent - i * each), 0));
  return sizes;
}

Status map_split(NodeContext& ctx) {
  ctx.need_inputs(1, 2);
  graph::Split op;
  op.axis = ctx.axis("axis", 0, ctx.in(0));
  op.sizes = ctx.integers("split");
  const std::int64_t parts = ctx.outputs();
  if (parts == 0) return ctx.reject("has no outputs");
  if (const std::int64_t n = ctx.integer("num_outputs", parts); n != parts)
    return ctx.reject("num_outputs is " + std::to_string(n) + ", the node has " +
                      std::to_string(parts) + " outputs");
  ValueId sizes = ctx.in(1);
  if (sizes != kNoValue) {
    if (const auto known = ctx.known_ints(sizes)) {
      op.sizes = *known;
      sizes = kNoValue;
    }
  } else if (op.sizes.empty()) {
    op.sizes = equal_parts(ctx, op.axis, parts).value_or(Ints());
  }
  if (!op.sizes.empty() && static_cast<std::int64_t>(op.sizes.size()) != parts)
    return ctx.reject("has " + std::to_string(op.sizes.size()) + " sizes for " +
                      std::to_string(parts) + " outputs");
  return ctx.finish(op, {ctx.in(0), ctx.as_s64(sizes, "sizes")}, ctx.outputs());
}

Status map_pad(NodeContext& ctx) {
  ctx.need_inputs(1, 4);
  const std::string mode = ctx.text("mode", "constant");
  graph::Pad op;
  if (mode == "reflect")
    op.mode = graph::Pad::Mode::reflect;
  else if (mode == "edge")
    op.mode = graph::Pad::Mode::edge;
  else if (mode == "wrap")
    op.mode = graph::Pad::Mode::wrap;
  else if (mode != "constant")
    return ctx.reject("mode='" + mode + "' is unknown");
  const ValueId pads = ctx.ints_operand(1, "pads");
  if (pads == kNoValue) return ctx.reject("pads are missing");
  ValueId value = ctx.in(2);
  if (ctx.opset() < 11 && ctx.real("value") != 0)
    value = ctx.scalar_like(ctx.in(0), ctx.real("value"), "value");
  if (ctx.empty_constant(value) || op.mode != graph::Pad::Mode::constant) value = kNoValue;
  const ValueId axes = ctx.in(3) == kNoValue ? kNoValue : normalized_axes(ctx, ctx.in(3));
  return ctx.finish(op, {ctx.in(0), pads, value, axes});
}

constexpr MapEntry kOps[] = {
    {"Constant", map_constant}, {"Pad", map_pad}, {"Slice", map_slice}, {"Split", map_split}};

}  // namespace

std::span<const MapEntry> slice_ops() { return kOps; }

}  // namespace fold8::onnx_io
