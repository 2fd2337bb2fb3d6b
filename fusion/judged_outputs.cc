#include "fusion/judged_outputs.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::ValueId;

bool is_plain_f32(const Graph& g, ValueId v) {
  const TensorType& t = g.type(v);
  return t.dtype == DType::f32 && !t.quant && t.layout == Layout::plain && !g.is_constant(v);
}

}  // namespace

std::vector<std::string> judged_outputs(const Graph& g) {
  const auto producers = g.producers();
  std::vector<std::string> names;
  bool any = false;
  for (const ValueId y : g.outputs) {
    names.push_back(g.value(y).name);
    graph::NodeId p = producers[static_cast<std::size_t>(y)];
    // Outputs of 16-bit floats are cast behind what was computed in f32.
    if (p != graph::kNoNode && std::holds_alternative<graph::Cast>(g.node(p).op) &&
        is_floating(g.type(y).dtype) && g.type(g.node(p).inputs[0]).dtype == DType::f32)
      p = producers[static_cast<std::size_t>(g.node(p).inputs[0])];
    if (p == graph::kNoNode || !std::holds_alternative<graph::Softmax>(g.node(p).op)) continue;
    const ValueId x = g.node(p).inputs[0];
    if (!is_plain_f32(g, x) || !g.value(x).rescale.empty()) continue;
    names.back() = g.value(x).name;
    any = true;
  }
  return any ? names : std::vector<std::string>();
}

std::vector<std::size_t> judge_also(Graph& g, const std::vector<std::string>& names) {
  const std::vector<ValueId> own = g.outputs;
  if (names.size() != own.size() || !judge_by(g, names)) return {};
  std::vector<std::size_t> places;
  std::vector<ValueId> outputs = own;
  for (std::size_t i = 0; i < names.size(); ++i) {
    places.push_back(g.outputs[i] == own[i] ? i : outputs.size());
    if (g.outputs[i] != own[i]) outputs.push_back(g.outputs[i]);
  }
  g.outputs = std::move(outputs);
  return places;
}

bool judge_by(Graph& g, const std::vector<std::string>& names) {
  std::vector<ValueId> outputs;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (g.value(g.outputs[i]).name == names[i]) {
      outputs.push_back(g.outputs[i]);
      continue;
    }
    const ValueId v = g.find_value(names[i]);
    if (v == graph::kNoValue || !is_plain_f32(g, v)) return false;
    outputs.push_back(v);
  }
  g.outputs = std::move(outputs);
  return true;
}

}  // namespace fold8::fusion
