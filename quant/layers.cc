#include "quant/layers.h"

namespace fold8::quant {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

bool is_layer(const graph::Op& op) {
  return std::holds_alternative<graph::Linear>(op) || std::holds_alternative<graph::Conv>(op) ||
         std::holds_alternative<graph::Attention>(op) ||
         std::holds_alternative<graph::MatMul>(op) || std::holds_alternative<graph::Norm>(op) ||
         std::holds_alternative<graph::BatchNorm>(op) ||
         std::holds_alternative<graph::Affine>(op) || std::holds_alternative<graph::Softmax>(op) ||
         std::holds_alternative<graph::Unary>(op) || std::holds_alternative<graph::Binary>(op) ||
         std::holds_alternative<graph::Pool>(op) || std::holds_alternative<graph::Reduce>(op) ||
         std::holds_alternative<graph::Resize>(op);
}

const std::string& layer_name(const Graph& g, NodeId layer) {
  return g.value(g.node(layer).outputs[0]).name;
}

std::set<std::string> float_tensors(const Graph& g) {
  std::set<std::string> names;
  for (ValueId v = 0; v < g.value_count(); ++v)
    if (g.type(v).dtype == DType::f32 && !g.is_constant(v)) names.insert(g.value(v).name);
  return names;
}

std::vector<NodeId> layers_of(const exec::Model& model, const std::set<std::string>& known) {
  const Graph& g = model.graph();
  std::vector<NodeId> layers;
  for (NodeId n : model.order()) {
    const Node& node = g.node(n);
    if (is_layer(node.op) && !node.outputs.empty() && node.outputs[0] != kNoValue &&
        known.count(layer_name(g, n)) != 0)
      layers.push_back(n);
  }
  return layers;
}

Result<std::vector<std::pair<std::size_t, std::size_t>>> matching_outputs(const Graph& a,
                                                                          const Graph& b) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < a.outputs.size(); ++i)
    for (std::size_t j = 0; j < b.outputs.size(); ++j)
      if (a.value(a.outputs[i]).name == b.value(b.outputs[j]).name) pairs.push_back({i, j});
  if (pairs.empty()) return invalid_model("the two models share no output name");
  return pairs;
}

Result<std::vector<TensorView>> inputs_for(const Graph& b, const Graph& a,
                                           const std::vector<TensorView>& inputs) {
  std::vector<TensorView> reordered;
  for (ValueId v : b.inputs) {
    bool found = false;
    for (std::size_t i = 0; i < a.inputs.size() && !found; ++i)
      if (a.value(a.inputs[i]).name == b.value(v).name) {
        reordered.push_back(inputs[i]);
        found = true;
      }
    if (!found)
      return invalid_model("the second model wants input '" + b.value(v).name +
                           "', which the first has not");
  }
  return reordered;
}

namespace {

// change(element, its factor)
template <class F>
void with_rescale(const graph::Value& v, const Shape& shape, std::vector<float>& values,
                  const F& change) {
  if (v.rescale.empty() || v.rescale_axis < 0 || v.rescale_axis >= shape.rank()) return;
  const auto inner = static_cast<std::size_t>(shape.count(v.rescale_axis + 1, shape.rank()));
  for (std::size_t i = 0; i < values.size(); ++i)
    change(values[i], v.rescale[i / inner % v.rescale.size()]);
}

}  // namespace

void undo_rescale(const graph::Value& v, const Shape& shape, std::vector<float>& values) {
  with_rescale(v, shape, values, [](float& x, float factor) { x *= factor; });
}
void apply_rescale(const graph::Value& v, const Shape& shape, std::vector<float>& values) {
  with_rescale(v, shape, values, [](float& x, float factor) { x /= factor; });
}

}  // namespace fold8::quant
