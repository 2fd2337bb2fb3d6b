#include "fusion/search.h"

#include <algorithm>
#include <cmath>

namespace fold8::fusion {
namespace {

constexpr double kLeastGain = 0.98;  // of the error, for an origin that is preferred

// What distinguishes origins, for people.
std::string origin_text(const std::string& smoothing, const QuantizeOptions& o) {
  std::string text = smoothing;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  if (o.method != quant::Method::automatic) add("ranges " + std::string(quant::name(o.method)));
  if (o.activations == Activations::dynamic) add("activations dynamic");
  if (o.activations == Activations::static_) add("activations static");
  add(o.streams == Streams::f32 ? "streams f32" : "streams u8");
  if (o.attention == AttentionProducts::f32) add("attention f32");
  if (!o.rotated_inputs.empty()) add("rotated");
  return text;
}

bool has_streams(const Attempt& a) { return a.outcome.u8_streams > 0; }

// What the search decides itself is not weighed before.
ConvertOptions without_target(const ConvertOptions& o) {
  ConvertOptions plain = o;
  plain.target = {};
  plain.memory = nullptr;
  plain.most_float_share = 0;
  if (plain.quantize.streams == Streams::automatic) plain.quantize.streams = Streams::u8;
  if (plain.quantize.attention == AttentionProducts::automatic)
    plain.quantize.attention = AttentionProducts::int8;
  return plain;
}

Result<std::vector<std::int64_t>> labels_of(const std::vector<std::int64_t>& labels,
                                            const SampleSplit& split, std::size_t samples) {
  std::vector<std::int64_t> chosen;
  if (labels.empty()) return chosen;
  if (labels.size() % samples != 0)
    return invalid_model("there are " + std::to_string(labels.size()) + " labels for " +
                         std::to_string(samples) + " samples");
  const std::size_t rows = labels.size() / samples;
  for (std::size_t i = 0; i < split.judging.count(); ++i)
    for (std::size_t r = 0; r < rows; ++r)
      chosen.push_back(labels[split.judging.original(i) * rows + r]);
  return chosen;
}

// Of all samples, also those that candidates are not judged on.
Status check_labels(const std::vector<std::int64_t>& labels, std::int64_t classes) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] < 0 || labels[i] >= classes)
      return invalid_model("--labels: label " + std::to_string(i) + " is " +
                           std::to_string(labels[i]) + ", the model has classes 0 to " +
                           std::to_string(classes - 1));
  return ok_status();
}

}  // namespace

Search::Search(SampleSplit& samples, const ConvertOptions& options, ConvertSummary& summary)
    : samples_(samples), options_(options), summary_(summary), log_(options, summary) {}

Status Search::open(const graph::Graph& fused) {
  if (samples_.judging.count() == 0)
    return invalid_model("the calibration data holds no samples; give at least one");
  target_ = options_.target;
  FOLD8_TRY(target_.labels, labels_of(options_.target.labels, samples_, samples_.total));
  search_.held_out = samples_.held_out;
  search_.samples = samples_.judging.count();
  if (target_.accuracy_drop)
    search_.accuracy_measure =
        target_.labels.empty() ? "top-1 agreement" : "accuracy against labels";
  FOLD8_TRY(const std::string calibration, key_of_samples(samples_.calibration));
  FOLD8_TRY(const std::string judging, key_of_samples(samples_.judging));
  data_key_ = calibration + judging;
  FOLD8_TRY(const std::size_t first, add_origin(fused, without_target(options_), ""));
  Source& source = *origins_[first].source;
  const graph::Graph& g = source.float_model->graph();
  search_.judged = judged_tensors(g, target_.at_outputs);
  FOLD8_TRY(choices_, float_choices(source.attempts.base().graph, source.float_model,
                                    samples_.calibration, options_.quantize));
  scorer_.emplace(g, search_.judged, samples_.judging, target_, options_.threads);
  if (target_.labels.empty()) return ok_status();
  FOLD8_TRY(const std::int64_t classes, scorer_->classes());
  return classes < 2 ? ok_status() : check_labels(options_.target.labels, classes);
}

Result<std::size_t> Search::add_origin(const graph::Graph& fused, ConvertOptions options,
                                       const std::string& smoothing) {
  auto source = std::make_shared<Source>(samples_.calibration, std::move(options));
  FOLD8_TRY(Attempt best, source->attempts.best(fused));
  FOLD8_TRY(source->float_model, source->attempts.float_model(source->attempts.base()));
  source->has_streams = has_streams(best);
  source->tables = best.outcome.tables;
  FOLD8_TRY(std::string key, key_of_source(*source));
  const QuantizeOptions chosen = source->attempts.chosen();
  origins_.push_back(
      {origin_text(smoothing, chosen), smoothing, source, chosen, std::move(key), {}});
  return origins_.size() - 1;
}

std::size_t Search::add_origin(std::size_t like, QuantizeOptions options) {
  Origin o = origins_[like];
  o.what = origin_text(o.smoothing, options);
  o.options = std::move(options);
  o.noise.clear();
  origins_.push_back(std::move(o));
  return origins_.size() - 1;
}

// Scored with all layers in INT8; taken as the one to go on from if it errs less.
Result<double> Search::prefer(std::size_t origin) {
  FOLD8_TRY(Candidate c, all_int8(origin));
  const double severity = c.severity;
  if (!preferred_ || severity < kLeastGain * preferred_->severity) preferred_ = std::move(c);
  return severity;
}

// What the options left open and costs nothing at run time. Nothing is tried once all layers in
// INT8 meet the target.
Status Search::choose_origin(const graph::Graph& fused) {
  FOLD8_CHECK_OK(prefer(0));
  const auto done = [this] { return preferred_->severity <= 1; };
  // Rotated rows take a little time, layers in float much more.
  Rotation rotate = options_.rotate;
  const auto& base = origins_[0].source->attempts.base();
  if (rotate == Rotation::automatic && !done() &&
      rounds_per_token(base.graph, origins_[0].options.activations)) {
    ConvertOptions o = without_target(options_);
    o.rotate = Rotation::on;
    FOLD8_TRY(const std::size_t added, add_origin(fused, std::move(o), ""));
    FOLD8_CHECK_OK(prefer(added));
    if (preferred_->origin == added) rotate = Rotation::on;
  }
  if (!options_.smooth.alpha && !options_.smooth.off)
    for (const auto& [alpha, what] : {std::pair{std::optional(0.5), "smoothing 0.5"},
                                      std::pair{std::optional(0.75), "smoothing 0.75"},
                                      std::pair{std::optional<double>(), "no smoothing"}}) {
      if (done() || origins_[0].source->summary.smoothed.empty()) break;
      ConvertOptions o = without_target(options_);
      o.smooth.alpha = alpha;
      o.smooth.off = !alpha;
      o.rotate = rotate;
      FOLD8_TRY(const std::size_t added, add_origin(fused, std::move(o), what));
      FOLD8_CHECK_OK(prefer(added));
    }
  if (options_.quantize.method == quant::Method::automatic)
    for (const quant::Method method : {quant::Method::mse, quant::Method::percentile,
                                       quant::Method::minmax, quant::Method::entropy}) {
      if (done()) break;
      QuantizeOptions o = origins_[preferred_->origin].options;
      o.method = method;
      const double before = preferred_->severity;
      FOLD8_TRY(const double severity, prefer(add_origin(preferred_->origin, std::move(o))));
      if (severity == before) break;  // nothing has a range
    }
  if (options_.quantize.activations == Activations::automatic)
    for (const Activations activations : {Activations::dynamic, Activations::static_}) {
      const Origin& from = origins_[preferred_->origin];
      const bool per_token =
          rounds_per_token(from.source->attempts.base().graph, from.options.activations);
      if (done() || per_token == (activations == Activations::dynamic)) continue;
      QuantizeOptions o = from.options;
      o.activations = activations;
      FOLD8_CHECK_OK(prefer(add_origin(preferred_->origin, std::move(o))));
    }
  return ok_status();
}

Result<Attempt> Search::finish() {
  search_.met = cheapest_.has_value();
  const Candidate& c = search_.met ? *cheapest_ : *most_accurate_;
  search_.chosen = c.step;
  FOLD8_TRY(Attempt a, emit(c));
  FOLD8_TRY(auto model, exec::Model::from_graph(a.graph));
  FloatOutputs kept;
  ScoreOptions o;
  o.samples = first_samples(samples_.judging.count(), samples_.judging.count());
  o.threads = options_.threads;
  const auto& source = origins_[c.origin].source;
  FOLD8_TRY(a.score,
            fusion::score([&] { return source->float_model; }, model, samples_.judging, o, kept));
  summary_.scored_samples = o.samples.size();
  const ConvertSummary& from = origins_[c.origin].source->summary;
  summary_.stages.insert(summary_.stages.begin(), from.stages.begin(), from.stages.end());
  summary_.warnings.insert(summary_.warnings.end(), from.warnings.begin(), from.warnings.end());
  remember(from.declined, summary_.declined);
  summary_.smoothed = from.smoothed;
  summary_.samples = from.samples;
  summary_.search = std::move(search_);
  return a;
}

bool Search::costs_more_than(double cost) const { return !cheapest_ || cheapest_->cost > cost; }

std::size_t Search::with_float_tables(std::size_t like) {
  QuantizeOptions o = origins_[like].options;
  const auto& tables = origins_[like].source->tables;
  o.keep_float.insert(o.keep_float.end(), tables.begin(), tables.end());
  const std::size_t added = add_origin(like, std::move(o));
  origins_[added].noise = origins_[like].noise;  // each layer's own is the same
  origins_[added].float_tables = true;
  origins_[added].what += ", tables f32";
  return added;
}

Result<Attempt> Search::run(const graph::Graph& fused) {
  FOLD8_CHECK_OK(open(fused));
  FOLD8_CHECK_OK(choose_origin(fused));
  const std::size_t origin = preferred_->origin;
  FOLD8_CHECK_OK(leave_layers_float(origin));
  // Both cost something, so they are for targets that nothing cheaper meets.
  if (!origins_[origin].source->tables.empty() && costs_more_than(kTableCost))
    FOLD8_CHECK_OK(leave_layers_float(with_float_tables(origin)));
  if (options_.quantize.streams == Streams::automatic && origins_[origin].source->has_streams &&
      costs_more_than(kStreamCost)) {
    QuantizeOptions o = origins_[origin].options;
    o.streams = Streams::f32;
    FOLD8_CHECK_OK(leave_layers_float(add_origin(origin, std::move(o))));
  }
  return finish();
}

}  // namespace fold8::fusion
