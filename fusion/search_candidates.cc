// One candidate of a search: its options, its key, its score.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "fusion/pipeline.h"
#include "fusion/search.h"
#include "fusion/text.h"
#include "quant/statistics.h"
#include "runtime/format/f8.h"
#include "runtime/format/layout.h"
#include "runtime/kernels/math_double.h"

namespace fold8::fusion {
namespace {

// A score can change from one version of these to the next: a log of before must not be believed.
constexpr const char* kKeyVersion = "fold8 search 2";
constexpr std::size_t kFirstShare = 4;    // one in so many samples is scored first, and at least
constexpr std::size_t kFirstSamples = 4;  // so many
constexpr double kHopeless = 3;           // times the error that is allowed: no further samples

// Bytes whose checksum names them.
class Key {
 public:
  Key& add(std::string_view text) {
    number(text.size());
    bytes_.append(text);
    return *this;
  }
  Key& number(std::uint64_t n) { return raw(&n, sizeof n); }
  Key& number(double d) { return raw(&d, sizeof d); }
  Key& raw(const void* data, std::size_t bytes) {
    bytes_.append(static_cast<const char*>(data), bytes);
    return *this;
  }
  std::string text() const {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx",
                  static_cast<unsigned long long>(format::checksum(bytes_.data(), bytes_.size())));
    return digits;
  }

 private:
  std::string bytes_;
};

void add_names(const auto& names, Key& key) {
  key.number(std::uint64_t{names.size()});
  for (const std::string& name : names) key.add(name);
}

// Every field that can change what is emitted, each list with its length. A field that joins
// QuantizeOptions joins here (`calibration` is part of the origin's key, `cache` changes nothing,
// and why a layer is left float is for people); of ConvertOptions what acts on the network, the
// ranges or the chosen QuantizeOptions is seen in these, the rest is in the origin's key.
void add_options(const QuantizeOptions& o, Key& key) {
  for (int e :
       {static_cast<int>(o.method), static_cast<int>(o.activations), static_cast<int>(o.streams),
        static_cast<int>(o.attention), static_cast<int>(o.weights)})
    key.number(static_cast<std::uint64_t>(e));
  key.number(o.percentile).number(static_cast<std::uint64_t>(o.weight_group));
  add_names(o.keep_float, key);
  key.number(std::uint64_t{o.also_float.size()});
  for (const auto& [name, why] : o.also_float) key.add(name);
  add_names(o.static_inputs, key);
  add_names(o.rotated_inputs, key);
  key.number(std::uint64_t{o.rounded ? o.rounded->size() : 0});
  if (o.rounded)
    for (const auto& [name, w] : *o.rounded) {
      key.add(name).number(std::uint64_t{w.codes.size()}).raw(w.codes.data(), w.codes.size());
      key.number(std::uint64_t{w.params.scales().size()});
      for (const float scale : w.params.scales()) key.number(static_cast<double>(scale));
    }
  key.number(std::uint64_t{o.bias_corrections.size()});
  for (const auto& [name, shift] : o.bias_corrections)
    key.add(name)
        .number(std::uint64_t{shift.size()})
        .raw(shift.data(), shift.size() * sizeof(double));
}

}  // namespace

Result<std::string> Search::key_of_samples(quant::SampleSource& samples) const {
  Key key;
  for (std::size_t i = 0; i < samples.count(); ++i) {
    FOLD8_TRY(const std::vector<Tensor> inputs, samples.sample(i));
    for (const Tensor& t : inputs)
      key.add(to_string(t.shape()))
          .number(std::uint64_t{format::checksum(t.view().data, t.view().bytes())});
  }
  return key.text();
}

QuantizeOptions Search::options_of(const Candidate& c) const {
  QuantizeOptions o = origins_[c.origin].options;
  o.bias_corrections = c.corrections;
  const std::vector<double>& noise = origins_[c.origin].noise;
  for (std::size_t i = 0; i < choices_.size(); ++i)
    if (c.left_float[i] && !choices_[i].fixed)
      o.also_float.emplace(
          choices_[i].name,
          "left float for the target" + (i < noise.size() && noise[i] > 0
                                             ? ": alone in INT8 it leaves the outputs " +
                                                   decibels(-10 * kernels::log10_f64(noise[i]))
                                             : std::string()));
  return o;
}

// What candidates of a source share beside their options: the float network (as options for
// smoothing, equalization, norms and preprocessing left it), the ranges (of the samples or of a
// file), and what chooses layers for speed.
Result<std::string> Search::key_of_source(const Source& source) const {
  Key key;
  FOLD8_TRY(const std::string network, format::to_bytes(source.float_model->graph()));
  key.add(network);
  const Attempts::Base& base = source.attempts.base();
  key.number(std::uint64_t{base.table.has_value()});
  if (base.table) {
    FOLD8_TRY(const std::string ranges, quant::to_bytes(quant::Statistics{0, *base.table}));
    key.add(ranges);
  }
  key.number(std::uint64_t{options_.cost_table != nullptr});
  if (options_.cost_table != nullptr) key.number(options_.cost_table->digest());
  key.number(std::uint64_t{base.shapes.size()});
  for (const auto& [name, shape] : base.shapes) key.add(name).add(to_string(shape));
  return key.text();
}

std::string Search::key_of_ranking(std::size_t origin) const {
  Key key;
  for (const FloatChoice& choice : choices_)
    key.add(choice.name).number(std::uint64_t{choice.fixed}).number(std::uint64_t{choice.imported});
  Candidate c;
  c.origin = origin;
  c.corrections = origins_[origin].options.bias_corrections;
  c.left_float.resize(choices_.size());
  return "noise " + key.add(key_of(c)).text();
}

std::string Search::key_of(const Candidate& c) const {
  Key key;
  key.add(kKeyVersion).add(origins_[c.origin].key).add(data_key_);
  add_names(search_.judged, key);
  key.number(std::uint64_t{target_.labels.size()});
  for (const std::int64_t label : target_.labels) key.number(static_cast<std::uint64_t>(label));
  add_options(options_of(c), key);
  return key.text();
}

double Search::cost_of(const Candidate& c, double& float_share) const {
  double all = 0, left = 0;
  const QuantizeOptions& o = origins_[c.origin].options;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    all += choices_[i].macs;
    const bool is_float = choices_[i].attention && o.attention == AttentionProducts::f32;
    if (c.left_float[i] || is_float) left += choices_[i].macs;
  }
  float_share = all > 0 ? left / all : 0;
  return float_share + (o.streams == Streams::f32 ? kStreamCost : 0) +
         (origins_[c.origin].float_tables ? kTableCost : 0);
}

// What is held against the target: the lowest of the bound over all samples, the value on those
// that nothing was fitted to, and the value less a margin.
double Search::severity_of(const Sums& s) const {
  const Sums held_out = first(s, search_.held_out);
  const auto counts = [&](std::optional<double> (*statistic)(const Sums&, std::size_t),
                          double (*less)(double)) {
    auto lowest = lower_bound(statistic, s);
    if (const auto value = statistic(s, kNone)) lowest = std::min(*lowest, less(*value));
    if (const auto seen = statistic(held_out, kNone)) lowest = std::min(*lowest, *seen);
    return lowest;
  };
  const auto db_less = [](double db) { return db - kMarginDb; };
  const auto cosine_less = [](double c) { return 1 - (1 - c) * energy_ratio(kMarginDb); };
  double most = 0;
  if (const auto db = target_.sqnr_db ? counts(sqnr_db, db_less) : std::nullopt)
    most = energy_ratio(*target_.sqnr_db - *db);
  if (const auto cos = target_.cosine ? counts(cosine, cosine_less) : std::nullopt)
    most = std::max(most, (1 - *cos) / std::max(1 - *target_.cosine, 1e-300));
  if (target_.accuracy_drop) {
    const double drop = accuracy_drop(s, !target_.labels.empty()).value_or(0);
    const double allowed = *target_.accuracy_drop;
    most = std::max(most, drop <= allowed ? 0.0 : allowed > 0 ? drop / allowed : 2.0);
  }
  return most;
}

// So far off on the first samples that the others need not be asked. Accuracy is too coarse there.
bool Search::hopeless(const Sums& s) const {
  const auto db = target_.sqnr_db ? sqnr_db(s) : std::nullopt;
  if (db && *db < *target_.sqnr_db - 10 * kernels::log10_f64(kHopeless)) return true;
  const auto cos = target_.cosine ? cosine(s) : std::nullopt;
  return cos && 1 - *cos > kHopeless * (1 - *target_.cosine);
}

void Search::describe(const Candidate& c, SearchStep& step) const {
  const auto finite = [](std::optional<double> v) {
    return v && std::isfinite(*v) ? v : std::nullopt;
  };
  step.cost = cost_of(c, step.float_share);
  step.float_layers =
      static_cast<std::size_t>(std::count(c.left_float.begin(), c.left_float.end(), true));
  step.samples = c.sums.size();
  step.sqnr_db = finite(sqnr_db(c.sums));
  step.sqnr_low_db = finite(lower_bound(sqnr_db, c.sums));
  step.cosine = finite(cosine(c.sums));
  step.cosine_low = finite(lower_bound(cosine, c.sums));
  step.accuracy_drop = accuracy_drop(c.sums, !target_.labels.empty());
  step.meets = c.severity <= 1;
  step.what = origins_[c.origin].what;
}

Result<Attempt> Search::emit(const Candidate& c) {
  Source& source = *origins_[c.origin].source;
  return source.attempts.emit(source.attempts.base(), options_of(c), "");
}

// Of samples [from, to): remembered, or scored. `emitted` is made when it is needed.
Result<Sums> Search::sums(const Candidate& c, std::size_t from, std::size_t to,
                          std::optional<graph::Graph>& emitted, SearchStep& step) {
  const std::string key = c.key + ":" + std::to_string(from) + "-" + std::to_string(to);
  if (options_.memory != nullptr)
    if (const auto* values = options_.memory->find(key))
      if (auto known = sums_of(*values, scorer_->outputs()); known && known->size() == to - from)
        return *std::move(known);
  step.remembered = false;
  if (!emitted) {
    FOLD8_TRY(Attempt a, emit(c));
    emitted = std::move(a.graph);
  }
  FOLD8_TRY(Sums scored, scorer_->score(*emitted, from, to));
  if (options_.memory != nullptr) {
    double share = 0;
    cost_of(c, share);
    options_.memory->add(key, origins_[c.origin].what + ", float " + std::to_string(share),
                         flat(scored));
  }
  return scored;
}

Status Search::score(Candidate& c) {
  const StageLog::Clock clock(log_, "search");
  c.key = key_of(c);
  if (const auto known = scored_.find(c.key); known != scored_.end()) {
    const std::size_t origin = c.origin;
    c = known->second;
    c.origin = origin;
    return ok_status();
  }
  const std::size_t all = scorer_->samples();
  const std::size_t first = std::min(all, std::max(kFirstSamples, all / kFirstShare));
  std::optional<graph::Graph> emitted;
  SearchStep step;
  step.remembered = true;
  FOLD8_TRY(c.sums, sums(c, 0, first, emitted, step));
  if (first < all && !hopeless(c.sums)) {
    FOLD8_TRY(Sums rest, sums(c, first, all, emitted, step));
    c.sums.insert(c.sums.end(), rest.begin(), rest.end());
  }
  if (target_.accuracy_drop && !accuracy_drop(c.sums, !target_.labels.empty()))
    return invalid_argument(
        "a target for accuracy needs an output of class scores, [samples, classes]");
  if (c.sums.size() == all && elements_of(c.sums) == 0)
    return invalid_argument(
        "a target needs something to judge by, and no output has an element that can be compared: "
        "all are empty, or of other shapes in INT8, in every sample; give samples that are not "
        "empty");
  c.severity = severity_of(c.sums);
  if (c.sums.size() < all) c.severity = std::max(c.severity, kHopeless);
  describe(c, step);
  c.cost = step.cost;
  c.step = search_.steps.size();
  ++(step.remembered ? search_.remembered : search_.scored);
  search_.steps.push_back(std::move(step));
  log_.progress("search", search_.steps.size(), 0);
  scored_.emplace(c.key, c);
  keep(c);
  return ok_status();
}

// The cheapest one that meets the target; of equally cheap ones the more accurate.
void Search::keep(const Candidate& c) {
  if (!most_accurate_ || c.severity < most_accurate_->severity) most_accurate_ = c;
  if (c.severity > 1) return;
  if (!cheapest_ || c.cost < cheapest_->cost ||
      (c.cost == cheapest_->cost && c.severity < cheapest_->severity))
    cheapest_ = c;
}

Result<Search::Candidate> Search::all_int8(std::size_t origin) {
  Candidate c;
  c.origin = origin;
  c.corrections = origins_[origin].options.bias_corrections;
  for (const FloatChoice& choice : choices_)
    c.left_float.push_back(choice.fixed && !choice.imported);
  FOLD8_CHECK_OK(score(c));
  return c;
}

Result<Search::Candidate> Search::with_prefix(const Candidate& like, const Order& order,
                                              std::size_t k) {
  Candidate c = like;
  for (std::size_t i = 0; i < order.size(); ++i) c.left_float[order[i]] = i < k;
  FOLD8_CHECK_OK(score(c));
  return c;
}

}  // namespace fold8::fusion
