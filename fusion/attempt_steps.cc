// What the samples decide behind the first attempt: steps that each try something else, and keep it
// where it helps.
#include "fusion/attempts.h"
#include "fusion/choose_rotation.h"
#include "fusion/choose_rounding.h"
#include "fusion/mean_results.h"
#include "fusion/passes/balance.h"
#include "fusion/pipeline.h"
#include "fusion/round_weights.h"
#include "fusion/text.h"

namespace fold8::fusion {
namespace {

using graph::Graph;

constexpr double kLeastGainDb = 0.5;      // of a change of the network
constexpr double kLeastFreeGainDb = 0.2;  // of what changes nothing at run time
constexpr double kFairSqnrDb = 30;
constexpr double kGoodSqnrDb = 40;             // nothing to gain that anybody would see
constexpr double kLeastRotationGain = 1.58;    // 2 dB, of the expected error of a tensor's readers
constexpr double kLeastRotationGainOn = 1.26;  // 1 dB, where it is asked for
constexpr std::size_t kMeanSamples = 64;

// Something below `enough` was measured.
bool can_gain(const Attempt& a, double enough) {
  return a.score.worst_sqnr_db && !(*a.score.worst_sqnr_db > enough);
}

}  // namespace

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
  if (values_to_smooth(g).empty()) return none;
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
  const double enough = always ? kGoodSqnrDb : kFairSqnrDb;
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
