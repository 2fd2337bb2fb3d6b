#include "fusion/round_weights.h"

#include <set>
#include <vector>

#include "fusion/passes/quantize.h"
#include "quant/round_weights.h"
#include "quant/second_moments.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

// Weights by the name of the tensor they meet.
std::map<std::string, std::set<ValueId>> weights_by_tensor(
    const Graph& g, const std::function<bool(const Node&)>& becomes_int8) {
  std::map<ValueId, std::set<ValueId>> tensors;  // of a weight
  for (graph::NodeId n = 0; n < g.node_count(); ++n) {
    const Node& node = g.node(n);
    if (node.dead || !is_quantizable_layer(g, node)) continue;
    const bool fits = std::holds_alternative<graph::Linear>(node.op) &&
                      g.type(node.inputs[1]).shape.rank() == 2 &&
                      (!becomes_int8 || becomes_int8(node));
    tensors[node.inputs[1]].insert(fits ? node.inputs[0] : graph::kNoValue);
  }
  std::map<std::string, std::set<ValueId>> weights;
  for (const auto& [w, xs] : tensors)
    if (xs.size() == 1 && *xs.begin() != graph::kNoValue && !g.constant<float>(w).empty())
      weights[g.value(*xs.begin()).name].insert(w);
  return weights;
}

}  // namespace

Result<RoundedWeights> round_weights(const Graph& g, std::shared_ptr<const exec::Model> model,
                                     quant::SampleSource& samples,
                                     const RoundWeightsOptions& options) {
  const auto weights = weights_by_tensor(g, options.becomes_int8);
  std::map<std::string, std::size_t> widths;
  for (const auto& [tensor, of_tensor] : weights)
    widths[tensor] = static_cast<std::size_t>(g.type(*of_tensor.begin()).shape.extent(1));
  ThreadPool pool(options.threads);
  RoundedWeights rounded;
  std::size_t done = 0;
  const auto take = [&](const std::string& tensor, quant::Moments moments) -> Status {
    const DefaultFloatMode mode;  // not around the runs of sessions that end meanwhile
    auto factor = quant::RoundingFactor::of(moments, pool);
    if (!factor.ok()) return in_context("tensor '" + tensor + "'", factor.error());
    moments = {};
    for (const ValueId w : weights.at(tensor)) {
      auto q = quant::round_for_outputs(g.constant<float>(w), g.type(w).shape, *factor,
                                        options.weights, pool);
      if (!q.ok()) return in_context("weight '" + g.value(w).name + "'", q.error());
      rounded.emplace(g.value(w).name, *std::move(q));
    }
    if (options.progress) options.progress(++done, widths.size());
    return ok_status();
  };
  quant::MomentOptions moment_options;
  moment_options.threads = options.threads;
  FOLD8_CHECK_OK(quant::second_moments(std::move(model), samples, widths, moment_options, take));
  return rounded;
}

}  // namespace fold8::fusion
