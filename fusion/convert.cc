#include "fusion/convert.h"

#include "fusion/attempts.h"
#include "fusion/batch_norms.h"
#include "fusion/model_facts.h"
#include "fusion/pipeline.h"
#include "fusion/stage_log.h"
#include "runtime/exec/model.h"

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

class Converter {
 public:
  Converter(quant::SampleSource* samples, const ConvertOptions& options)
      : samples_(samples), options_(options), log_(options, summary_) {}

  Result<Converted> run(Graph g) {
    FOLD8_CHECK_OK(check_weights(g));
    FOLD8_CHECK_OK(log_.run("canonicalize", g));
    FOLD8_CHECK_OK(log_.run("fold", g));
    summary_.batch_norms_left = batch_norms_left(g);
    if (options_.layer_norm_to_rms_norm) FOLD8_CHECK_OK(log_.run("norms", g));
    FOLD8_CHECK_OK(log_.run("fuse", g));
    FOLD8_CHECK_OK(log_.run("attention", g));
    if (options_.float_only) return float_model(std::move(g));
    if (options_.cost_table != nullptr) summary_.speed_target = options_.cost_table->target();
    FOLD8_TRY(Attempt best, Attempts(samples_, options_, summary_).best(std::move(g)));
    take(best);
    return finish(std::move(best.graph));
  }

 private:
  Result<Converted> float_model(Graph g) {
    FOLD8_CHECK_OK(log_.run("emit", g, "emit float"));
    for (graph::NodeId n = 0; n < g.node_count(); ++n)
      if (is_linear_layer(g, g.node(n)))
        summary_.float_layers.push_back(
            {g.node(n).name, graph::display_name(g.node(n).op), "compiled without quantizing"});
    return finish(std::move(g));
  }

  void take(Attempt& a) {
    summary_.quantized_layers = std::move(a.outcome.quantized);
    summary_.quantized_tables = std::move(a.outcome.tables);
    summary_.float_layers = std::move(a.outcome.kept_float);
    for (std::string& w : a.outcome.warnings) summary_.warnings.push_back(std::move(w));
    remember(a.declined, summary_.declined);
    summary_.outputs = std::move(a.score.outputs);
    summary_.batch_norms_left = a.batch_norms_left;  // those on an input have become its quantizer
  }

  Result<Converted> finish(Graph g) {
    FOLD8_TRY(auto model, exec::Model::from_graph(g));
    FOLD8_TRY(const MacShares shares, mac_shares(model, samples_));
    summary_.int8_mac_share = shares.linear;
    summary_.int8_attention_share = shares.attention;
    store_facts(summary_, options_.float_only, g);
    return Converted{std::move(g), std::move(summary_)};
  }

  quant::SampleSource* samples_;
  const ConvertOptions& options_;
  ConvertSummary summary_;
  StageLog log_;
};

// SmoothQuant on the folded float network, with ranges of its own run.
Status smooth_folded(Folded& f, quant::SampleSource* samples, const FoldOptions& options) {
  if (samples == nullptr)
    return invalid_argument("smoothing needs calibration data (--calib DATA)");
  Graph runnable = f.graph;
  FOLD8_TRY(const Tally emitted, run(fusion::stage("emit"), runnable));
  (void)emitted;
  FOLD8_TRY(auto model, exec::Model::from_graph(std::move(runnable)));
  quant::CalibrateOptions calibration;
  calibration.channel_axis = values_to_smooth(f.graph);
  for (const auto& [name, axis] : calibration.channel_axis) calibration.observe.insert(name);
  calibration.threads = options.threads;
  FOLD8_TRY(const auto table, quant::calibrate(std::move(model), *samples, calibration));
  SmoothOptions o;
  o.alpha = options.smooth_alpha;
  o.calibration = &table;
  FOLD8_TRY(SmoothOutcome outcome, smooth(f.graph, o));
  f.smoothed = std::move(outcome.smoothed);
  remember(outcome.declined, f.declined);
  return ok_status();
}

}  // namespace

Result<Converted> convert(Graph imported, quant::SampleSource* samples,
                          const ConvertOptions& options) {
  return Converter(samples, options).run(std::move(imported));
}

Result<Folded> fold(Graph imported, quant::SampleSource* samples, const FoldOptions& options) {
  Folded f{std::move(imported), {}, {}, 0};
  for (const Stage& stage : {fusion::stage("canonicalize"), fusion::stage("fold")}) {
    FOLD8_TRY(Tally tally, run(stage, f.graph));
    for (Declined& d : tally.declined) f.declined.push_back(std::move(d));
  }
  f.batch_norms_left = batch_norms_left(f.graph);
  if (options.layer_norm_to_rms_norm) {
    FOLD8_TRY(const Tally tally, run(fusion::stage("norms"), f.graph));
    remember(tally.declined, f.declined);
  }
  if (options.smooth_alpha) FOLD8_CHECK_OK(smooth_folded(f, samples, options));
  return f;
}

}  // namespace fold8::fusion
