#include "quant/rounding_facts.h"

#include <algorithm>
#include <cmath>

#include "runtime/kernels/math_double.h"

namespace fold8::quant {
namespace {

constexpr std::size_t kMostChannels = 1 << 16, kWorstSamples = 3;

struct Codes {
  double lo, hi;
};
Codes codes_of(bool s8) { return s8 ? Codes{-128, 127} : Codes{0, 255}; }

// The code of x, and whether it had to be clipped by more than half a step.
struct Coded {
  double code;
  bool clipped;
};
Coded coded(double x, double scale, double zero_point, Codes c) {
  const double exact = x / scale + zero_point;
  return {std::clamp(std::rint(exact), c.lo, c.hi), exact < c.lo - 0.5 || exact > c.hi + 0.5};
}

double largest(std::span<const float> values) {
  double m = 0;
  for (const float v : values) m = std::max(m, std::abs(static_cast<double>(v)));
  return m;
}

std::size_t row_length(const Shape& shape, std::size_t n) {
  const auto last = shape.rank() > 0
                        ? static_cast<std::size_t>(std::max<std::int64_t>(shape.back().value(), 1))
                        : 1;
  return std::max<std::size_t>(1, std::min(last, n));
}

constexpr double kTokenSteps = 127, kSmallestScale = 0x1p-126;

}  // namespace

void Magnitudes::add(double v) {
  if (!(v > 0)) v = 0;
  max_ = std::max(max_, v);
  ++count_;
  int exponent = kLowest;
  double mantissa = 0.5;
  if (v > 0) mantissa = std::frexp(v, &exponent);  // v = mantissa * 2^exponent, 0.5 <= mantissa < 1
  exponent = std::clamp(exponent, kLowest, kHighest - 1);
  const int step = std::clamp(static_cast<int>((mantissa - 0.5) * 2 * kSteps), 0, kSteps - 1);
  ++bins_[static_cast<std::size_t>((exponent - kLowest) * kSteps + step)];
}

double Magnitudes::median() const {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < bins_.size(); ++i) {
    seen += bins_[i];
    if (seen * 2 < count_ || seen == 0) continue;
    const int exponent = static_cast<int>(i) / kSteps + kLowest,
              step = static_cast<int>(i) % kSteps;
    return std::ldexp(0.5 + 0.5 * step / kSteps, exponent);
  }
  return 0;
}

std::optional<double> Powers::sqnr_db() const {
  if (!(energy > 0) || !(error > 0)) return std::nullopt;
  return 10 * kernels::log_f64(energy / error) / kernels::log_f64(10);
}

std::size_t RoundingFacts::codes_used() const {
  return static_cast<std::size_t>(std::count(codes.begin(), codes.end(), true));
}
double RoundingFacts::lowest() const {
  const double lo = codes_of(where.s8).lo;
  return (lo - where.params.zero_point()) * static_cast<double>(where.params.scale());
}
double RoundingFacts::highest() const {
  return lowest() + 255 * static_cast<double>(where.params.scale());
}

void to_stored(const Rounding& where, const Shape& shape, std::span<float> values) {
  const auto each = [&](int axis, std::size_t extents, const auto& change) {
    if (extents == 0 || axis < 0 || axis >= shape.rank()) return;
    const auto inner = static_cast<std::size_t>(shape.count(axis + 1, shape.rank()));
    for (std::size_t i = 0; i < values.size(); ++i) change(values[i], i / inner % extents);
  };
  each(where.affine_axis, where.affine_scale.size(), [&](float& x, std::size_t c) {
    x = std::fma(x, where.affine_scale[c], where.affine_shift[c]);
  });
  each(where.rescale_axis, where.rescale.size(),
       [&](float& x, std::size_t c) { x /= where.rescale[c]; });
}

void round_values(const Rounding& where, const Shape& shape, std::span<float> values) {
  const QuantParams& params = where.params;
  const std::size_t row = row_length(shape, values.size());
  if (params.granularity() != Granularity::per_token) {
    const double scale = static_cast<double>(params.scale());
    for (float& x : values) {
      const double code =
          coded(static_cast<double>(x), scale, params.zero_point(), codes_of(where.s8)).code;
      x = static_cast<float>((code - params.zero_point()) * scale);
    }
    return;
  }
  for (std::size_t at = 0; at < values.size(); at += row) {
    const auto part = values.subspan(at, std::min(row, values.size() - at));
    const double scale = std::max(largest(part) / kTokenSteps, kSmallestScale);
    for (float& x : part) x = static_cast<float>(std::rint(static_cast<double>(x) / scale) * scale);
  }
}

void RoundingFacts::add(std::span<const float> values, const Shape& shape, std::size_t sample) {
  if (values.empty()) return;
  const std::size_t row = row_length(shape, values.size());
  std::vector<float> rounded(values.begin(), values.end());
  round_values(where, shape, rounded);
  const bool has_channels = where.channel_axis >= 0 && where.channel_axis < shape.rank() &&
                            shape.extent(where.channel_axis) > 0;
  const std::size_t channels =
      has_channels ? static_cast<std::size_t>(shape.extent(where.channel_axis)) : 1;
  const std::size_t inner =
      has_channels ? static_cast<std::size_t>(shape.count(where.channel_axis + 1, shape.rank()))
                   : 1;
  if (seen.empty() && channels <= kMostChannels) {
    channel_max.assign(channels, 0);
    channel_powers.assign(channels, {});
  } else if (channels != channel_max.size()) {
    channel_max.clear();
    channel_powers.clear();
  }
  const bool static_codes = !per_token();
  if (static_codes) codes.resize(256);
  std::uint64_t clipped_now = 0;
  const double scale = static_codes ? static_cast<double>(where.params.scale()) : 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(values[i]), e = static_cast<double>(rounded[i]) - x;
    powers.energy += x * x;
    powers.error += e * e;
    if (static_codes) {
      const Coded c = coded(x, scale, where.params.zero_point(), codes_of(where.s8));
      codes[static_cast<std::size_t>(c.code - codes_of(where.s8).lo)] = true;
      if (c.clipped) {
        ++clipped_now;
        clip_error += e * e;
      }
    }
    if (channel_max.empty()) continue;
    const std::size_t c = i / inner % channels;
    channel_max[c] = std::max(channel_max[c], std::abs(values[i]));
    channel_powers[c].energy += x * x;
    channel_powers[c].error += e * e;
  }
  seen.add(values);
  clipped += clipped_now;
  if (clipped_now > 0) {
    clipped_samples.push_back(
        {sample, static_cast<double>(clipped_now) / static_cast<double>(values.size())});
    std::stable_sort(clipped_samples.begin(), clipped_samples.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    if (clipped_samples.size() > kWorstSamples) clipped_samples.resize(kWorstSamples);
  }
  const double most = largest(values);
  if (most > samples.max()) widest_sample = sample;
  samples.add(most);
  for (std::size_t at = 0; at < values.size(); at += row) {
    const auto part = values.subspan(at, std::min(row, values.size() - at));
    const double m = largest(part), step = m / kTokenSteps;
    rows.add(m);
    token_error += static_cast<double>(part.size()) * step * step / 12;
  }
}

void RoundingFacts::add_part(std::size_t part, std::span<const float> values) {
  if (part >= parts.size() || per_token()) return;
  std::vector<float> rounded(values.begin(), values.end());
  round_values(where, Shape{}, rounded);
  PartFacts& p = parts[part];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(values[i]), e = static_cast<double>(rounded[i]) - x;
    p.powers.energy += x * x;
    p.powers.error += e * e;
    p.max_abs = std::max(p.max_abs, std::abs(values[i]));
  }
}

}  // namespace fold8::quant
