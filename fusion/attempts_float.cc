// The last remedy of Attempts: where INT8 stays poor on the samples, the few layers stay float that
// cost the outputs most for what they multiply. Typical are depthwise convolutions behind an
// activation that no factor passes (HardSwish, SiLU): one scale serves channels whose sizes differ
// a hundredfold, nothing can be moved into the layers around, and the layer itself has one
// multiply-add in a hundred.
#include <algorithm>

#include "fusion/attempts.h"
#include "fusion/candidate_score.h"
#include "fusion/rank_layers.h"
#include "fusion/text.h"
#include "runtime/kernels/math_double.h"

namespace fold8::fusion {
namespace {

constexpr std::size_t kTries = 6;
constexpr std::size_t kLeastRankSamples = 2;
constexpr double kLeastGainDb = 1.5;       // float layers are slower: they have to pay
constexpr double kConversionShare = 0.01;  // of all multiply-adds
constexpr double kLeastMissDb = 0.5;       // of the next guess

std::size_t samples_to_rank_on(const FloatOutputs& kept) {
  if (kept.samples.empty()) return kLeastRankSamples;
  return rank_samples(kept.bytes / kept.samples.size() / sizeof(float), kLeastRankSamples);
}

// Of all multiply-adds, those of the first k of `order`.
double share_of(const std::vector<FloatChoice>& choices, const std::vector<std::size_t>& order,
                std::size_t k) {
  double all = 0, left = 0;
  for (const FloatChoice& c : choices) all += c.macs;
  for (std::size_t i = 0; i < k; ++i) left += choices[order[i]].macs;
  return all > 0 ? left / all : 0;
}

// Most noise per cost first. A float layer between INT8 ones also costs their conversion: a flat
// part, so that few layers are left float rather than many small ones.
std::vector<std::size_t> by_noise_and_cost(const std::vector<FloatChoice>& choices,
                                           const std::vector<double>& noise) {
  double flat = 0;
  for (const FloatChoice& c : choices) flat += kConversionShare * c.macs;
  std::vector<std::size_t> order = ranking(choices, noise);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return noise[a] / (choices[a].macs + flat) > noise[b] / (choices[b].macs + flat);
  });
  return order;
}

// How many of `order` stay within this share.
std::size_t affordable(const std::vector<FloatChoice>& choices,
                       const std::vector<std::size_t>& order, double share) {
  std::size_t k = 0;
  while (k < order.size() && share_of(choices, order, k + 1) <= share) ++k;
  return k;
}

// The fewest, more than k, that make up for `severity` (error over what is allowed) if errors add
// up as they do alone.
std::size_t enough(const std::vector<double>& noise, const std::vector<std::size_t>& order,
                   std::size_t k, double severity) {
  double rest = 0;
  for (std::size_t i = k; i < order.size(); ++i) rest += noise[order[i]];
  const double allowed = rest / severity;
  std::size_t next = k;
  while (next < order.size() && rest > allowed) rest -= noise[order[next++]];
  return std::max(next, k + 1);
}

}  // namespace

// Noise of each choice, and what would be left float first.
Result<std::vector<double>> Attempts::layer_noises(const Base& base,
                                                   std::shared_ptr<const exec::Model> model,
                                                   const std::vector<FloatChoice>& choices) {
  const StageLog::Clock clock(log_, "rank layers");
  QuantizeOptions o = chosen_;
  o.calibration = base.table ? &*base.table : nullptr;
  RankOptions how;
  how.judged = judged_tensors(model->graph(), false);
  how.samples = samples_to_rank_on(*base.outputs);
  how.threads = options_.threads;
  how.progress = [this](std::size_t done, std::size_t total) {
    log_.progress("rank layers", done, total);
  };
  return noises(base.graph, std::move(model), o, choices, *samples_, how);
}

Status Attempts::try_float_layers(const Base& base, Attempt& best) {
  if (options_.most_float_share <= 0 || !best.score.worst_sqnr_db) return ok_status();
  // Where only near ties change their class, a slower model would not be worth it.
  if (*best.score.worst_sqnr_db >= options_.poor_sqnr_db) return ok_status();
  FOLD8_TRY(auto model, float_model(base));
  FOLD8_TRY(const auto choices, float_choices(base.graph, model, *samples_, chosen_));
  FOLD8_TRY(const auto noise, layer_noises(base, std::move(model), choices));
  const auto order = by_noise_and_cost(choices, noise);
  const std::size_t most = affordable(choices, order, options_.most_float_share);
  const double before = *best.score.worst_sqnr_db;
  std::optional<Attempt> found;
  QuantizeOptions taken;
  std::size_t layers = 0;
  for (std::size_t i = 0, k = 0; i < kTries && k < most; ++i) {
    const double db = (found ? found->score : best.score).worst_sqnr_db.value_or(before);
    const double short_of = std::max(options_.poor_sqnr_db - db, kLeastMissDb);
    k = std::min(enough(noise, order, k, energy_ratio(short_of)), most);
    QuantizeOptions o = chosen_;
    for (std::size_t j = 0; j < k; ++j)
      o.also_float.emplace(choices[order[j]].name,
                           "a remedy: alone in INT8 it leaves the outputs " +
                               decibels(-10 * kernels::log10_f64(noise[order[j]])));
    FOLD8_TRY(Attempt a, attempt(base, o, best.remedy));
    const bool done = !is_poor(a);
    if (better(a, found ? *found : best)) {
      found = std::move(a);
      taken = std::move(o);
      layers = k;
    }
    if (done) break;
  }
  if (!found || gain(*found, best) < kLeastGainDb) return ok_status();
  summary_.warnings.push_back(
      "INT8 was poor (" + decibels(before) + "); remedy taken: " + std::to_string(layers) +
      (layers == 1 ? " layer" : " layers") + " left float, " +
      percent(share_of(choices, order, layers)) + " of the multiply-adds, now " +
      decibels(found->score.worst_sqnr_db.value_or(0)) + " (--no-search leaves them in INT8)");
  best = *std::move(found);
  chosen_ = std::move(taken);
  return ok_status();
}

}  // namespace fold8::fusion
