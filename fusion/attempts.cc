#include "fusion/attempts.h"

#include <set>

#include "fusion/batch_norms.h"
#include "fusion/front.h"
#include "fusion/judged_outputs.h"
#include "fusion/pipeline.h"
#include "fusion/prefer_speed.h"
#include "fusion/statistics.h"
#include "quant/data_warnings.h"

namespace fold8::fusion {
namespace {

using graph::Graph;

constexpr double kPoorTop1 = 0.9;    // of the samples keep their class; below, something is broken
constexpr double kSoundSqnrDb = 25;  // above, the classes that change are near ties
constexpr std::size_t kRows = 256;   // of a tensor, for choices that are made layer by layer

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
  if (samples == nullptr) return;
  scored_ = options.search ? first_samples(samples->count(), options.score_samples)
                           : even_samples(samples->count(), options.one_pass_samples);
}

// Of what linear layers read, and of feature maps.
bool Attempts::moves_factors() const {
  return !options_.smooth.off && (options_.search || options_.smooth.alpha);
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
  summary_.scored_samples = scored_.size();
  const auto& outputs = best.score.outputs;
  if (samples_ != nullptr && std::all_of(outputs.begin(), outputs.end(), [](const OutputError& o) {
        return o.error.elements == 0;
      }))
    summary_.warnings.push_back(
        "the INT8 model was compared with nothing: no output has an element on these samples; "
        "give samples that are not empty");
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
  if (judge_also(emitted, base.judged).empty()) base.judged.clear();
  FOLD8_TRY(auto model, exec::Model::from_graph(std::move(emitted)));
  FOLD8_CHECK_OK(calibrate(base, model));
  if (options_.cost_table != nullptr) {
    FOLD8_TRY(base.shapes, shapes_of(model, typical_));
  }
  return base;
}

Result<std::shared_ptr<const exec::Model>> Attempts::float_model(const Base& base) {
  Graph g = base.unlowered;
  FOLD8_CHECK_OK(log_.run("emit", g, "emit float"));
  return exec::Model::from_graph(std::move(g));
}

Result<std::shared_ptr<const exec::Model>> Attempts::reference(const Base& base) {
  Graph g = base.unlowered;
  FOLD8_CHECK_OK(log_.run("emit", g, "emit float"));
  (void)judge_also(g, base.judged);  // as prepare() found that it can
  return exec::Model::from_graph(std::move(g));
}

Status Attempts::calibrate(Base& base, std::shared_ptr<const exec::Model> model) {
  if (samples_ == nullptr && options_.statistics == nullptr) return ok_status();
  const StageLog::Clock clock(log_, "calibrate");
  if (options_.statistics == nullptr) {
    quant::CalibrateOptions observation =
        observation_of(base.graph, options_.threads, moves_factors());
    observation.progress = [this](std::size_t done, std::size_t total) {
      log_.progress("calibrate", done, total);
    };
    observation.outputs = [&](std::size_t i, const std::vector<TensorView>& outputs) {
      base.outputs->keep(scored_, i, outputs);
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
  options.cache = &weights_;
  if (options_.cost_table != nullptr)
    options.also_float.merge(
        slower_in_int8(base.graph, base.shapes, *options_.cost_table, options));
  Attempt a{base.graph, {}, {}, {}, std::move(remedy), 0};
  {
    const StageLog::Clock clock(log_, "quantize");
    FOLD8_TRY(a.outcome, quantize(a.graph, options));
    FOLD8_TRY(Tally fused, fusion::run(fusion::stage("lower"), a.graph));
    a.batch_norms_left = batch_norms_left(a.graph);
    Context context;
    context.weights = &weights_;
    FOLD8_TRY(Tally emitted, fusion::run(fusion::stage("emit"), a.graph, context));
    weights_.end_attempt();
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

// One run of each sample for both: what attempts are compared by, and what people read, the errors
// of the outputs themselves.
Result<Score> Attempts::score_of(const Base& base, const Graph& emitted) {
  const StageLog::Clock clock(log_, "check against float");
  Graph g = emitted;
  ScoreOptions o;
  o.samples = scored_;
  o.judged = judge_also(g, base.judged);
  o.threads = options_.threads;
  FOLD8_TRY(auto model, exec::Model::from_graph(std::move(g)));
  return score([&] { return reference(base); }, model, *samples_, o, *base.outputs);
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

}  // namespace fold8::fusion
