#include "quant/rounding_facts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "quant/wide.h"
#include "runtime/kernels/math_double.h"

namespace fold8::quant {
namespace {

constexpr std::size_t kMostChannels = 1 << 16, kWorstSamples = 3;

struct Codes {
  double lo, hi;
};
Codes codes_of(bool s8) { return s8 ? Codes{-128, 127} : Codes{0, 255}; }

// What one scale makes of up to kBlock values: their codes from the lowest on, whether they had to
// be clipped by more than half a step, and what the codes give back.
constexpr std::size_t kBlock = 1024;
struct Coded {
  std::array<std::uint8_t, kBlock> code;
  std::array<std::uint8_t, kBlock> clipped;
  std::array<float, kBlock> value;
};

// rint() of |x| < 2^51, in any vector: sums with 1.5 * 2^52 have no bits behind the point.
inline double nearest(double x) {
  constexpr double kToInteger = 0x1.8p52;
  return (x + kToInteger) - kToInteger;
}

// Clamped before it is rounded, which is the same where the bounds are integers.
void code_block(const float* x, std::size_t n, double scale, double zero_point, Codes c,
                Coded& out) {
  wide([&] {
    for (std::size_t i = 0; i < n; ++i) {
      const double exact = static_cast<double>(x[i]) / scale + zero_point;
      const double low = exact < c.lo ? c.lo : exact;
      const double code = nearest(low > c.hi ? c.hi : low);
      out.code[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(code - c.lo));
      out.clipped[i] = (exact < c.lo - 0.5 ? 1 : 0) | (exact > c.hi + 0.5 ? 1 : 0);
      out.value[i] = static_cast<float>((code - zero_point) * scale);
    }
  });
}

double largest(std::span<const float> values) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> most{};
  const std::size_t whole = values.size() / kLanes * kLanes;
  if (whole > 0)
    wide([&] {
      std::array<float, kLanes> m{};
      for (const float* v = values.data(); v < values.data() + whole; v += kLanes)
        for (std::size_t l = 0; l < kLanes; ++l) {
          const float size = std::fabs(v[l]);
          m[l] = m[l] < size ? size : m[l];
        }
      most = m;
    });
  for (std::size_t i = whole; i < values.size(); ++i)
    most[0] = std::max(most[0], std::fabs(values[i]));
  return static_cast<double>(*std::max_element(most.begin(), most.end()));
}

std::size_t row_length(const Shape& shape, std::size_t n) {
  const auto last = shape.rank() > 0
                        ? static_cast<std::size_t>(std::max<std::int64_t>(shape.back().value(), 1))
                        : 1;
  return std::max<std::size_t>(1, std::min(last, n));
}

constexpr double kTokenSteps = 127, kSmallestScale = 0x1p-126;

// A scale of its own.
void round_row(std::span<float> row) {
  const double scale = std::max(largest(row) / kTokenSteps, kSmallestScale);
  wide([&] {
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = static_cast<float>(nearest(static_cast<double>(row[i]) / scale) * scale);
  });
}

// Sums of squares of one channel, or of all; chains of additions, value after value.
void add_powers(const float* x, const float* rounded, std::size_t n, Powers& to) {
  double energy = to.energy, error = to.error;
  for (std::size_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(x[i]), e = static_cast<double>(rounded[i]) - v;
    energy += v * v;
    error += e * e;
  }
  to = {energy, error};
}

}  // namespace

void Magnitudes::add(double v) {
  if (!(v > 0)) v = 0;
  max_ = std::max(max_, v);
  ++count_;
  // v = mantissa * 2^exponent, 0.5 <= mantissa < 1; what is smaller than a normal number is below
  // the lowest step.
  int exponent = kLowest;
  double mantissa = 0.5;
  if (v >= std::numeric_limits<double>::min()) {
    const auto bits = std::bit_cast<std::uint64_t>(v);
    exponent = static_cast<int>(bits >> 52) - 1022;
    mantissa = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3fe0000000000000u);
  }
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
    Coded coded;
    for (std::size_t at = 0; at < values.size(); at += kBlock) {
      const std::size_t n = std::min(kBlock, values.size() - at);
      code_block(values.data() + at, n, static_cast<double>(params.scale()), params.zero_point(),
                 codes_of(where.s8), coded);
      std::copy_n(coded.value.begin(), n, values.data() + at);
    }
    return;
  }
  for (std::size_t at = 0; at < values.size(); at += row)
    round_row(values.subspan(at, std::min(row, values.size() - at)));
}

// Values to what their codes give back; codes that are used are marked, and what clipping costs is
// added up.
std::uint64_t RoundingFacts::code(std::span<const float> values, std::span<float> rounded) {
  codes.resize(256);
  std::array<bool, 256> used{};
  std::uint64_t clipped_now = 0;
  Coded coded;
  for (std::size_t at = 0; at < values.size(); at += kBlock) {
    const std::size_t n = std::min(kBlock, values.size() - at);
    code_block(values.data() + at, n, static_cast<double>(where.params.scale()),
               where.params.zero_point(), codes_of(where.s8), coded);
    std::copy_n(coded.value.begin(), n, rounded.data() + at);
    for (std::size_t i = 0; i < n; ++i) used[coded.code[i]] = true;
    const std::size_t outside = static_cast<std::size_t>(std::count(
        coded.clipped.begin(), coded.clipped.begin() + static_cast<std::ptrdiff_t>(n), 1));
    for (std::size_t i = 0; outside > 0 && i < n; ++i) {
      if (coded.clipped[i] == 0) continue;
      const double e = static_cast<double>(coded.value[i]) - static_cast<double>(values[at + i]);
      clip_error += e * e;
    }
    clipped_now += outside;
  }
  for (std::size_t c = 0; c < codes.size(); ++c)
    if (used[c]) codes[c] = true;
  return clipped_now;
}

// `values` are [.., channels, inner].
void RoundingFacts::add_channels(std::span<const float> values, std::span<const float> rounded,
                                 std::size_t channels, std::size_t inner) {
  if (inner > 1) {
    for (std::size_t at = 0; at < values.size(); at += inner) {
      const std::size_t c = at / inner % channels;
      channel_max[c] =
          std::max(channel_max[c], static_cast<float>(largest(values.subspan(at, inner))));
      add_powers(values.data() + at, rounded.data() + at, inner, channel_powers[c]);
    }
    return;
  }
  for (std::size_t at = 0; at < values.size(); at += channels) {
    const float *v = values.data() + at, *r = rounded.data() + at;
    wide([&] {
      float* most = channel_max.data();
      Powers* p = channel_powers.data();
      for (std::size_t c = 0; c < channels; ++c) {
        const double x = static_cast<double>(v[c]), e = static_cast<double>(r[c]) - x;
        most[c] = most[c] < std::fabs(v[c]) ? std::fabs(v[c]) : most[c];
        p[c].energy += x * x;
        p[c].error += e * e;
      }
    });
  }
}

void RoundingFacts::add(std::span<const float> values, const Shape& shape, std::size_t sample) {
  if (values.empty()) return;
  const std::size_t row = row_length(shape, values.size());
  std::vector<float> rounded(values.begin(), values.end());
  const bool has_channels = where.channel_axis >= 0 && where.channel_axis < shape.rank() &&
                            shape.extent(where.channel_axis) > 0;
  const std::size_t channels =
      has_channels ? static_cast<std::size_t>(shape.extent(where.channel_axis)) : 1;
  const std::size_t inner =
      has_channels ? static_cast<std::size_t>(shape.count(where.channel_axis + 1, shape.rank()))
                   : values.size();
  if (seen.empty() && channels <= kMostChannels) {
    channel_max.assign(channels, 0);
    channel_powers.assign(channels, {});
  } else if (channels != channel_max.size()) {
    channel_max.clear();
    channel_powers.clear();
  }
  std::uint64_t clipped_now = 0;
  if (per_token())
    round_values(where, shape, rounded);
  else
    clipped_now = code(values, rounded);
  add_powers(values.data(), rounded.data(), values.size(), powers);
  if (!channel_max.empty()) add_channels(values, rounded, channels, inner);
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
  add_powers(values.data(), rounded.data(), values.size(), p.powers);
  p.max_abs = std::max(p.max_abs, static_cast<float>(largest(values)));
}

}  // namespace fold8::quant
