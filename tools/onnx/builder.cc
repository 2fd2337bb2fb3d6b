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
  return graph.add_constant(std::move(name), TensorType{data.dtype, data.shape, {}, Layout::plain}, std::move(data.data));
}

const ops::KnownInts* Builder::propagated(ValueId v) const {
  const auto i = static_cast<std::size_t>(v);
  return v != kNoValue && i < ints_.size() && ints_[i] ? &*ints_[i] : nullptr;
}

Status Builder::add_node(graph::Op op, const std::string& name, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  const graph::NodeId n = graph.add_node(std::move(op), name, std::move(inputs), std::move(outputs));
  return infer(n);
}

Status Builder::infer(graph::NodeId n) {
  const graph::Node& node = graph.node(n);
  ops::InferContext ctx;
  for (ValueId v : node.inputs) {
    ops::InferContext::Operand operand;
    if (v != kNoValue) {
      const graph::Value& value = graph.value(v);
      if (!value.has_type) return ok_status();        // behind an unsupported operator: nothing can be said
      operand = {&value.type, propagated(v), value.is_constant() ? value.constant->data() : nullptr};
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
