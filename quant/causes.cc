#include "quant/causes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "quant/cause_text.h"
#include "quant/causes_of.h"
#include "quant/fixes.h"
#include "runtime/kernels/math_double.h"

namespace fold8::quant {
namespace {

constexpr std::array<const char*, 18> kNames = {
    "scale_too_small",  "scale_too_large",     "clipped",
    "mixed_ranges",     "outlier_channel",     "outlier_sample",
    "uneven_tokens",    "dead_channel",        "outlier_weights",
    "clipped_weights",  "weights_per_tensor",  "collapsed_codes",
    "flat_rows",        "attention",           "wrong_preprocessing",
    "stale_statistics", "unfolded_batch_norm", "rounding"};

// Layers below this part of the worst one's suffering are not kept float with it.
constexpr double kSuffersToo = 0.1;

double noise_of(double db) { return kernels::exp_f64(-db / 10 * kernels::log_f64(10)); }

class Concluder {
 public:
  Concluder(const Comparison& comparison, const ModelFacts& facts,
            const std::vector<LayerSensitivity>& sensitivity, const ConcludeOptions& options)
      : comparison_(comparison),
        facts_(facts),
        options_(options),
        situation_{facts, options, 0, {}} {
    for (const LayerSensitivity& s : sensitivity) sensitivity_[s.name] = &s;
    for (const LayerError& l : comparison.layers) {
      errors_[l.name] = &l;
      if (l.op == "attention" && l.int8) situation_.attentions.push_back(l.name);
    }
    for (const UnfoldedNorm& n : options.unfolded) unfolded_[n.tensor] = &n;
    for (std::size_t i = 0; i < comparison.outputs.size(); ++i) {
      const auto db = comparison.outputs[i].error.sqnr_db;
      if (!db || (worst_db_ && *db >= *worst_db_)) continue;
      worst_db_ = db;
      worst_ = i;
    }
    if (worst_db_) situation_.noise = noise_of(*worst_db_);
  }

  std::vector<Finding> run() {
    std::vector<Finding> findings = lost_parts();
    if (worst_db_ && *worst_db_ < kHealthyDb) {
      charge();
      for (const Problem& p : ranked()) {
        if (findings.size() >= options_.most) break;
        if (!told(findings, p)) findings.push_back(finding(p));
      }
    }
    if (auto f = harmless_norms(findings); f && findings.size() < options_.most)
      findings.push_back(*std::move(f));
    return findings;
  }

 private:
  struct Charge {
    const LayerFacts* layer;
    double noise;
  };

  // The layer's own part of the error at the worst output.
  std::optional<double> alone(const LayerFacts& l) const {
    if (const auto s = sensitivity_.find(l.name); s != sensitivity_.end()) {
      const LayerSensitivity& found = *s->second;
      if (worst_ < found.alone_outputs_db.size()) {
        const auto db = found.alone_outputs_db[worst_];
        return db                  ? std::optional(noise_of(*db))
               : found.alone_exact ? std::optional(0.0)
                                   : std::nullopt;
      }
    }
    if (!sensitivity_.empty()) return std::nullopt;
    const auto e = errors_.find(l.name);
    if (e == errors_.end() || !e->second->own || !e->second->own->sqnr_db) return std::nullopt;
    return noise_of(*e->second->own->sqnr_db);
  }

  std::optional<double> measured_gain(const LayerFacts& l) const {
    const auto s = sensitivity_.find(l.name);
    if (s == sensitivity_.end() || worst_ >= s->second->gain_outputs_db.size()) return std::nullopt;
    return s->second->gain_outputs_db[worst_];
  }

  // Each layer's part goes to what it reads rounded, and to its weights, by their mean squares.
  void charge() {
    std::map<const LayerFacts*, std::vector<std::pair<std::size_t, double>>> reads;
    for (std::size_t i = 0; i < facts_.roundings.size(); ++i) {
      const RoundingFacts& r = facts_.roundings[i];
      if (r.count() == 0) continue;
      for (const RoundingReader& reader : r.where.readers)
        if (const LayerFacts* l = facts_.find(reader.layer))
          reads[l].push_back({i, r.powers.error / static_cast<double>(r.count())});
    }
    for (const LayerFacts& l : facts_.layers) {
      const auto noise = alone(l);
      if (!noise || !(*noise > 0)) continue;
      std::vector<std::pair<std::size_t, double>>& parts = reads[&l];
      double weights = 0, sum = 0;
      if (const auto n = layer_noise(l, facts_)) {
        weights = n->weights;
        const auto outputs = static_cast<double>(l.weights->outputs);
        for (auto& [rounding, power] : parts)
          power = l.input == rounding ? n->input : power * outputs;  // a residual is added
      }
      sum = weights;
      for (const auto& [rounding, power] : parts) sum += power;
      if (!(sum > 0)) {
        itself_[&l] = *noise;
        continue;
      }
      if (weights > 0) weights_[&l] = *noise * weights / sum;
      for (const auto& [rounding, power] : parts)
        roundings_[rounding].push_back({&l, *noise * power / sum});
    }
  }

  std::vector<Problem> ranked() const {
    std::vector<Problem> problems;
    for (const auto& [rounding, charges] : roundings_) {
      std::vector<Charge> sorted = charges;
      std::stable_sort(sorted.begin(), sorted.end(),
                       [](const Charge& a, const Charge& b) { return a.noise > b.noise; });
      Problem p;
      p.rounding = rounding;
      p.layer = sorted[0].layer;
      double sum = 0;
      for (const Charge& c : sorted) {
        sum += c.noise;
        if (c.layer != p.layer && c.noise >= kSuffersToo * sorted[0].noise)
          p.also.push_back(c.layer);
      }
      p.noise = sum;
      add(std::move(p), problems);
    }
    for (const auto& [layer, noise] : weights_) {
      Problem p;
      p.layer = layer;
      p.noise = noise;
      add(std::move(p), problems);
    }
    for (const auto& [layer, noise] : itself_) {
      const auto e = errors_.find(layer->name);
      Problem p;
      p.layer = layer;
      p.noise = noise;
      p.attention = e != errors_.end() && e->second->op == "attention";
      if (p.attention) add(std::move(p), problems);
    }
    std::stable_sort(problems.begin(), problems.end(),
                     [](const Problem& a, const Problem& b) { return *a.noise > *b.noise; });
    return problems;
  }

  void add(Problem p, std::vector<Problem>& problems) const {
    if (*p.noise < options_.least_share * situation_.noise) return;
    p.gain_db = measured_gain(*p.layer);
    problems.push_back(std::move(p));
  }

  static bool told(const std::vector<Finding>& findings, const Problem& p) {
    return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
      return p.layer != nullptr && f.layer == p.layer->name;
    });
  }

  Finding finding(const Problem& p) const {
    Finding f;
    f.layer = p.layer->name;
    for (const LayerFacts* l : p.also) f.also.push_back(l->name);
    if (situation_.noise > 0) f.share = *p.noise / situation_.noise;
    if (p.rounding) {
      const RoundingFacts& r = facts_.roundings[*p.rounding];
      f.tensor = r.where.tensor;
      f.cause = cause_of_rounding(r, facts_);
      if (const auto pair = options_.file_scales.find(f.tensor);
          pair != options_.file_scales.end() && !pair->second.empty())
        f.cause.text += "; the scale is the file's own, of '" + pair->second + "'";
    } else if (p.attention) {
      f.cause.kind = CauseKind::attention;
      f.cause.text = "its products of two activations are rounded to 8 bits, each row by itself";
    } else {
      f.cause =
          cause_of_weights(*p.layer, p.layer->input ? &facts_.roundings[*p.layer->input] : nullptr);
    }
    f.fixes = fixes_for(p, f.cause, situation_);
    if (const auto n = unfolded_.find(f.layer); n != unfolded_.end()) {
      f.cause.kind = CauseKind::unfolded_batch_norm;
      f.cause.text =
          stays(*n->second) + ", a step of its own that reads what is rounded: " + f.cause.text;
      f.fixes.push_back(change(*n->second));
    }
    return f;
  }

  static std::string stays(const UnfoldedNorm& n) {
    return "BatchNorm '" + n.node + "' was not folded" + (n.why.empty() ? "" : " (" + n.why + ")");
  }
  static Fix change(const UnfoldedNorm& n) {
    Fix fix;
    fix.why = n.change;
    return fix;
  }

  // BatchNorms that were not folded and cost no accuracy worth a finding: one for all of them.
  std::optional<Finding> harmless_norms(const std::vector<Finding>& findings) const {
    std::vector<const UnfoldedNorm*> rest;
    for (const UnfoldedNorm& n : options_.unfolded)
      if (std::none_of(findings.begin(), findings.end(),
                       [&](const Finding& f) { return f.layer == n.tensor; }))
        rest.push_back(&n);
    if (rest.empty()) return std::nullopt;
    Finding f;
    f.layer = rest[0]->tensor;
    f.cause.kind = CauseKind::unfolded_batch_norm;
    f.cause.text = stays(*rest[0]) + ": it costs a pass over its tensor, but hardly accuracy";
    if (rest.size() > 1)
      f.cause.text += "; so do " + std::to_string(rest.size() - 1) +
                      (rest.size() == 2 ? " other" : " others") +
                      " (`fold8 inspect --why` names the reason of each)";
    for (std::size_t i = 1; i < rest.size(); ++i) f.also.push_back(rest[i]->tensor);
    f.fixes.push_back(change(*rest[0]));
    return f;
  }

  // What an output's own SQNR may hide: a small part of it, lost beside a large one.
  std::vector<Finding> lost_parts() const {
    std::vector<Finding> findings;
    for (std::size_t i = 0; i < facts_.roundings.size(); ++i) {
      const RoundingFacts& r = facts_.roundings[i];
      if (!r.where.is_output) continue;
      auto cause = mixed_ranges(r);
      if (!cause) continue;
      Problem p;
      p.rounding = i;
      Finding f;
      f.layer = f.tensor = r.where.tensor;
      for (const RoundingReader& reader : r.where.readers) f.also.push_back(reader.layer);
      f.cause = std::move(*cause);
      f.fixes = fixes_for(p, f.cause, situation_);
      findings.push_back(std::move(f));
    }
    return findings;
  }

  const Comparison& comparison_;
  const ModelFacts& facts_;
  const ConcludeOptions& options_;
  Situation situation_;
  std::map<std::string, const LayerSensitivity*> sensitivity_;
  std::map<std::string, const LayerError*> errors_;
  std::map<std::string, const UnfoldedNorm*> unfolded_;  // by tensor
  std::optional<double> worst_db_;
  std::size_t worst_ = 0;
  std::map<std::size_t, std::vector<Charge>> roundings_;
  std::map<const LayerFacts*, double> weights_, itself_;
};

}  // namespace

const char* name(CauseKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::vector<Finding> conclude(const Comparison& comparison, const ModelFacts& facts,
                              const std::vector<LayerSensitivity>& sensitivity,
                              const ConcludeOptions& options) {
  return Concluder(comparison, facts, sensitivity, options).run();
}

}  // namespace fold8::quant
