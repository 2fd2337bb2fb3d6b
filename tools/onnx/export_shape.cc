// Pooling, resizing, and operators that move elements (integers stay integers there).
#include <algorithm>

#include "tools/onnx/export_writer.h"
#include "tools/onnx/tensor.h"

namespace fold8::onnx_io {
namespace {

using graph::PoolKind;

Status write(NodeWriter& n, const graph::Pool& op) {
  static constexpr const char* kGlobal[] = {"GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"};
  static constexpr const char* kLocal[] = {"MaxPool", "AveragePool", "LpPool"};
  const auto kind = static_cast<std::size_t>(op.kind);
  if (op.global) {
    NodeRef node = n.w.add(kGlobal[kind], {n.real(0)}, {n.y[0]});
    if (op.kind == PoolKind::lp) node.set("p", op.p);
    return ok_status();
  }
  NodeRef node = n.w.add(kLocal[kind], {n.real(0)}, n.y);
  node.set("kernel_shape", op.kernel);
  if (!op.strides.empty()) node.set("strides", op.strides);
  if (op.auto_pad != graph::AutoPad::none)
    node.set("auto_pad",
             std::string(op.auto_pad == graph::AutoPad::same_upper ? "SAME_UPPER" : "SAME_LOWER"));
  else if (!op.pads.empty())
    node.set("pads", op.pads);
  const bool dilated =
      std::any_of(op.dilations.begin(), op.dilations.end(), [](std::int64_t d) { return d != 1; });
  if (dilated) node.set("dilations", op.dilations);
  if (op.ceil_mode) node.set("ceil_mode", std::int64_t{1});
  if (op.kind == PoolKind::average && op.count_include_pad)
    node.set("count_include_pad", std::int64_t{1});
  if (op.kind == PoolKind::max && op.storage_order != 0)
    node.set("storage_order", op.storage_order);
  if (op.kind == PoolKind::lp) node.set("p", op.p);
  return ok_status();
}

Status write(NodeWriter& n, const graph::Resize& op) {
  static constexpr const char* kModes[] = {"nearest", "linear", "cubic"};
  static constexpr const char* kCoordinates[] = {"half_pixel",           "pytorch_half_pixel",
                                                 "align_corners",        "asymmetric",
                                                 "half_pixel_symmetric", "tf_crop_and_resize"};
  static constexpr const char* kNearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                             "ceil"};
  static constexpr const char* kAspect[] = {"stretch", "not_larger", "not_smaller"};
  NodeRef node = n.w.add("Resize", {n.real(0), n.raw(3), n.raw(1), n.raw(2)}, {n.y[0]});
  node.set("mode", std::string(kModes[static_cast<std::size_t>(op.mode)]));
  node.set("coordinate_transformation_mode",
           std::string(kCoordinates[static_cast<std::size_t>(op.coordinates)]));
  node.set("nearest_mode", std::string(kNearest[static_cast<std::size_t>(op.nearest)]));
  node.set("cubic_coeff_a", op.cubic_a)
      .set("exclude_outside", std::int64_t{op.exclude_outside})
      .set("extrapolation_value", op.extrapolation_value);
  if (op.antialias) node.set("antialias", std::int64_t{1});
  if (!op.axes.empty()) node.set("axes", op.axes);
  if (op.keep_aspect_ratio != 0)
    node.set("keep_aspect_ratio_policy", std::string(kAspect[op.keep_aspect_ratio]));
  return ok_status();
}

Status write(NodeWriter& n, const graph::Split& op) {
  const std::string sizes = n.has(1) ? n.raw(1) : op.sizes.empty() ? "" : n.w.ints(op.sizes);
  Names outputs = n.y;
  for (std::string& o : outputs)
    if (o.empty()) o = n.w.fresh(n.n.name + "/unused");
  NodeRef node = n.w.add("Split", {n.raw(0), sizes}, outputs);
  node.set("axis", op.axis);
  if (sizes.empty() && n.w.opset() >= 18)
    node.set("num_outputs", static_cast<std::int64_t>(outputs.size()));
  return ok_status();
}

Status write(NodeWriter& n, const graph::Pad& op) {
  static constexpr const char* kModes[] = {"constant", "reflect", "edge", "wrap"};
  n.w.add("Pad", {n.real(0), n.raw(1), n.raw(2), n.raw(3)}, {n.y[0]})
      .set("mode", std::string(kModes[static_cast<std::size_t>(op.mode)]));
  return ok_status();
}

std::string reduction_name(graph::ScatterReduction r) {
  static constexpr const char* kNames[] = {"none", "add", "mul", "min", "max"};
  return kNames[static_cast<std::size_t>(r)];
}

Status write(NodeWriter& n, const graph::ConstantOfShape& op) {
  // Expand of a scalar says the same, and takes any type.
  const std::string value =
      n.w.tensor(op.dtype, Shape(), &op.bits, size_of(op.dtype), n.n.name + "/value");
  n.w.add("Expand", {value, n.raw(0)}, {n.y[0]});
  return ok_status();
}

Status write(NodeWriter& n, const graph::ShapeOf& op) {
  NodeRef node = n.w.add("Shape", {n.raw(0)}, {n.y[0]});
  if (op.start != 0) node.set("start", op.start);
  if (op.end != INT64_MAX) node.set("end", op.end);
  return ok_status();
}

Names raw_inputs(const NodeWriter& n) {
  Names inputs;
  for (std::size_t i = 0; i < n.count(); ++i) inputs.push_back(n.raw(i));
  return inputs;
}

// Concat of differently quantized parts joins real numbers.
Status write(NodeWriter& n, const graph::Concat& op) {
  Names inputs;
  const TensorType& out = n.w.graph().type(n.n.outputs[0]);
  for (std::size_t i = 0; i < n.count(); ++i)
    inputs.push_back(n.type(i).quant == out.quant ? n.raw(i) : n.real(i));
  n.w.add("Concat", inputs, {n.y[0]}).set("axis", op.axis);
  return ok_status();
}

// Operators whose inputs are all taken as they are stored, with at most one integer attribute.
struct Plain {
  const char* op;
  const char* attribute = nullptr;
  std::int64_t value = 0;
};
std::optional<Plain> plain(const graph::Op& op) {
  if (const auto* o = std::get_if<graph::Reshape>(&op))
    return Plain{"Reshape", o->allow_zero ? "allowzero" : nullptr, 1};
  if (const auto* o = std::get_if<graph::Flatten>(&op)) return Plain{"Flatten", "axis", o->axis};
  if (std::holds_alternative<graph::Slice>(op)) return Plain{"Slice"};
  if (std::holds_alternative<graph::Expand>(op)) return Plain{"Expand"};
  if (std::holds_alternative<graph::Tile>(op)) return Plain{"Tile"};
  if (const auto* o = std::get_if<graph::Gather>(&op)) return Plain{"Gather", "axis", o->axis};
  if (const auto* o = std::get_if<graph::GatherElements>(&op))
    return Plain{"GatherElements", "axis", o->axis};
  if (const auto* o = std::get_if<graph::GatherND>(&op))
    return Plain{"GatherND", "batch_dims", o->batch_dims};
  if (const auto* o = std::get_if<graph::SpaceToDepth>(&op))
    return Plain{"SpaceToDepth", "blocksize", o->block};
  if (const auto* o = std::get_if<graph::Trilu>(&op)) return Plain{"Trilu", "upper", o->upper};
  if (const auto* o = std::get_if<graph::OneHot>(&op)) return Plain{"OneHot", "axis", o->axis};
  if (std::holds_alternative<graph::SizeOf>(op)) return Plain{"Size"};
  if (std::holds_alternative<graph::Range>(op)) return Plain{"Range"};
  if (std::holds_alternative<graph::NonZero>(op)) return Plain{"NonZero"};
  return std::nullopt;
}

}  // namespace

Status write_window(NodeWriter& n, const graph::Op& op, bool& known) {
  known = true;
  if (const auto* o = std::get_if<graph::Pool>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::Resize>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::Pad>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::Concat>(&op)) return write(n, *o);
  known = false;
  return ok_status();
}

Status write_shape(NodeWriter& n, const graph::Op& op, bool& known) {
  known = true;
  if (const auto p = plain(op)) {
    NodeRef node = n.w.add(p->op, raw_inputs(n), {n.y[0]});
    if (p->attribute != nullptr) node.set(p->attribute, p->value);
    return ok_status();
  }
  if (const auto* o = std::get_if<graph::Split>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::ConstantOfShape>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::ShapeOf>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::Transpose>(&op)) {
    NodeRef node = n.w.add("Transpose", raw_inputs(n), {n.y[0]});
    if (!o->perm.empty()) node.set("perm", o->perm);
  } else if (const auto* squeeze = std::get_if<graph::Squeeze>(&op)) {
    n.w.add("Squeeze", {n.raw(0), squeeze->axes.empty() ? "" : n.w.ints(squeeze->axes)}, {n.y[0]});
  } else if (const auto* unsqueeze = std::get_if<graph::Unsqueeze>(&op)) {
    n.w.add("Unsqueeze", {n.raw(0), n.w.ints(unsqueeze->axes)}, {n.y[0]});
  } else if (const auto* d = std::get_if<graph::DepthToSpace>(&op)) {
    n.w.add("DepthToSpace", raw_inputs(n), {n.y[0]})
        .set("blocksize", d->block)
        .set("mode", std::string(d->crd ? "CRD" : "DCR"));
  } else if (const auto* s = std::get_if<graph::ScatterElements>(&op)) {
    n.w.add("ScatterElements", raw_inputs(n), {n.y[0]})
        .set("axis", s->axis)
        .set("reduction", reduction_name(s->reduction));
  } else if (const auto* nd = std::get_if<graph::ScatterND>(&op)) {
    n.w.add("ScatterND", raw_inputs(n), {n.y[0]}).set("reduction", reduction_name(nd->reduction));
  } else {
    known = false;
  }
  return ok_status();
}

}  // namespace fold8::onnx_io
