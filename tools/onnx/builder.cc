#include "tools/onnx/builder.h"

namespace fold8::onnx_io {
namespace {

using graph::kNoValue;
using graph::ValueId;

std::string fresh(std::unordered_set<std::string>& taken, const std::string& stem) {
  if (taken.insert(stem).second) return stem;
  for (int i = 1;; ++i)
    if (std::string name = stem + "_" + std::to_string(i); taken.insert(name).second) return name;
}

}  // namespace

std::string Builder::fresh_value_name(const std::string& stem) { return fresh(value_names_, stem); }

std::string Builder::fresh_node_name(const std::string& wanted, const std::string& fallback) {
  if (!wanted.empty() && node_names_.insert(wanted).second) return wanted;
  return fresh(node_names_, fallback.empty() ? std::string("node") : fallback);
}

ValueId Builder::find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? kNoValue : it->second;
}

ValueId Builder::add_constant(std::string name, ConstantData data) {
  return graph.add_constant(std::move(name), TensorType{data.dtype, data.shape, {}, Layout::plain},
                            std::move(data.data));
}

const ops::KnownInts* Builder::propagated(ValueId v) const {
  const auto i = static_cast<std::size_t>(v);
  return v != kNoValue && i < ints_.size() && ints_[i] ? &*ints_[i] : nullptr;
}

Status Builder::add_node(graph::Op op, const std::string& name, std::vector<ValueId> inputs,
                         std::vector<ValueId> outputs) {
  const graph::NodeId n =
      graph.add_node(std::move(op), name, std::move(inputs), std::move(outputs));
  Status status =
      is_sum_of_halves(n) ? Status(unsupported("sums and products of f16 or bf16")) : infer(n);
  if (status.ok()) return status;
  graph.erase(n);
  return add_in_f32(n) ? ok_status() : status;
}

// Types of f16 and bf16 can be inferred through Binary and Reduce, but no kernel computes them.
bool Builder::is_sum_of_halves(graph::NodeId n) const {
  const graph::Node& node = graph.node(n);
  if (!std::holds_alternative<graph::Binary>(node.op) &&
      !std::holds_alternative<graph::Reduce>(node.op))
    return false;
  bool half = false;
  for (ValueId v : node.inputs) {
    if (v == kNoValue || !graph.value(v).has_type) return false;
    half = half || graph.type(v).dtype == DType::f16 || graph.type(v).dtype == DType::bf16;
  }
  return half;
}

// An operator that computes in f32 only, given f16, bf16 or f64: f32 inside, converted on both
// sides.
bool Builder::add_in_f32(graph::NodeId failed) {
  const graph::Node node = graph.node(failed);
  std::optional<DType> dtype;
  std::vector<ValueId> inputs, outputs;
  const auto convert = [&](ValueId from, ValueId to, graph::Op op, const char* suffix) {
    const graph::NodeId n =
        graph.add_node(std::move(op), fresh_node_name("", node.name + suffix), {from}, {to});
    return infer(n).ok();
  };
  for (ValueId v : node.inputs) {
    const bool other =
        v != kNoValue && is_floating(graph.type(v).dtype) && graph.type(v).dtype != DType::f32;
    if (other && !dtype) dtype = graph.type(v).dtype;
    if (other) {
      const ValueId wide = graph.add_untyped_value(fresh_value_name(graph.value(v).name + "/f32"));
      if (!convert(v, wide, graph::Cast{DType::f32}, "/to_f32")) return false;
      v = wide;
    }
    inputs.push_back(v);
  }
  for (ValueId v : node.outputs) {
    if (v != kNoValue && graph.value(v).has_type) return false;
    outputs.push_back(
        v == kNoValue ? v
                      : graph.add_untyped_value(fresh_value_name(graph.value(v).name + "/f32")));
  }
  if (!dtype) return false;
  const graph::NodeId n = graph.add_node(node.op, node.name, inputs, outputs);
  if (!infer(n).ok()) {
    graph.erase(n);
    return false;
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o] == kNoValue) continue;
    const graph::Op back = graph.type(outputs[o]).dtype == DType::f32
                               ? graph::Op(graph::Cast{*dtype})
                               : graph::Op(graph::Identity{});
    if (!convert(outputs[o], node.outputs[o], back, "/from_f32")) return false;
  }
  return true;
}

Status Builder::infer(graph::NodeId n) {
  const graph::Node& node = graph.node(n);
  ops::InferContext ctx;
  for (ValueId v : node.inputs) {
    ops::InferContext::Operand operand;
    if (v != kNoValue) {
      const graph::Value& value = graph.value(v);
      if (!value.has_type)
        return ok_status();  // behind an unsupported operator: nothing can be said
      operand = {&value.type, propagated(v),
                 value.is_constant() ? value.constant->data() : nullptr};
    }
    ctx.inputs.push_back(operand);
  }
  for (ValueId v : node.outputs) {
    ops::InferContext::Output output;
    output.wanted = v != kNoValue;
    if (output.wanted) {
      output.typed = graph.value(v).has_type;
      output.type = graph.value(v).type;
    }
    ctx.outputs.push_back(std::move(output));
  }
  FOLD8_CHECK_OK(ops::infer(node.op, ctx));
  ints_.resize(static_cast<std::size_t>(graph.value_count()));
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    const ValueId v = node.outputs[o];
    if (v == kNoValue) continue;
    graph.value(v).type = ctx.outputs[o].type;
    graph.value(v).has_type = true;
    ints_[static_cast<std::size_t>(v)] = std::move(ctx.outputs[o].ints);
  }
  return ok_status();
}

}  // namespace fold8::onnx_io
