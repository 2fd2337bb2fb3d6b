#include "quant/causes_of.h"

#include <algorithm>
#include <cmath>

#include "quant/cause_text.h"
#include "quant/channel_words.h"
#include "quant/choose_params.h"

namespace fold8::quant {
namespace {

constexpr double kScaleOff = 4;          // times: a scale that was meant for other data
constexpr double kMostlyClipping = 0.5;  // of the squared error
constexpr double kMixedRanges = 16, kLostPartDb = 20;
constexpr double kOutlierChannel = 8;  // largest over median magnitude
constexpr double kOutlierSample = 4, kUnevenTokens = 16;
constexpr double kDeadChannel = 8;  // median magnitude over the channel's
constexpr double kLostChannelDb = 15, kWeightyChannels = 0.05;  // of the layer's result
constexpr std::size_t kFewCodes = 32;
constexpr double kDrownedRows = 0.02;

std::string tensor_of(const RoundingFacts& r) { return "'" + r.where.tensor + "'"; }

std::string range_text(double lo, double hi) {
  return short_number(lo) + " to " + short_number(hi);
}

std::string clipped_text(const RoundingFacts& r) {
  std::string text = percent(static_cast<double>(r.clipped) / static_cast<double>(r.count())) +
                     " of its values are clipped";
  if (r.clipped_samples.empty()) return text;
  text += ", most in sample " + std::to_string(r.clipped_samples[0].first) + " (" +
          percent(r.clipped_samples[0].second) + ")";
  return text;
}

std::vector<std::size_t> samples_of(const RoundingFacts& r) {
  std::vector<std::size_t> samples;
  for (const auto& [sample, share] : r.clipped_samples) samples.push_back(sample);
  return samples;
}

std::optional<Cause> wrong_scale(const RoundingFacts& r) {
  if (r.per_token() || r.count() == 0) return std::nullopt;
  const double ratio = wanted_scale_ratio(r);
  const std::string codes =
      "the codes of " + tensor_of(r) + " reach from " + range_text(r.lowest(), r.highest()) +
      ", the samples from " +
      range_text(static_cast<double>(r.seen.min()), static_cast<double>(r.seen.max()));
  const bool clips = r.clip_error > kMostlyClipping * r.powers.error && r.clipped > 0;
  Cause c;
  c.samples = samples_of(r);
  if (clips && ratio >= kScaleOff) {
    c.kind = CauseKind::scale_too_small;
    c.text = codes + ": its scale is " + times(ratio) + " too small for them; " + clipped_text(r);
    return c;
  }
  if (clips) {
    c.kind = CauseKind::clipped;
    c.text = codes + ": " + clipped_text(r) + ", which makes up " +
             percent(r.clip_error / r.powers.error) + " of its rounding error";
    return c;
  }
  if (ratio > 0 && ratio <= 1 / kScaleOff) {
    c.kind = CauseKind::scale_too_large;
    c.samples.clear();
    c.text = codes + ": its scale is " + times(1 / ratio) + " too large for them, only " +
             std::to_string(r.codes_used()) +
             " of 256 codes are used; it was calibrated on other data, or data preprocessed "
             "otherwise";
    return c;
  }
  return std::nullopt;
}

std::optional<Cause> outlier_channel(const RoundingFacts& r) {
  const std::vector<double> magnitude = as_doubles(r.channel_max);
  const auto found = outliers(magnitude, kOutlierChannel);
  if (found.empty()) return std::nullopt;
  const double middle = median(magnitude);
  Cause c;
  c.kind = CauseKind::outlier_channel;
  c.channels = found;
  c.text = channel_list(found) + " of " + tensor_of(r) + " reach" +
           (found.size() == 1 ? "es " : " ") + short_number(magnitude[found[0]]) + ", " +
           times(magnitude[found[0]] / middle) + " the median of its " +
           std::to_string(magnitude.size()) + " channels (" + short_number(middle) + "), and " +
           (r.per_token() ? "each row's scale" : "the one scale") + " must hold them";
  return c;
}

std::optional<Cause> outlier_sample(const RoundingFacts& r) {
  const double middle = r.samples.median(), most = r.samples.max();
  if (r.per_token() || r.samples.count() < 4 || !(middle > 0) || most < kOutlierSample * middle)
    return std::nullopt;
  Cause c;
  c.kind = CauseKind::outlier_sample;
  c.samples = {r.widest_sample};
  c.text = "sample " + std::to_string(r.widest_sample) + " takes " + tensor_of(r) + " to " +
           short_number(most) + ", half of the samples stay below " + short_number(middle * 1.19) +
           ", and one scale serves all";
  return c;
}

std::optional<Cause> uneven_tokens(const RoundingFacts& r) {
  const double middle = r.rows.median(), most = r.rows.max();
  // Rows of pictures are no tokens.
  if (r.per_token() || !r.where.to_matrix || r.rows.count() < 8 || !(middle > 0) ||
      most < kUnevenTokens * middle || r.token_error * 4 > r.powers.error)
    return std::nullopt;
  Cause c;
  c.kind = CauseKind::uneven_tokens;
  c.text = "rows (tokens) of " + tensor_of(r) + " reach from about " + short_number(middle) +
           " (median) to " + short_number(most) +
           ", and one static scale serves all: a scale for each would err " +
           times(std::sqrt(r.powers.error / r.token_error)) + " less";
  return c;
}

// Channels that rounding loses, though their layer's result depends on them.
std::optional<Cause> dead_channel(const RoundingFacts& r, const ModelFacts& facts) {
  for (const RoundingReader& reader : r.where.readers) {
    const LayerFacts* layer = facts.find(reader.layer);
    if (layer == nullptr || !layer->weights || reader.operand != 0 ||
        layer->weights->inputs != r.channel_powers.size())
      continue;
    const double middle = median(as_doubles(r.channel_max));
    double result = 0, lost = 0;
    Cause c;
    for (std::size_t k = 0; k < r.channel_powers.size(); ++k) {
      const Powers& p = r.channel_powers[k];
      const double part = p.energy * layer->weights->input_power[k];
      result += part;
      const auto db = p.sqnr_db();
      if (!db || *db > kLostChannelDb ||
          static_cast<double>(r.channel_max[k]) * kDeadChannel > middle)
        continue;
      lost += part;
      c.channels.push_back(k);
    }
    if (c.channels.empty() || lost < kWeightyChannels * result) continue;
    std::stable_sort(c.channels.begin(), c.channels.end(), [&](std::size_t a, std::size_t b) {
      return r.channel_powers[a].energy * layer->weights->input_power[a] >
             r.channel_powers[b].energy * layer->weights->input_power[b];
    });
    const double top = static_cast<double>(r.channel_max[c.channels[0]]);
    c.kind = CauseKind::dead_channel;
    c.text = channel_list(c.channels) + " of " + tensor_of(r) + " hardly live" +
             (c.channels.size() == 1 ? "s" : "") + " (up to " + short_number(top) +
             ", the median channel to " + short_number(middle) + ") and vanish" +
             (c.channels.size() == 1 ? "es" : "") + " in the step of the rest, but make" +
             (c.channels.size() == 1 ? "s" : "") + " up " + percent(lost / result) +
             " of the layer's result";
    return c;
  }
  return std::nullopt;
}

std::optional<Cause> flat_rows(const RoundingFacts& r, const ModelFacts& facts) {
  for (const RoundingReader& reader : r.where.readers) {
    const LayerFacts* layer = facts.find(reader.layer);
    if (layer == nullptr || !layer->norm || layer->norm->variances.count() == 0) continue;
    const NormFacts& n = *layer->norm;
    const double share = static_cast<double>(n.drowned) / static_cast<double>(n.variances.count());
    if (share < kDrownedRows) continue;
    Cause c;
    c.kind = CauseKind::flat_rows;
    c.text = "the norm that reads " + tensor_of(r) + " divides by the deviation of each row; in " +
             percent(share) + " of them the variance is below four times that of the rounding (" +
             short_number(n.noise) + "; median row " + short_number(n.variances.median()) + ")";
    return c;
  }
  return std::nullopt;
}

Cause plain_rounding(const RoundingFacts& r) {
  Cause c;
  const auto db = r.powers.sqnr_db();
  c.text = "nothing stands out in " + tensor_of(r) + ": " +
           (r.per_token() ? "a scale for each row" : "one scale") + " in 8 bits keeps " +
           (db ? short_number(*db) + " dB of it" : "all of it") + ", which is little here";
  return c;
}

}  // namespace

double wanted_scale_ratio(const RoundingFacts& r) {
  if (r.seen.empty() || r.per_token()) return 1;
  const QuantParams wanted = activation_params(choose_range(r.seen, Method::automatic));
  if (r.seen.min() == 0 && r.seen.max() == 0) return 1;
  return static_cast<double>(wanted.scale()) / static_cast<double>(r.where.params.scale());
}

std::optional<Cause> mixed_ranges(const RoundingFacts& r) {
  if (r.parts.size() < 2 || r.per_token()) return std::nullopt;
  const PartFacts *widest = &r.parts[0], *lost = nullptr;
  for (const PartFacts& p : r.parts)
    if (p.max_abs > widest->max_abs) widest = &p;
  for (const PartFacts& p : r.parts) {
    const auto db = p.powers.sqnr_db();
    if (db && *db < kLostPartDb &&
        static_cast<double>(p.max_abs) * kMixedRanges < static_cast<double>(widest->max_abs) &&
        (lost == nullptr || *db < *lost->powers.sqnr_db()))
      lost = &p;
  }
  if (lost == nullptr) return std::nullopt;
  Cause c;
  c.kind = CauseKind::mixed_ranges;
  c.text = tensor_of(r) + " puts '" + widest->name + "' (up to " +
           short_number(static_cast<double>(widest->max_abs)) + ") and '" + lost->name +
           "' (up to " + short_number(static_cast<double>(lost->max_abs)) +
           ") into one tensor with one scale (" +
           short_number(static_cast<double>(r.where.params.scale())) + "), which keeps " +
           short_number(*lost->powers.sqnr_db()) + " dB of the latter";
  return c;
}

Cause cause_of_rounding(const RoundingFacts& r, const ModelFacts& facts) {
  if (auto c = mixed_ranges(r)) return *c;
  if (auto c = wrong_scale(r)) return *c;
  if (auto c = outlier_channel(r)) return *c;
  if (auto c = dead_channel(r, facts)) return *c;
  if (auto c = flat_rows(r, facts)) return *c;
  if (auto c = uneven_tokens(r)) return *c;
  if (auto c = outlier_sample(r)) return *c;
  if (!r.codes.empty() && r.codes_used() < kFewCodes && r.count() > 1024) {
    Cause c;
    c.kind = CauseKind::collapsed_codes;
    c.text = "the samples use " + std::to_string(r.codes_used()) + " of 256 codes of " +
             tensor_of(r) + ": most of its values lie within few steps of " +
             short_number(static_cast<double>(r.where.params.scale()));
    return c;
  }
  return plain_rounding(r);
}

}  // namespace fold8::quant
