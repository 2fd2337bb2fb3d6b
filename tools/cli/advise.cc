#include "tools/cli/advise.h"

#include <fmt/format.h>

#include <algorithm>

#include "fusion/batch_norms.h"
#include "fusion/judged_outputs.h"
#include "fusion/model_facts.h"
#include "fusion/passes/float_pairs.h"
#include "quant/cause_text.h"
#include "quant/group_gain.h"
#include "tools/onnx/onnx.h"

namespace fold8::cli {
namespace {

constexpr std::size_t kProbedLayers = 32;
constexpr std::size_t kLeastProbed = 4, kMostProbed = 32;  // samples
constexpr std::size_t kProbedNumbers = 1 << 13;  // of outputs: fewer, and chance has its say
constexpr double kStale = 0.25;                  // of the BatchNorms
constexpr std::size_t kExplained = 3;            // causes that convert names

// A few samples of another source, evenly chosen.
class Few : public quant::SampleSource {
 public:
  Few(quant::SampleSource& all, std::size_t most) : all_(all), most_(most) {}
  std::size_t count() const override { return std::min(all_.count(), most_); }
  Result<std::vector<Tensor>> sample(std::size_t i) override {
    return all_.sample(i * all_.count() / count());
  }

 private:
  quant::SampleSource& all_;
  std::size_t most_;
};

bool is_onnx(const std::string& path) {
  return path.size() > 5 && path.substr(path.size() - 5) == ".onnx";
}

// What a converted model knows of itself.
void tell(const graph::Graph& other, quant::ConcludeOptions& options) {
  options.file_scales = fusion::file_scales(other);
  options.unfolded = fusion::unfolded_batch_norms(other, fusion::load_facts(other).declined);
}

bool has_error(const quant::Comparison& c) {
  return std::any_of(c.outputs.begin(), c.outputs.end(), [](const quant::OutputComparison& o) {
    return o.error.sqnr_db && *o.error.sqnr_db < quant::kHealthyDb;
  });
}

// Those with the largest own error; what cannot be run alone by the accumulated one.
std::set<std::string> suspects(const quant::Comparison& c) {
  std::vector<std::pair<double, std::string>> list;
  for (const quant::LayerError& l : c.layers) {
    const quant::ErrorSummary& e = l.own ? *l.own : l.accumulated;
    if (e.sqnr_db) list.push_back({*e.sqnr_db, l.name});
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::set<std::string> names;
  for (const auto& [db, name] : list)
    if (names.size() < kProbedLayers) names.insert(name);
  return names;
}

// What the BatchNorms of the imported network say about the samples.
class Statistics {
 public:
  Statistics(std::shared_ptr<const exec::Model> model, quant::SampleSource& samples,
             const quant::Comparison& comparison, int threads)
      : model_(std::move(model)), samples_(samples), comparison_(comparison) {
    options_.threads = threads;
  }

  Result<std::optional<quant::Finding>> judge() {
    std::optional<quant::Finding> none;
    FOLD8_TRY(const auto facts, quant::batch_norm_facts(model_, samples_, options_));
    if (facts.empty()) return none;
    if (facts[0].disagrees()) {
      FOLD8_TRY(const auto guess, quant::guess_preprocessing(model_, samples_, options_));
      if (guess) return std::optional(preprocessing(facts[0], *guess));
    }
    std::size_t stale = 0, worst = 0;
    for (std::size_t i = 0; i < facts.size(); ++i) {
      stale += facts[i].disagrees();
      if (facts[i].distance > facts[worst].distance) worst = i;
    }
    if (stale == 0 || static_cast<double>(stale) < kStale * static_cast<double>(facts.size()))
      return none;
    return std::optional(stale_statistics(facts[worst], stale, facts.size()));
  }

 private:
  // Which compared layer the BatchNorm became a part of.
  std::string layer_of(const quant::BatchNormFacts& f) const {
    for (const quant::LayerError& l : comparison_.layers) {
      if (l.name == f.tensor || l.name == f.layer) return l.name;
      for (const std::string& inside : l.inside)
        if (inside == f.tensor || inside == f.node) return l.name;
    }
    return f.tensor;
  }

  static std::string off(const quant::BatchNormFacts& f) {
    return fmt::format(
        "means {} of its stored deviations away (median; channel {}: {}) and deviations {} off",
        quant::short_number(f.median_shift), f.worst_channel, quant::short_number(f.worst_shift),
        quant::times(f.median_spread));
  }

  quant::Finding preprocessing(const quant::BatchNormFacts& f,
                               const quant::PreprocessGuess& guess) const {
    quant::Finding found;
    found.layer = layer_of(f);
    found.tensor = guess.input;
    found.cause.kind = quant::CauseKind::wrong_preprocessing;
    found.cause.channels = {f.worst_channel};
    found.cause.text = fmt::format(
        "input '{}' is not what the network was trained on: the first BatchNorm '{}' sees {}; with "
        "{} they would agree (distance {} instead of {})",
        guess.input, f.node, off(f), guess.name, quant::short_number(guess.after),
        quant::short_number(guess.before));
    quant::Fix fix;
    fix.flag = guess.flag();
    fix.why = "standardises the input inside the model: " + guess.name +
              " (--stats have to be measured again with it)";
    found.fixes.push_back(std::move(fix));
    return found;
  }

  quant::Finding stale_statistics(const quant::BatchNormFacts& f, std::size_t stale,
                                  std::size_t all) const {
    quant::Finding found;
    found.layer = layer_of(f);
    found.cause.kind = quant::CauseKind::stale_statistics;
    found.cause.channels = {f.worst_channel};
    found.cause.text = fmt::format(
        "{} of {} BatchNorms hold other statistics than these samples have; '{}' sees {}", stale,
        all, f.node, off(f));
    quant::Fix fix;
    fix.flag = "--reestimate-bn";
    fix.why =
        "measures means and variances on the calibration samples, if they are what the "
        "network will see (they have to be samples: --calib, not --stats)";
    found.fixes.push_back(std::move(fix));
    return found;
  }

  std::shared_ptr<const exec::Model> model_;
  quant::SampleSource& samples_;
  const quant::Comparison& comparison_;
  quant::BatchNormOptions options_;
};

Result<std::optional<quant::Finding>> statistics(const std::string& path,
                                                 quant::SampleSource& samples,
                                                 const quant::Comparison& comparison, int threads) {
  std::optional<quant::Finding> none;
  if (!is_onnx(path)) return none;
  FOLD8_TRY(auto imported, onnx_io::import_file(path));
  auto model = exec::Model::from_graph(std::move(imported.graph));
  if (!model.ok()) return none;  // operators that only the pipeline can lower
  auto found = Statistics(*model, samples, comparison, threads).judge();
  return found.ok() ? std::move(*found) : none;  // so may be a run of them
}

// Probabilities near 0 and 1 hide errors: where a Softmax gives an output, both models end at what
// it reads, and the comparison's outputs are those. False, and nothing changed, where none does.
Result<bool> judge_logits(std::shared_ptr<const exec::Model>& reference,
                          std::shared_ptr<const exec::Model>& other, quant::SampleSource& samples,
                          int threads, quant::Comparison& comparison) {
  const auto names = fusion::judged_outputs(reference->graph());
  graph::Graph a = reference->graph(), b = other->graph();
  if (names.empty() || !fusion::judge_by(a, names) || !fusion::judge_by(b, names)) return false;
  auto first = exec::Model::from_graph(std::move(a)),
       second = exec::Model::from_graph(std::move(b));
  if (!first.ok() || !second.ok()) return false;
  quant::CompareOptions options;
  options.layers = false;
  options.threads = threads;
  FOLD8_TRY(auto compared, quant::compare(*first, *second, samples, options));
  comparison.outputs = std::move(compared.outputs);
  reference = *std::move(first);
  other = *std::move(second);
  return true;
}

// What costs are measured on: a classifier's few numbers want more samples than a feature map.
std::size_t probed_samples(const quant::Comparison& c) {
  std::uint64_t numbers = 0;
  for (const quant::OutputComparison& o : c.outputs) numbers += o.error.elements;
  const std::size_t one = std::max<std::size_t>(numbers / std::max<std::size_t>(c.samples, 1), 1);
  return std::clamp(kProbedNumbers / one, kLeastProbed, kMostProbed);
}

// Fixes that leave layers float and nothing else are measured, where they were estimated; other
// estimates are bounded by what the layers they mend win in float. Then all are ranked again.
Status measure_fixes(std::shared_ptr<const exec::Model> reference,
                     std::shared_ptr<const exec::Model> other, quant::SampleSource& samples,
                     std::size_t probed, int threads, Progress& progress,
                     std::vector<quant::Finding>& findings) {
  std::vector<quant::Fix*> fixes;
  std::vector<std::vector<std::string>> groups;
  std::vector<std::size_t> group_of;  // of each fix
  for (quant::Finding& f : findings)
    for (quant::Fix& fix : f.fixes) {
      const std::vector<std::string>& layers = fix.layers.empty() ? fix.mends : fix.layers;
      if (layers.empty() || fix.measured) continue;
      fixes.push_back(&fix);
      const auto same = std::find(groups.begin(), groups.end(), layers);
      group_of.push_back(static_cast<std::size_t>(same - groups.begin()));
      if (same == groups.end()) groups.push_back(layers);
    }
  if (groups.empty()) return ok_status();
  quant::GroupGainOptions o;
  o.most_samples = probed;
  o.threads = threads;
  o.progress = [&](std::size_t done, std::size_t total) { progress("fixes", done, total); };
  FOLD8_TRY(const auto gains, quant::group_gains(reference, other, samples, groups, o));
  for (std::size_t i = 0; i < fixes.size(); ++i) {
    const auto gain = gains[group_of[i]];
    if (!gain) continue;
    fixes[i]->measured = !fixes[i]->layers.empty();
    if (fixes[i]->measured)
      fixes[i]->gained_db = gain;
    else
      quant::bound(*fixes[i], *gain);
  }
  for (quant::Finding& f : findings) quant::rank(f.fixes);
  return ok_status();
}

// Facts, shares of the error and conclusions.
Result<std::vector<quant::Finding>> find_causes(std::shared_ptr<const exec::Model> reference,
                                                std::shared_ptr<const exec::Model> other,
                                                quant::SampleSource& samples,
                                                const quant::Comparison& comparison,
                                                std::vector<quant::LayerSensitivity> sensitivity,
                                                const quant::ConcludeOptions& options, int threads,
                                                Progress& progress) {
  quant::FactsOptions facts_options;
  facts_options.threads = threads;
  facts_options.progress = [&](std::size_t done, std::size_t total) {
    progress("facts", done, total);
  };
  FOLD8_TRY(const auto facts, quant::measure_facts(reference, other, samples, facts_options));
  quant::Comparison judged = comparison;
  FOLD8_TRY(const bool at_logits, judge_logits(reference, other, samples, threads, judged));
  if (at_logits) sensitivity.clear();  // it was measured behind the Softmax
  const std::size_t probed = probed_samples(judged);
  if (sensitivity.empty() && has_error(judged)) {
    quant::SensitivityOptions probe;
    probe.only = suspects(comparison);
    probe.most_samples = probed;
    probe.threads = threads;
    probe.progress = [&](std::size_t done, std::size_t total) { progress("probe", done, total); };
    FOLD8_TRY(sensitivity, quant::sensitivity(reference, other, samples, probe));
  }
  auto findings = quant::conclude(judged, facts, sensitivity, options);
  FOLD8_CHECK_OK(measure_fixes(reference, other, samples, probed, threads, progress, findings));
  return findings;
}

}  // namespace

std::string data_flag(const DataArgs& data, const std::string& flag) {
  if (!data.given() || data.random()) return "";
  std::string text = flag;
  for (const std::string& path : data.data) text += " " + quant::shell_word(path);
  if (data.stacked) text += " --stacked";
  if (!data.mean.empty()) text += fmt::format(" --mean {}", fmt::join(data.mean, ","));
  if (!data.std.empty()) text += fmt::format(" --std {}", fmt::join(data.std, ","));
  if (!data.size.empty()) text += " --size " + data.size;
  if (data.layout != "nchw") text += " --layout " + data.layout;
  if (data.max_samples > 0) text += fmt::format(" --max-samples {}", data.max_samples);
  return text;
}

bool is_poor(const fusion::ConvertSummary& summary, const fusion::ConvertOptions& options) {
  return std::any_of(summary.outputs.begin(), summary.outputs.end(),
                     [&](const fusion::OutputError& o) {
                       return o.error.sqnr_db && *o.error.sqnr_db < options.poor_sqnr_db;
                     });
}

Result<std::vector<quant::Finding>> advise(std::shared_ptr<const exec::Model> reference,
                                           std::shared_ptr<const exec::Model> other,
                                           quant::SampleSource& samples,
                                           const quant::Comparison& comparison,
                                           std::vector<quant::LayerSensitivity> sensitivity,
                                           const AdviseOptions& options, Progress& progress) {
  FOLD8_TRY(auto first, statistics(options.reference_path, samples, comparison, options.threads));
  quant::ConcludeOptions conclude_options;
  conclude_options.calibration_flag = data_flag(options.data, "--recalib");
  tell(other->graph(), conclude_options);
  FOLD8_TRY(auto findings,
            find_causes(reference, other, samples, comparison, std::move(sensitivity),
                        conclude_options, options.threads, progress));
  // What goes in comes first; whether statistics are stale is another question than what INT8
  // costs.
  if (first) {
    // Among the first, which a terminal shows: it may be the root of the others.
    const bool input = first->cause.kind == quant::CauseKind::wrong_preprocessing;
    const std::size_t place = input ? 0 : std::min<std::size_t>(findings.size(), 2);
    findings.insert(findings.begin() + static_cast<std::ptrdiff_t>(place), std::move(*first));
  }
  return findings;
}

Result<std::vector<std::string>> why_poor(const std::function<Result<graph::Graph>()>& imported,
                                          const fusion::Converted& converted,
                                          quant::SampleSource& samples,
                                          const fusion::ConvertOptions& options,
                                          Progress& progress) {
  fusion::ConvertOptions float_options;
  float_options.float_only = true;
  float_options.layer_norm_to_rms_norm = options.layer_norm_to_rms_norm;
  FOLD8_TRY(auto graph, imported());
  FOLD8_TRY(auto reference, fusion::convert(std::move(graph), nullptr, float_options));
  FOLD8_TRY(auto a, exec::Model::from_graph(std::move(reference.graph)));
  FOLD8_TRY(auto b, exec::Model::from_graph(converted.graph));
  Few few(samples, kExplainedSamples);
  quant::CompareOptions compare_options;
  compare_options.threads = options.threads;
  FOLD8_TRY(const auto comparison, quant::compare(a, b, few, compare_options));
  quant::ConcludeOptions conclude_options;
  tell(converted.graph, conclude_options);
  FOLD8_TRY(const auto findings,
            find_causes(a, b, few, comparison, {}, conclude_options, options.threads, progress));
  std::vector<std::string> lines;
  if (!findings.empty())
    lines.push_back(fmt::format("causes, on {} of {} samples:", few.count(), samples.count()));
  for (const quant::Finding& f : findings) {
    if (lines.size() > kExplained) break;
    lines.push_back("cause: " + f.layer + ": " + f.cause.text +
                    (f.fixes.empty()           ? ""
                     : f.fixes[0].flag.empty() ? "; " + f.fixes[0].why
                                               : "; try " + f.fixes[0].flag));
  }
  return lines;
}

}  // namespace fold8::cli
