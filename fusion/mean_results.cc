#include "fusion/mean_results.h"

#include <algorithm>
#include <optional>

#include "fusion/passes/affine.h"
#include "fusion/passes/quantize.h"
#include "fusion/pipeline.h"
#include "fusion/round_weights.h"
#include "quant/run_samples.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr std::size_t kResidual = 3;  // operand of Linear and Conv

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
void add(const TensorView& t, int axis, Sum& sum) {
  if (t.dtype != DType::f32 || axis >= t.shape.rank()) return;
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

ChannelMeans means_of(const std::map<std::string, Sum>& sums) {
  ChannelMeans means;
  for (const auto& [name, sum] : sums)
    for (const double s : sum.sums) means[name].push_back(s / static_cast<double>(sum.count));
  return means;
}

int channel_axis(const Graph& g, const Node& layer, ValueId of) {
  return std::holds_alternative<graph::Conv>(layer.op) ? 1 : g.type(of).shape.rank() - 1;
}

// Every row of t.
void add_rows(const TensorView& t, const quant::LayerRows& rows, Sum& sum) {
  const auto reader = quant::reader_of(rows, t);
  if (reader == nullptr) return;
  sum.sums.resize(rows.groups * rows.width);
  std::vector<float> row(rows.width);
  for (std::size_t r = 0; r < reader->count(); ++r)
    for (std::size_t g = 0; g < rows.groups; ++g) {
      reader->copy(r, g, row);
      double* to = sum.sums.data() + g * rows.width;
      for (std::size_t k = 0; k < rows.width; ++k) to[k] += double{row[k]};
    }
  sum.count += reader->count();
}

// What runs of one network add up to.
class Averager {
 public:
  explicit Averager(const std::vector<AveragedLayer>& layers) : layers_(layers) {
    for (const AveragedLayer& l : layers) {
      readers_[l.rows.tensor].push_back(&l);
      if (!l.residual.empty()) adders_[l.residual].push_back(&l);
    }
  }

  void read(const std::string& name, const TensorView& t) {
    if (const auto it = readers_.find(name); it != readers_.end())
      for (const AveragedLayer* l : it->second) add_rows(t, l->rows, rows_[l->name]);
    if (const auto it = adders_.find(name); it != adders_.end())
      for (const AveragedLayer* l : it->second)
        add(t, l->rows.conv ? 1 : t.shape.rank() - 1, residuals_[l->name]);
  }
  void written(const std::string& layer, const TensorView& t, int axis) {
    add(t, axis, results_[layer]);
  }
  MeanResults finish() const { return {means_of(results_), means_of(rows_), means_of(residuals_)}; }

 private:
  const std::vector<AveragedLayer>& layers_;
  std::map<std::string, std::vector<const AveragedLayer*>> readers_, adders_;
  std::map<std::string, Sum> results_, rows_, residuals_;
};

// wanted - got of one layer; nullopt if it is not known in both.
std::optional<std::vector<double>> shift_of(const ChannelMeans& wanted, const ChannelMeans& got,
                                            const std::string& name, std::size_t size) {
  const auto a = wanted.find(name), b = got.find(name);
  if (a == wanted.end() || b == got.end() || a->second.size() != size || b->second.size() != size)
    return std::nullopt;
  std::vector<double> shift;
  for (std::size_t c = 0; c < size; ++c) shift.push_back(a->second[c] - b->second[c]);
  return shift;
}

}  // namespace

std::vector<AveragedLayer> layers_to_average(const Graph& g) {
  std::vector<AveragedLayer> layers;
  for (NodeId n = 0; n < g.node_count(); ++n) {
    const Node& node = g.node(n);
    if (node.dead || !is_quantizable_layer(g, node)) continue;
    auto rows = rows_of(g, node);
    if (!rows) continue;
    AveragedLayer layer{g.value(node.outputs[0]).name, *std::move(rows), ""};
    if (node.inputs.size() > kResidual && node.inputs[kResidual] != graph::kNoValue)
      layer.residual = g.value(node.inputs[kResidual]).name;
    layers.push_back(std::move(layer));
  }
  return layers;
}

Result<MeanResults> mean_results(Graph g, const std::vector<AveragedLayer>& layers,
                                 quant::SampleSource& samples, std::size_t most_samples,
                                 int threads) {
  const auto names = split_activations(g);
  FOLD8_TRY(const Tally emitted, run(stage("emit"), g));
  (void)emitted;
  FOLD8_TRY(auto model, exec::Model::from_graph(std::move(g)));
  const Graph& emitted_graph = model->graph();
  const auto producers = emitted_graph.producers();
  Averager means(layers);
  quant::RunOptions options;
  options.most_samples = most_samples;
  options.threads = threads;
  quant::RunCallbacks callbacks;
  callbacks.see = [&](ValueId v, const TensorView& t) {
    const std::string& name = emitted_graph.value(v).name;
    means.read(name, t);
    const auto it = names.find(name);
    const NodeId p = producers[static_cast<std::size_t>(v)];
    if (it != names.end() && p != graph::kNoNode)
      means.written(it->second, t, channel_axis(emitted_graph, emitted_graph.node(p), v));
    return ok_status();
  };
  FOLD8_CHECK_OK(quant::run_samples(model, samples, options, callbacks));
  return means.finish();
}

ChannelMeans bias_corrections(const Graph& g, const std::vector<AveragedLayer>& layers,
                              const MeanResults& wanted, const MeanResults& got) {
  std::map<std::string, NodeId> nodes;
  for (NodeId n = 0; n < g.node_count(); ++n)
    if (!g.node(n).dead && is_linear_layer(g.node(n).op))
      nodes[g.value(g.node(n).outputs[0]).name] = n;
  ChannelMeans corrections;
  for (const AveragedLayer& layer : layers) {
    const auto node = nodes.find(layer.name);
    if (node == nodes.end()) continue;
    const auto w = g.constant<float>(g.node(node->second).inputs[1]);
    const std::size_t width = layer.rows.width, outputs = w.size() / width,
                      each = outputs / layer.rows.groups;
    auto own = shift_of(wanted.layers, got.layers, layer.name, outputs);
    const auto x = shift_of(wanted.rows, got.rows, layer.name, layer.rows.groups * width);
    const auto r = layer.residual.empty()
                       ? std::vector<double>(outputs)
                       : shift_of(wanted.residuals, got.residuals, layer.name, outputs);
    if (!own || !x || !r) continue;
    for (std::size_t n = 0; n < outputs; ++n) {
      double explained = (*r)[n];
      for (std::size_t k = 0; k < width; ++k)
        explained += double{w[n * width + k]} * (*x)[n / each * width + k];
      (*own)[n] -= explained;
    }
    corrections[layer.name] = *std::move(own);
  }
  return corrections;
}

}  // namespace fold8::fusion
