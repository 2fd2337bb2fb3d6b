#include "fusion/convert.h"

#include <algorithm>
#include <set>

#include "fusion/attempts.h"
#include "fusion/batch_norms.h"
#include "fusion/front.h"
#include "fusion/model_facts.h"
#include "fusion/passes/float_pairs.h"
#include "fusion/pipeline.h"
#include "fusion/search.h"
#include "fusion/stage_log.h"
#include "fusion/statistics.h"
#include "runtime/exec/model.h"

namespace fold8::fusion {
namespace {

using graph::Graph;

class Converter {
 public:
  Converter(quant::SampleSource* samples, const ConvertOptions& options)
      : samples_(samples), options_(options), log_(options, summary_) {
    typical_.samples = samples;
  }

  Result<Converted> run(Graph g) {
    if (!options_.float_only) named_pairs_ = drop_pairs(g, options_.quantize.keep_float);
    if (!named_pairs_.empty()) FOLD8_CHECK_OK(g.compact());
    remember_file_scales(g);
    FOLD8_CHECK_OK(run_front(g, samples_, options_, log_, summary_));
    if (options_.float_only) return float_model(std::move(g));
    if (options_.cost_table != nullptr) summary_.speed_target = options_.cost_table->target();
    if (options_.statistics != nullptr) FOLD8_CHECK_OK(check_statistics(*options_.statistics, g));
    FOLD8_TRY(Attempt best,
              options_.target.given() ? searched(std::move(g)) : attempted(std::move(g)));
    take(best);
    return finish(std::move(best.graph));
  }

 private:
  Result<Attempt> searched(Graph g) {
    if (samples_ == nullptr)
      return invalid_argument("a target needs calibration data (--calib DATA) to be judged on");
    SampleSplit split = SampleSplit::of(*samples_);
    return Search(split, options_, summary_).run(g);
  }

  Result<Attempt> attempted(Graph g) {
    Attempts attempts(samples_, options_, summary_);
    FOLD8_TRY(Attempt best, attempts.best(std::move(g)));
    typical_ = attempts.typical();
    return best;
  }

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
    summary_.rotated = std::move(a.outcome.rotated);
    summary_.float_layers = std::move(a.outcome.kept_float);
    for (std::string& w : a.outcome.warnings)
      if (!blames_a_named_pair(w)) summary_.warnings.push_back(std::move(w));
    remember(a.declined, summary_.declined);
    summary_.outputs = std::move(a.score.outputs);
    summary_.batch_norms_left = a.batch_norms_left;  // those on an input have become its quantizer
  }

  // quantize() knows no pairs: to it, such a glob names nothing.
  bool blames_a_named_pair(const std::string& warning) const {
    return std::any_of(named_pairs_.begin(), named_pairs_.end(), [&](const std::string& glob) {
      return warning.rfind(unmatched_glob(glob), 0) == 0;
    });
  }

  Result<Converted> finish(Graph g) {
    FOLD8_TRY(auto model, exec::Model::from_graph(g));
    FOLD8_TRY(const MacShares shares, mac_shares(model, typical_));
    summary_.int8_mac_share = shares.linear;
    summary_.int8_attention_share = shares.attention;
    store_facts(summary_, options_.float_only, g);
    return Converted{std::move(g), std::move(summary_)};
  }

  quant::SampleSource* samples_;
  const ConvertOptions& options_;
  std::set<std::string> named_pairs_;  // globs of --keep-float that named Q/DQ pairs of the file
  ConvertSummary summary_;
  StageLog log_;
  TypicalInput typical_;
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
