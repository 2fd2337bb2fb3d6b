#include "fusion/mean_results.h"

#include <algorithm>

#include "fusion/passes/affine.h"
#include "fusion/pipeline.h"
#include "quant/run_samples.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

Activation* activation_of(graph::Op& op) {
  if (auto* linear = std::get_if<graph::Linear>(&op)) return &linear->activation;
  if (auto* conv = std::get_if<graph::Conv>(&op)) return &conv->activation;
  return nullptr;
}

// The operator that an activation with these parameters is by itself.
graph::Unary unary_of(const graph::Op& op) {
  return std::visit(
      [](const auto& o) {
        graph::Unary u;
        if constexpr (requires { o.activation; }) {
          // UnaryKind begins with relu, then the activations in their order from clip on.
          u.kind = static_cast<graph::UnaryKind>(o.activation);
          u.a = o.a;
          u.b = o.b;
        }
        return u;
      },
      op);
}

// Layers write what their activation reads; its name -> the layer's. The rest stays as it is.
std::map<std::string, std::string> split_activations(Graph& g) {
  std::map<std::string, std::string> names;
  for (NodeId n = 0, end = g.node_count(); n < end; ++n) {
    if (g.node(n).dead || !is_linear_layer(g.node(n).op)) continue;
    const ValueId y = g.node(n).outputs[0];
    if (g.type(y).dtype != DType::f32) continue;
    Activation* activation = activation_of(g.node(n).op);
    if (*activation == Activation::none) {
      names[g.value(y).name] = g.value(y).name;
      continue;
    }
    const graph::Unary unary = unary_of(g.node(n).op);
    *activation = Activation::none;
    const std::string name = g.fresh_name(g.value(y).name + "/before_activation");
    const ValueId before = g.add_value(name, g.type(y));
    g.node(n).outputs[0] = before;
    g.add_node(unary, name, {before}, {y});
    names[name] = g.value(y).name;
  }
  return names;
}

struct Sum {
  std::vector<double> sums;
  std::uint64_t count = 0;  // elements of a channel
};

// Element i of the memory belongs to channel i / inner % channels.
void add(const TensorView& t, bool conv, Sum& sum) {
  if (t.dtype != DType::f32 || t.shape.rank() < 2) return;
  const int axis = conv ? 1 : t.shape.rank() - 1;
  const auto channels = static_cast<std::size_t>(t.shape.extent(axis));
  const auto values = t.as<const float>();
  if (channels == 0 || values.size() % channels != 0 || values.empty()) return;
  const std::size_t inner = t.layout == Layout::plain
                                ? static_cast<std::size_t>(t.shape.count(axis + 1, t.shape.rank()))
                                : 1;
  sum.sums.resize(channels);
  sum.count += values.size() / channels;
  if (inner == 1) {
    for (std::size_t i = 0; i < values.size(); i += channels)
      for (std::size_t c = 0; c < channels; ++c) sum.sums[c] += double{values[i + c]};
    return;
  }
  for (std::size_t i = 0; i < values.size(); i += inner) {
    double part = 0;
    for (std::size_t k = 0; k < inner; ++k) part += double{values[i + k]};
    sum.sums[i / inner % channels] += part;
  }
}

}  // namespace

Result<ChannelMeans> mean_results(Graph g, quant::SampleSource& samples, std::size_t most_samples,
                                  int threads) {
  const auto names = split_activations(g);
  FOLD8_TRY(const Tally emitted, run(stage("emit"), g));
  (void)emitted;
  FOLD8_TRY(auto model, exec::Model::from_graph(std::move(g)));
  const Graph& emitted_graph = model->graph();
  const auto producers = emitted_graph.producers();
  std::map<std::string, Sum> sums;
  quant::RunOptions options;
  options.most_samples = most_samples;
  options.threads = threads;
  quant::RunCallbacks callbacks;
  callbacks.see = [&](ValueId v, const TensorView& t) {
    const auto it = names.find(emitted_graph.value(v).name);
    const NodeId p = producers[static_cast<std::size_t>(v)];
    if (it != names.end() && p != graph::kNoNode)
      add(t, std::holds_alternative<graph::Conv>(emitted_graph.node(p).op), sums[it->second]);
    return ok_status();
  };
  FOLD8_CHECK_OK(quant::run_samples(model, samples, options, callbacks));
  ChannelMeans means;
  for (const auto& [name, sum] : sums)
    for (const double s : sum.sums) means[name].push_back(s / static_cast<double>(sum.count));
  return means;
}

}  // namespace fold8::fusion
