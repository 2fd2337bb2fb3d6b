#include "fusion/attempts.h"

#include <algorithm>
#include <set>

#include "fusion/batch_norms.h"
#include "fusion/choose_rotation.h"
#include "fusion/choose_rounding.h"
#include "fusion/front.h"
#include "fusion/judged_outputs.h"
#include "fusion/mean_results.h"
#include "fusion/passes/balance.h"
#include "fusion/pipeline.h"
#include "fusion/prefer_speed.h"
#include "fusion/round_weights.h"
#include "fusion/statistics.h"
#include "fusion/text.h"
#include "quant/data_warnings.h"

namespace fold8::fusion {
namespace {

using graph::Graph;

constexpr double kPoorTop1 = 0.9;     // of the samples keep their class; below, something is broken
constexpr double kSoundSqnrDb = 25;   // above, the classes that change are near ties
constexpr double kLeastGainDb = 0.5;  // of a change of the network
constexpr double kLeastFreeGainDb = 0.2;  // of what changes nothing at run time
constexpr double kFairSqnrDb = 30;
constexpr double kGoodSqnrDb = 40;             // nothing to gain that anybody would see
constexpr double kLeastRotationGain = 1.58;    // 2 dB, of the expected error of a tensor's readers
constexpr double kLeastRotationGainOn = 1.26;  // 1 dB, where it is asked for
constexpr double kTargetMarginDb = 1.5;        // other samples are worse
constexpr std::size_t kMeanSamples = 64;
constexpr std::size_t kRows = 256;  // of a tensor, for choices that are made layer by layer

// Something below `enough` was measured.
bool can_gain(const Attempt& a, double enough) {
  return a.score.worst_sqnr_db && !(*a.score.worst_sqnr_db > enough);
}

std::set<std::string> names_to_smooth(const Graph& g) {
  std::set<std::string> names;
  for (const auto& [name, axis] : values_to_smooth(g)) names.insert(name);
  return names;
}

}  // namespace

Attempts::Attempts(quant::SampleSource* samples, const ConvertOptions& options,
                   ConvertSummary& summary)
    : samples_(samples),
      options_(options),
      summary_(summary),
      log_(options, summary),
      chosen_(options.quantize) {
  if (chosen_.streams == Streams::automatic) chosen_.streams = Streams::u8;
  typical_.samples = samples;
}

Result<Attempt> Attempts::best(Graph fused) {
  FOLD8_TRY(Base base, prepare(std::move(fused)));
  if (options_.smooth.alpha) {
    FOLD8_TRY(auto smooth, smoothed(base));
    if (smooth) base = *std::move(smooth);
  }
  FOLD8_TRY(Attempt best, attempt(base, chosen_, ""));
  if (!options_.smooth.alpha && options_.search) optional("smoothing", try_smoothed(base, best));
  if (options_.equalize && options_.search) {
    optional("equalization", try_balanced(base, best));
    optional("equalization", try_equalized(base, best));
  }
  if (options_.search) {
    optional("choosing a rounding per tensor", try_static(base, best));
    optional("rounding weights for their outputs", try_rounded(base, best));
    optional("rotating what layers read", try_rotated(base, best));
    optional("bias correction", try_corrected(base, best));
  }
  if (options_.quantize.streams == Streams::automatic) FOLD8_CHECK_OK(weigh_streams(base, best));
  if (options_.quantize.attention == AttentionProducts::automatic)
    FOLD8_CHECK_OK(weigh_attention(base, best));
  if (options_.search && is_poor(best)) optional("a remedy", try_remedies(base, best));
  FOLD8_CHECK_OK(score_outputs(base, best));
  summary_.smoothed = base.smoothed;
  base_ = std::move(base);
  return best;
}

bool Attempts::needs_ranges(const Graph& g) const {
  if (options_.quantize.activations == Activations::dynamic ||
      options_.quantize.activations == Activations::float_)
    return false;
  for (graph::NodeId n = 0; n < g.node_count(); ++n)
    if (!g.node(n).dead && is_quantizable_layer(g, g.node(n))) return true;
  return false;
}

Result<Attempts::Base> Attempts::prepare(Graph g) {
  Graph unlowered = g;
  // Layers the file itself brings as INT8 (Q/DQ, integer operators) come first: what is left is
  // ours to quantize.
  FOLD8_CHECK_OK(log_.run("lower", g));
  if (samples_ == nullptr && options_.statistics == nullptr && needs_ranges(g))
    return invalid_argument(
        "INT8 needs calibration data (--calib DATA, or --stats); without data only --float, "
        "--activations "
        "dynamic and --activations float work");
  Base base;
  base.unlowered = std::move(unlowered);
  base.graph = std::move(g);
  Graph emitted = base.unlowered;
  FOLD8_CHECK_OK(log_.run("emit", emitted, "emit float"));
  base.judged = judged_outputs(emitted);
  if (!base.judged.empty() && !judge_by(emitted, base.judged)) base.judged.clear();
  FOLD8_TRY(auto model, exec::Model::from_graph(std::move(emitted)));
  FOLD8_CHECK_OK(calibrate(base, model));
  if (options_.cost_table != nullptr) {
    FOLD8_TRY(base.shapes, shapes_of(model, typical_));
  }
  return base;
}

Result<std::shared_ptr<const exec::Model>> Attempts::float_model(const Base& base) {
  return float_model(base, {});
}

Result<std::shared_ptr<const exec::Model>> Attempts::float_model(
    const Base& base, const std::vector<std::string>& outputs) {
  Graph g = base.unlowered;
  FOLD8_CHECK_OK(log_.run("emit", g, "emit float"));
  if (!outputs.empty() && !judge_by(g, outputs))
    return internal_error("a tensor that attempts are compared at is gone");
  return exec::Model::from_graph(std::move(g));
}

Status Attempts::calibrate(Base& base, std::shared_ptr<const exec::Model> model) {
  if (samples_ == nullptr && options_.statistics == nullptr) return ok_status();
  const StageLog::Clock clock(log_, "calibrate");
  if (options_.statistics == nullptr) {
    quant::CalibrateOptions observation = observation_of(base.graph, options_.threads);
    if (options_.smooth.off) observation.channel_axis.clear();
    observation.progress = [this](std::size_t done, std::size_t total) {
      log_.progress("calibrate", done, total);
    };
    observation.outputs = [&](std::size_t i, const std::vector<TensorView>& outputs) {
      if (i < options_.score_samples) base.outputs->keep(i, outputs);
    };
    std::optional<quant::RowCollector> rows;
    if (may_want_rows(base.unlowered)) {
      rows.emplace(names_to_smooth(base.unlowered), kRows, samples_->count());
      observation.also = [&rows, &g = model->graph()](std::size_t i, graph::ValueId v,
                                                      const TensorView& t) {
        rows->see(i, g.value(v).name, t);
      };
    }
    FOLD8_TRY(base.table, quant::calibrate(model, *samples_, observation));
    if (rows) base.rows = rows->take();
  } else if (!measured_) {
    base.table = options_.statistics->table;
  } else {
    FOLD8_TRY(base.table, ranges_after_rescaling(*options_.statistics, std::move(model), base.graph,
                                                 samples_, options_.threads));
  }
  if (base.table->samples == 0)
    return invalid_model("the calibration data holds no samples; give at least one");
  if (!measured_) remember_data(*base.table);
  measured_ = true;
  return ok_status();
}

// Smoothing searches its alpha on them; static scales are weighed against scales per token.
bool Attempts::may_want_rows(const Graph& unlowered) const {
  const bool smooths = !options_.smooth.off && !options_.smooth.alpha && !measured_;
  return options_.search && options_.quantize.activations != Activations::float_ &&
         (smooths || rounds_per_token(unlowered, options_.quantize.activations));
}

Result<std::map<std::string, quant::SampleRows>> Attempts::rows_of(const Base& base) {
  if (base.rows) return *base.rows;
  FOLD8_TRY(auto model, float_model(base));
  return quant::sample_rows(std::move(model), *samples_, names_to_smooth(base.unlowered), kRows,
                            options_.threads);
}

void Attempts::remember_data(const quant::CalibrationTable& table) {
  summary_.samples = table.samples;
  typical_.shapes = table.largest;
  typical_.sample = table.largest_sample;
  typical_.from_shapes = options_.statistics != nullptr;
  for (std::string& w : quant::data_warnings(table)) summary_.warnings.push_back(std::move(w));
}

Result<Attempt> Attempts::emit(const Base& base, QuantizeOptions options, std::string remedy) {
  options.calibration = base.table ? &*base.table : nullptr;
  if (options_.cost_table != nullptr)
    options.also_float.merge(
        slower_in_int8(base.graph, base.shapes, *options_.cost_table, options));
  Attempt a{base.graph, {}, {}, {}, std::move(remedy), 0};
  {
    const StageLog::Clock clock(log_, "quantize");
    FOLD8_TRY(a.outcome, quantize(a.graph, options));
    FOLD8_TRY(Tally fused, fusion::run(fusion::stage("lower"), a.graph));
    a.batch_norms_left = batch_norms_left(a.graph);
    FOLD8_TRY(Tally emitted, fusion::run(fusion::stage("emit"), a.graph));
    remember(fused.declined, a.declined);
    remember(emitted.declined, a.declined);
  }
  return a;
}

Result<Attempt> Attempts::attempt(const Base& base, const QuantizeOptions& options,
                                  std::string remedy) {
  FOLD8_TRY(Attempt a, emit(base, options, std::move(remedy)));
  if (samples_ == nullptr) return a;
  FOLD8_TRY(a.score, score_of(base, a.graph));
  return a;
}

// For comparing attempts.
Result<Score> Attempts::score_of(const Base& base, const Graph& emitted) {
  const StageLog::Clock clock(log_, "check against float");
  Graph g = emitted;
  FloatOutputs others;
  const bool judged = base.judged.empty() || judge_by(g, base.judged);
  FOLD8_TRY(auto model, exec::Model::from_graph(std::move(g)));
  return score([&] { return judged ? float_model(base, base.judged) : float_model(base); }, model,
               *samples_, options_.score_samples, options_.threads,
               judged ? *base.outputs : others);
}

// For people: errors of the outputs themselves.
Status Attempts::score_outputs(const Base& base, Attempt& a) {
  if (samples_ == nullptr || base.judged.empty()) return ok_status();
  const StageLog::Clock clock(log_, "check against float");
  FOLD8_TRY(auto model, exec::Model::from_graph(a.graph));
  FloatOutputs kept;
  FOLD8_TRY(Score s, score([&] { return float_model(base); }, model, *samples_,
                           options_.score_samples, options_.threads, kept));
  a.score.outputs = std::move(s.outputs);
  return ok_status();
}

bool Attempts::is_poor(const Attempt& a) const {
  if (a.score.worst_sqnr_db && *a.score.worst_sqnr_db < options_.poor_sqnr_db) return true;
  return a.score.worst_top1 && *a.score.worst_top1 < kPoorTop1 &&
         a.score.worst_sqnr_db.value_or(1e9) < kSoundSqnrDb;
}

void Attempts::optional(const char* what, const Status& status) {
  if (!status.ok())
    summary_.warnings.push_back(std::string(what) + " was left out: " + status.error().message);
}

// u8 between the layers is faster; f32 stays where the samples say that u8 costs too much.
Status Attempts::weigh_streams(const Base& base, Attempt& best) {
  if (best.outcome.u8_streams == 0) return ok_status();
  QuantizeOptions o = chosen_;
  o.streams = Streams::f32;
  return weigh(base, o, kStreamBudgetDb,
               "skip connections and gated feature maps stay float (--streams f32): as u8 they "
               "would cost ",
               best);
}

// INT8 inside attention is faster, within a budget too. Last: what else the samples decide is the
// same for both.
Status Attempts::weigh_attention(const Base& base, Attempt& best) {
  // What rotation gained is not spent.
  const bool gained = !best.outcome.rotated.empty() && !can_gain(best, kFairSqnrDb);
  if (best.outcome.int8_attentions == 0 || gained) return ok_status();
  QuantizeOptions o = chosen_;
  o.attention = AttentionProducts::f32;
  return weigh(base, o, kAttentionBudgetDb,
               "attention stays float (--attention f32): in INT8 it would cost ", best);
}

Status Attempts::weigh(const Base& base, const QuantizeOptions& slower, double budget_db,
                       const char* warning, Attempt& best) {
  if (!can_gain(best, kGoodSqnrDb)) return ok_status();
  FOLD8_TRY(Attempt a, attempt(base, slower, ""));
  const double more = gain(a, best);
  if (more <= budget_db) return ok_status();
  summary_.warnings.push_back(warning + decibels(more) + " more");
  best = std::move(a);
  chosen_ = slower;
  return ok_status();
}

// The network with factors moved out of what its linear layers read; nullopt where there is nothing
// to gain, or nothing to measure it on.
Result<std::optional<Attempts::Base>> Attempts::smoothed(const Base& base) {
  std::optional<Base> none;
  if (options_.smooth.off || !base.table || options_.quantize.activations == Activations::float_)
    return none;
  Graph g = base.unlowered;
  if (names_to_smooth(g).empty()) return none;
  std::map<std::string, quant::SampleRows> rows;
  SmoothOutcome outcome;
  {
    const StageLog::Clock clock(log_, "smooth");
    if (!options_.smooth.alpha) {
      FOLD8_TRY(rows, rows_of(base));
    }
    SmoothOptions o;
    o.alpha = options_.smooth.alpha;
    o.calibration = &*base.table;
    o.rows = &rows;
    o.per_token = rounds_per_token(g, options_.quantize.activations);
    o.becomes_int8 = [&](const graph::Node& n) {
      return kept_float_by(options_.quantize, g, n) == nullptr;
    };
    FOLD8_TRY(outcome, smooth(g, o));
  }
  if (outcome.smoothed.empty()) {
    remember(outcome.declined, summary_.declined);
    return none;
  }
  FOLD8_TRY(Base result, prepare(std::move(g)));
  remember(outcome.declined, summary_.declined);
  result.smoothed = std::move(outcome.smoothed);
  return std::optional<Base>(std::move(result));
}

Status Attempts::try_smoothed(Base& base, Attempt& best) {
  if (!can_gain(best, kGoodSqnrDb)) return ok_status();
  FOLD8_TRY(auto smooth, smoothed(base));
  if (!smooth) return ok_status();
  FOLD8_CHECK_OK(adopt(*std::move(smooth), kLeastGainDb, base, best));
  return ok_status();
}

// Tries another form of the network. Returns the gain, if it was at least `least_db` and `base` and
// `best` are now those of the other form; else 0.
Result<double> Attempts::adopt(Base other, double least_db, Base& base, Attempt& best) {
  FOLD8_TRY(Attempt a, attempt(other, chosen_, ""));
  const double more = gain(a, best);
  if (more < least_db) return 0.0;
  best = std::move(a);
  base = std::move(other);
  return more;
}

// Channels of like size between convolutions, over skip connections too.
Status Attempts::try_balanced(Base& base, Attempt& best) {
  if (!base.table || !can_gain(best, kGoodSqnrDb)) return ok_status();
  Graph g = base.unlowered;
  BalanceOptions o;
  o.calibration = &*base.table;
  o.becomes_int8 = [&](const graph::Node& n) { return kept_float_by(chosen_, g, n) == nullptr; };
  FOLD8_TRY(const int classes, balance(g, o));
  if (classes == 0) return ok_status();
  FOLD8_TRY(Base balanced, prepare(std::move(g)));
  balanced.smoothed = base.smoothed;
  FOLD8_CHECK_OK(adopt(std::move(balanced), kLeastFreeGainDb, base, best));
  return ok_status();
}

// Factors moved between layers help where channels differ, and harm where a near-dead channel is
// blown up: the samples say which.
Status Attempts::try_equalized(Base& base, Attempt& best) {
  if (!can_gain(best, kFairSqnrDb)) return ok_status();
  Graph g = base.unlowered;
  FOLD8_TRY(const Tally tally, fusion::run(fusion::stage("equalize"), g));
  if (tally.applied == 0) return ok_status();
  FOLD8_TRY(Base equalized, prepare(std::move(g)));
  equalized.smoothed = base.smoothed;
  FOLD8_TRY(const double more, adopt(std::move(equalized), kLeastGainDb, base, best));
  if (more > 0)
    summary_.warnings.push_back("factors were moved between " + std::to_string(tally.applied) +
                                " pairs of layers (equalization), for " + decibels(more) +
                                "; --no-equalize leaves them");
  return ok_status();
}

Result<std::shared_ptr<const RoundedWeights>> Attempts::rounded_weights(
    const Base& base, const QuantizeOptions& options) {
  const StageLog::Clock clock(log_, "round weights");
  RoundWeightsOptions o;
  o.weights = options.weights;
  o.weight_group = options.weight_group;
  o.rotated_inputs = options.rotated_inputs;
  o.threads = options_.threads;
  o.becomes_int8 = [&](const graph::Node& n) {
    return kept_float_by(options, base.graph, n) == nullptr;
  };
  o.progress = [this](std::size_t done, std::size_t total) {
    log_.progress("round weights", done, total);
  };
  FOLD8_TRY(auto model, float_model(base));
  FOLD8_TRY(RoundedWeights rounded, round_weights(base.graph, std::move(model), *samples_, o));
  if (rounded.empty()) return std::shared_ptr<const RoundedWeights>();
  return std::make_shared<const RoundedWeights>(std::move(rounded));
}

// Weights rounded for the layers' outputs: nothing at run time.
Status Attempts::try_rounded(const Base& base, Attempt& best) {
  if (!can_gain(best, kGoodSqnrDb)) return ok_status();
  QuantizeOptions o = chosen_;
  FOLD8_TRY(o.rounded, rounded_weights(base, o));
  return o.rounded == nullptr ? ok_status() : consider(base, o, best);
}

// Biases that take back what rounding shifts a layer's results by on average. A second round sees
// what the first one left.
Status Attempts::try_corrected(const Base& base, Attempt& best) {
  // Weights rounded for their outputs keep the outputs' means already.
  if (!can_gain(best, kGoodSqnrDb) || chosen_.rounded || chosen_.activations == Activations::float_)
    return ok_status();
  QuantizeOptions o = chosen_;
  for (int round = 0; round < 2; ++round) {
    FOLD8_TRY(o.bias_corrections, bias_corrections(base, o));
    const double before = best.score.worst_sqnr_db.value_or(0);
    FOLD8_CHECK_OK(consider(base, o, best));
    if (!(best.score.worst_sqnr_db.value_or(0) > before)) break;
  }
  return ok_status();
}

Result<std::map<std::string, std::vector<double>>> Attempts::bias_corrections(
    const Base& base, QuantizeOptions options) {
  const StageLog::Clock clock(log_, "correct biases");
  const auto layers = layers_to_average(base.graph);
  const auto means = [&](graph::Graph g) {
    return mean_results(std::move(g), layers, *samples_, kMeanSamples, options_.threads);
  };
  if (base.means->layers.empty()) {
    FOLD8_TRY(*base.means, means(base.graph));
  }
  options.calibration = base.table ? &*base.table : nullptr;
  Graph g = base.graph;
  FOLD8_TRY(const QuantizeOutcome quantized, quantize(g, options));
  (void)quantized;
  FOLD8_TRY(const MeanResults got, means(std::move(g)));
  for (const auto& [layer, more] : fusion::bias_corrections(base.graph, layers, *base.means, got)) {
    std::vector<double>& correction = options.bias_corrections[layer];
    correction.resize(more.size());
    for (std::size_t c = 0; c < more.size(); ++c) correction[c] += more[c];
  }
  return std::move(options.bias_corrections);
}

Status Attempts::try_static(const Base& base, Attempt& best) {
  if (!base.table || !can_gain(best, kGoodSqnrDb) ||
      chosen_.activations != Activations::automatic ||
      !rounds_per_token(base.graph, chosen_.activations))
    return ok_status();
  QuantizeOptions o = chosen_;
  o.calibration = &*base.table;
  {
    const StageLog::Clock clock(log_, "choose rounding");
    FOLD8_TRY(const auto rows, rows_of(base));
    o.static_inputs = better_static(base.graph, o, rows);
  }
  return o.static_inputs.empty() ? ok_status() : consider(base, o, best);
}

Status Attempts::try_rotated(const Base& base, Attempt& best) {
  const bool always = options_.rotate == Rotation::on;
  const double enough =
      always ? kGoodSqnrDb
             : std::max(kFairSqnrDb, options_.target.sqnr_db.value_or(0) + kTargetMarginDb);
  if (options_.rotate == Rotation::off || !can_gain(best, enough) ||
      !rounds_per_token(base.graph, chosen_.activations))
    return ok_status();
  QuantizeOptions o = chosen_;
  o.calibration = base.table ? &*base.table : nullptr;
  {
    const StageLog::Clock clock(log_, "choose rotations");
    FOLD8_TRY(const auto rows, rows_of(base));
    o.rotated_inputs =
        better_rotated(base.graph, o, rows, always ? kLeastRotationGainOn : kLeastRotationGain);
  }
  if (o.rotated_inputs.empty()) return ok_status();
  if (o.rounded != nullptr) {
    FOLD8_TRY(o.rounded, rounded_weights(base, o));
  }
  return consider(base, o, best);
}

Status Attempts::consider(const Base& base, const QuantizeOptions& options, Attempt& best,
                          const std::string& remedy) {
  FOLD8_TRY(Attempt a, attempt(base, options, remedy));
  if (!better(a, best)) return ok_status();
  best = std::move(a);
  chosen_ = options;
  chosen_.calibration = nullptr;  // attempt() sets it
  return ok_status();
}

// Cheapest first. The best attempt is kept, and what was done is said.
Status Attempts::try_remedies(const Base& base, Attempt& best) {
  const double before = best.score.worst_sqnr_db.value_or(0);
  QuantizeOptions o = chosen_;
  if (o.method == quant::Method::automatic) {
    o.method = quant::Method::mse;
    FOLD8_CHECK_OK(consider(base, o, best, "ranges by least squared error (--method mse)"));
  }
  if (is_poor(best) && chosen_.activations == Activations::automatic) {
    o = chosen_;
    o.activations = Activations::dynamic;
    FOLD8_CHECK_OK(consider(
        base, o, best, "activations of matrix layers rounded per token (--activations dynamic)"));
  }
  if (!best.remedy.empty())
    summary_.warnings.push_back("INT8 was poor (" + decibels(before) +
                                "); remedy taken: " + best.remedy + ", now " +
                                decibels(best.score.worst_sqnr_db.value_or(0)));
  if (is_poor(best)) FOLD8_CHECK_OK(try_float_layers(base, best));
  if (is_poor(best))
    summary_.warnings.push_back(
        "INT8 stays poor on the samples (worst output " +
        decibels(best.score.worst_sqnr_db.value_or(0)) + "): " +
        (chosen_.weights == quant::WeightGranularity::per_tensor
             ? "give weights a scale per channel (--weights channel), or "
             : "") +
        "look at `fold8 report` and keep the worst layers float with --keep-float");
  return ok_status();
}

}  // namespace fold8::fusion
