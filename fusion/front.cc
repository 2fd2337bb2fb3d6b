#include "fusion/front.h"

#include "fusion/batch_norms.h"
#include "fusion/passes/balance.h"
#include "fusion/reestimate_batch_norms.h"

namespace fold8::fusion {
namespace {

using graph::Graph;

// A weight that is not finite poisons every output: said here by name, before folding renames it.
Status check_weights(const Graph& g) {
  for (graph::NodeId n = 0; n < g.node_count(); ++n) {
    const graph::Node& node = g.node(n);
    const bool multiplies = std::holds_alternative<graph::Linear>(node.op) ||
                            std::holds_alternative<graph::Conv>(node.op) ||
                            std::holds_alternative<graph::MatMul>(node.op);
    if (node.dead || !multiplies || node.inputs.size() < 2 || !g.is_constant(node.inputs[1]) ||
        g.type(node.inputs[1]).dtype != DType::f32)
      continue;
    const auto values = g.constant<float>(node.inputs[1]);
    if (const std::size_t bad = quant::first_not_finite(values); bad < values.size())
      return invalid_model("node '" + node.name + "': weight '" + g.value(node.inputs[1]).name +
                           "' is not finite (element " + std::to_string(bad) + " is " +
                           (values[bad] != values[bad] ? "NaN" : "infinite") +
                           "); no scale exists for it: repair the model");
  }
  return ok_status();
}

}  // namespace

Status run_front(Graph& g, quant::SampleSource* samples, const ConvertOptions& options,
                 StageLog& log, ConvertSummary& summary) {
  FOLD8_CHECK_OK(check_weights(g));
  FOLD8_CHECK_OK(log.run("canonicalize", g));
  if (options.reestimate_bn) {
    if (samples == nullptr)
      return invalid_argument("--reestimate-bn measures BatchNorms on samples: give --calib DATA");
    FOLD8_CHECK_OK(reestimate_batch_norms(g, *samples, options.threads, log, summary));
  }
  FOLD8_CHECK_OK(log.run("fold", g));
  summary.batch_norms_left = batch_norms_left(g);
  if (options.layer_norm_to_rms_norm) FOLD8_CHECK_OK(log.run("norms", g));
  FOLD8_CHECK_OK(log.run("fuse", g));
  return log.run("attention", g);
}

quant::CalibrateOptions observation_of(const Graph& lowered, int threads, bool channels) {
  quant::CalibrateOptions o;
  o.observe = values_to_observe(lowered);
  o.look_for_nan = values_at_the_edge(lowered);
  o.threads = threads;
  if (!channels) return o;
  o.channel_axis = values_to_smooth(lowered);
  for (const auto& [name, axis] : values_to_balance(lowered)) {
    o.channel_axis.emplace(name, axis);
    o.observe.insert(name);
  }
  return o;
}

}  // namespace fold8::fusion
