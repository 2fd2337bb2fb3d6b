// Normalizations, softmax, reductions.
#include "tools/onnx/export_writer.h"

namespace fold8::onnx_io {
namespace {

using graph::NormKind;
using graph::ReduceKind;

// Ones or zeros where ONNX wants a tensor and the graph has none.
Result<std::string> filled(NodeWriter& n, const Shape& shape, float value) {
  const auto count = shape.elements();
  if (!count) return n.refuse("the normalized extent is not known");
  return n.w.floats(std::vector<float>(static_cast<std::size_t>(*count), value), shape);
}

std::string reduce_mean(NodeWriter& n, const std::string& x, const graph::Ints& axes) {
  const std::string y = n.w.fresh(n.n.name + "/mean");
  if (n.w.opset() >= 18)
    n.w.add("ReduceMean", {x, n.w.ints(axes)}, {y});
  else
    n.w.add("ReduceMean", {x}, {y}).set("axes", axes);
  return y;
}

// x / sqrt(mean(x^2) + epsilon) * gamma; RMSNormalization itself is opset 23.
Status write_rms(NodeWriter& n, const graph::Norm& op, const std::string& x, std::int64_t axis) {
  graph::Ints axes;
  for (auto a = axis; a < n.type(0).shape.rank(); ++a) axes.push_back(a);
  const std::string mean = reduce_mean(n, n.w.emit("Mul", {x, x}, "square"), axes);
  const std::string shifted =
      n.w.emit("Add", {mean, n.w.scalar(DType::f32, op.epsilon)}, "shifted");
  const std::string root = n.w.emit("Sqrt", {shifted}, "root");
  if (!n.has(1)) {
    n.w.add("Div", {x, root}, {n.y[0]});
    return ok_status();
  }
  n.w.add("Mul", {n.w.emit("Div", {x, root}, "normalized"), n.real(1)}, {n.y[0]});
  return ok_status();
}

// Opset 21 wants scale and bias per channel.
Result<std::string> per_channel(NodeWriter& n, std::size_t operand, const graph::Norm& op,
                                float otherwise) {
  const Dim channels = n.type(0).shape[1];
  if (!n.has(operand)) return filled(n, Shape{channels}, otherwise);
  if (!op.affine_per_group) return n.real(operand);
  const graph::Value& v = n.w.graph().value(n.in(operand));
  if (!v.is_constant() || v.type.dtype != DType::f32 || !channels.known())
    return n.refuse("scale or shift per group must be constant");
  const auto* from = reinterpret_cast<const float*>(v.constant->data());
  std::vector<float> to(static_cast<std::size_t>(channels.value()));
  for (std::size_t c = 0; c < to.size(); ++c)
    to[c] = from[c * static_cast<std::size_t>(op.groups) / to.size()];
  return n.w.floats(to, Shape{channels});
}

Status write(NodeWriter& n, const graph::Norm& op) {
  if (n.has(4) || n.has(5) || n.has(6)) return n.refuse("it reads INT32 sums");
  if (n.n.outputs.size() > 2) return n.refuse("it writes a scale per token");
  std::string x = n.real(0);
  if (n.has(3)) {
    const bool read = n.y.size() > 1 && !n.y[1].empty();
    const std::string sum = read ? n.y[1] : n.w.fresh(n.n.name + "/sum");
    n.w.add("Add", {x, n.real(3)}, {sum});
    x = sum;
  }
  const Shape& shape = n.type(0).shape;
  if (op.kind == NormKind::layer || op.kind == NormKind::rms) {
    const std::int64_t axis = op.axis < 0 ? op.axis + shape.rank() : op.axis;
    if (op.kind == NormKind::rms) return write_rms(n, op, x, axis);
    const Shape inner(shape.dims().subspan(static_cast<std::size_t>(axis)));
    std::string gamma = n.has(1) ? n.real(1) : "";
    if (gamma.empty()) {
      FOLD8_TRY(gamma, filled(n, inner, 1));
    }
    n.w.add("LayerNormalization", {x, gamma, n.has(2) ? n.real(2) : ""}, {n.y[0]})
        .set("axis", axis)
        .set("epsilon", op.epsilon);
    return ok_status();
  }
  FOLD8_TRY(const std::string gamma, per_channel(n, 1, op, 1));
  FOLD8_TRY(const std::string beta, per_channel(n, 2, op, 0));
  if (op.kind == NormKind::instance)
    n.w.add("InstanceNormalization", {x, gamma, beta}, {n.y[0]}).set("epsilon", op.epsilon);
  else
    n.w.add("GroupNormalization", {x, gamma, beta}, {n.y[0]})
        .set("epsilon", op.epsilon)
        .set("num_groups", op.groups);
  return ok_status();
}

Status write(NodeWriter& n, const graph::BatchNorm& op) {
  Names inputs;
  for (std::size_t i = 0; i < 5; ++i) inputs.push_back(n.real(i));
  NodeRef node = n.w.add("BatchNormalization", inputs, op.training ? n.y : Names{n.y[0]});
  node.set("epsilon", op.epsilon).set("momentum", op.momentum);
  if (op.training) node.set("training_mode", std::int64_t{1});
  return ok_status();
}

// Everything from the axis on is one row (opset < 13): through a matrix and back.
Status write(NodeWriter& n, const graph::Softmax& op) {
  const char* name = op.log ? "LogSoftmax" : "Softmax";
  if (!op.flatten) {
    n.w.add(name, {n.real(0)}, {n.y[0]}).set("axis", op.axis);
    return ok_status();
  }
  const std::string x = n.real(0), matrix = n.w.fresh(n.n.name + "/matrix"),
                    rows = n.w.fresh(n.n.name + "/rows");
  n.w.add("Flatten", {x}, {matrix}).set("axis", op.axis);
  n.w.add(name, {matrix}, {rows}).set("axis", std::int64_t{-1});
  n.w.add("Reshape", {rows, n.w.emit("Shape", {x}, "shape")}, {n.y[0]});
  return ok_status();
}

const char* reduce_name(ReduceKind k) {
  static constexpr const char* kNames[] = {
      "ReduceSum", "ReduceMean", "ReduceMax",       "ReduceMin",    "ReduceProd",
      "ReduceL1",  "ReduceL2",   "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"};
  return kNames[static_cast<std::size_t>(k)];
}

Status write(NodeWriter& n, const graph::Reduce& op) {
  const bool axes_input = n.w.opset() >= 18 || op.kind == ReduceKind::sum;
  if (n.has(1) && !axes_input) return n.refuse("its axes are computed");
  const std::string axes = n.has(1)                         ? n.raw(1)
                           : axes_input && !op.axes.empty() ? n.w.ints(op.axes)
                                                            : "";
  NodeRef node = n.w.add(reduce_name(op.kind),
                         axes_input ? Names{n.real(0), axes} : Names{n.real(0)}, {n.y[0]});
  if (!axes_input && !op.axes.empty()) node.set("axes", op.axes);
  node.set("keepdims", std::int64_t{op.keep_dims});
  if (axes_input && op.noop_with_empty_axes) node.set("noop_with_empty_axes", std::int64_t{1});
  return ok_status();
}

}  // namespace

Status write_norm(NodeWriter& n, const graph::Op& op, bool& known) {
  known = true;
  if (const auto* o = std::get_if<graph::Norm>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::BatchNorm>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::Softmax>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::Reduce>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::Lrn>(&op)) {
    n.w.add("LRN", {n.real(0)}, {n.y[0]})
        .set("alpha", o->alpha)
        .set("beta", o->beta)
        .set("bias", o->bias)
        .set("size", o->size);
  } else if (const auto* arg = std::get_if<graph::ArgReduce>(&op)) {
    n.w.add(arg->max ? "ArgMax" : "ArgMin", {n.real(0)}, {n.y[0]})
        .set("axis", arg->axis)
        .set("keepdims", std::int64_t{arg->keep_dims})
        .set("select_last_index", std::int64_t{arg->select_last});
  } else if (const auto* cum = std::get_if<graph::CumSum>(&op)) {
    n.w.add("CumSum", {n.real(0), n.raw(1)}, {n.y[0]})
        .set("exclusive", std::int64_t{cum->exclusive})
        .set("reverse", std::int64_t{cum->reverse});
  } else if (const auto* top = std::get_if<graph::TopK>(&op)) {
    Names outputs = n.y;
    if (outputs.size() < 2) outputs.push_back(n.w.fresh(n.n.name + "/indices"));
    n.w.add("TopK", {n.real(0), n.raw(1)}, outputs)
        .set("axis", top->axis)
        .set("largest", std::int64_t{top->largest})
        .set("sorted", std::int64_t{top->sorted});
  } else {
    known = false;
  }
  return ok_status();
}

}  // namespace fold8::onnx_io
