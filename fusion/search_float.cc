// How many layers a search leaves float, and which.
#include <algorithm>
#include <cmath>

#include "fusion/search.h"

namespace fold8::fusion {
namespace {

constexpr std::size_t kLeastRankSamples = 4;
constexpr std::size_t kMostBisections = 12;
constexpr std::size_t kMostTakenBack = 16;  // layers that are tried in INT8 again
constexpr double kLeastSaved =
    0.01;  // share of the multiply-adds, for a layer to be tried in INT8 again

}  // namespace

Status Search::rank(std::size_t origin) {
  Origin& o = origins_[origin];
  if (!o.noise.empty()) return ok_status();
  const StageLog::Clock clock(log_, "rank layers");
  const Attempts::Base& base = o.source->attempts.base();
  const std::string key = key_of_ranking(origin);
  if (options_.memory != nullptr)
    if (const auto* values = options_.memory->find(key);
        values && values->size() == choices_.size()) {
      o.noise = *values;
      return ok_status();
    }
  QuantizeOptions options = o.options;
  options.calibration = base.table ? &*base.table : nullptr;
  RankOptions how;
  how.judged = search_.judged;
  FOLD8_TRY(const std::size_t numbers, scorer_->numbers());
  how.samples = rank_samples(numbers, kLeastRankSamples);
  how.threads = options_.threads;
  FOLD8_TRY(o.noise, noises(base.graph, o.source->float_model, options, choices_,
                            samples_.calibration, how));
  if (options_.memory != nullptr)
    options_.memory->add(key, o.what + ": error of each layer alone", o.noise);
  return ok_status();
}

// How many layers of the ranking make the target hold, if errors add up as they do alone.
std::size_t Search::predicted(const Candidate& from, std::size_t k, const Order& order) const {
  const std::vector<double>& noise = origins_[from.origin].noise;
  double rest = 0;
  for (std::size_t i = k; i < order.size(); ++i) rest += noise[order[i]];
  const double enough = rest / from.severity;
  while (k < order.size() && rest > enough) rest -= noise[order[k++]];
  return k;
}

// From none (which misses the target) to all but one layer; of `order` the fewest that meet it, or
// the last one tried if none does.
Result<Search::Candidate> Search::shortest_prefix(Candidate none, const Order& order) {
  const std::vector<double>& noise = origins_[none.origin].noise;
  std::size_t low = 0, high = order.size();  // low misses; high meets, or is one too many
  Candidate at_low = none;
  std::optional<Candidate> at_high;
  for (std::size_t i = 0; i < kMostBisections && high - low > 1; ++i) {
    std::size_t k = predicted(at_low, low, order);
    if (at_high && i % 2 == 1) k = (low + high) / 2;  // should predictions creep
    k = std::clamp(k, low + 1, high - 1);
    FOLD8_TRY(Candidate c, with_prefix(none, order, k));
    if (c.severity <= 1) {
      high = k;
      at_high = std::move(c);
    } else {
      low = k;
      at_low = std::move(c);
    }
  }
  if (at_high) return *std::move(at_high);
  // The ranking is by what a layer saves. Its last one may be a large layer: the quietest one in
  // INT8 is the most that can be done for accuracy.
  const auto quietest = std::min_element(order.begin(), order.end(),
                                         [&](auto a, auto b) { return noise[a] < noise[b]; });
  if (quietest == order.end() || *quietest == order.back()) return at_low;
  Order last = order;
  last.erase(last.begin() + (quietest - order.begin()));
  last.push_back(*quietest);
  FOLD8_TRY(Candidate c, with_prefix(none, last, last.size() - 1));
  return c.severity < at_low.severity ? std::move(c) : std::move(at_low);
}

// Corrections of all layers in INT8 are not those of a few.
Status Search::correct_biases(Candidate& c) {
  if (c.corrections.empty()) return ok_status();
  Source& source = *origins_[c.origin].source;
  Candidate other = c;
  QuantizeOptions o = options_of(c);
  o.bias_corrections.clear();
  for (int round = 0; round < 2; ++round) {
    FOLD8_TRY(o.bias_corrections, source.attempts.bias_corrections(source.attempts.base(), o));
  }
  other.corrections = std::move(o.bias_corrections);
  FOLD8_CHECK_OK(score(other));
  if (other.severity < c.severity) c = std::move(other);
  return ok_status();
}

// Layers go back to INT8, the one with the most multiply-adds first, while the target holds: by
// what the layer costs alone, and as measured. By the measure alone chance would have its say, once
// for every layer that is tried.
Status Search::take_back(Candidate& c, const Order& order) {
  const std::vector<double>& noise = origins_[c.origin].noise;
  Order candidates;
  for (std::size_t i : order)
    if (c.left_float[i]) candidates.push_back(i);
  std::stable_sort(candidates.begin(), candidates.end(), [&](std::size_t a, std::size_t b) {
    return choices_[a].macs > choices_[b].macs;
  });
  double all = 0;
  for (const FloatChoice& choice : choices_) all += choice.macs;
  std::size_t tried = 0;
  for (std::size_t i : candidates) {
    if (choices_[i].macs < kLeastSaved * all) break;
    double rest = 0;
    for (std::size_t j = 0; j < choices_.size(); ++j)
      if (!c.left_float[j]) rest += noise[j];
    if (c.severity * (rest + noise[i]) > rest) continue;
    if (++tried > kMostTakenBack) break;
    Candidate less = c;
    less.left_float[i] = false;
    FOLD8_CHECK_OK(score(less));
    if (less.severity <= 1) c = std::move(less);
  }
  return ok_status();
}

Status Search::leave_layers_float(std::size_t origin) {
  FOLD8_TRY(Candidate none, all_int8(origin));
  if (none.severity <= 1) return ok_status();
  FOLD8_CHECK_OK(rank(origin));
  const Order order = ranking(choices_, origins_[origin].noise);
  FOLD8_TRY(Candidate c, shortest_prefix(std::move(none), order));
  FOLD8_CHECK_OK(correct_biases(c));
  if (c.severity <= 1) FOLD8_CHECK_OK(take_back(c, order));
  return ok_status();
}

}  // namespace fold8::fusion
