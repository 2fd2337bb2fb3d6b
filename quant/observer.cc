#include "quant/observer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace fold8::quant {
namespace {

double power_of_two(int exponent) { return __builtin_ldexp(1.0, exponent); }

// Smallest e with -kSide <= floor(v / 2^e) < kSide for both ends.
int exponent_for(float lo, float hi, int at_least) {
  const double reach = std::max(-static_cast<double>(lo), static_cast<double>(hi));
  int e = at_least;
  if (reach > 0) {
    int exponent;
    (void)__builtin_frexp(reach, &exponent);  // reach < 2^exponent
    e = std::max(
        e,
        exponent - static_cast<int>(std::bit_width(static_cast<unsigned>(Histogram::kSide))) - 1);
  }
  while (static_cast<double>(hi) >= Histogram::kSide * power_of_two(e) ||
         static_cast<double>(lo) < -Histogram::kSide * power_of_two(e))
    ++e;
  return e;
}

}  // namespace

double Histogram::width() const { return power_of_two(exponent_); }

void Histogram::widen(int exponent) {
  if (bins_.empty()) bins_.assign(2 * kSide, 0);
  if (total_ == 0) {
    exponent_ = exponent;
    return;
  }
  const int shift = exponent - exponent_;
  if (shift <= 0) return;
  std::vector<std::uint64_t> wide(2 * kSide, 0);
  for (int i = -kSide; i < kSide; ++i) {
    const std::uint64_t n = bins_[static_cast<std::size_t>(i + kSide)];
    if (n == 0) continue;
    const int j = shift >= 31 ? (i < 0 ? -1 : 0) : i >> shift;  // arithmetic shift: floor
    wide[static_cast<std::size_t>(j + kSide)] += n;
  }
  bins_ = std::move(wide);
  exponent_ = exponent;
}

void Histogram::add(std::span<const float> values) {
  if (values.empty()) return;
  const auto [lo, hi] = std::minmax_element(values.begin(), values.end());
  const int needed = exponent_for(*lo, *hi, total_ == 0 ? kSmallest : exponent_);
  if (bins_.empty() || needed > exponent_ || total_ == 0) widen(needed);
  const double inverse = power_of_two(-exponent_);  // exact: a power of two
  std::uint64_t* zero = bins_.data() + kSide;
  for (float v : values)
    ++zero[static_cast<std::ptrdiff_t>(std::floor(static_cast<double>(v) * inverse))];
  total_ += values.size();
}

void Histogram::merge(const Histogram& other) {
  if (other.total_ == 0) return;
  Histogram copy = other;
  const int e = total_ == 0 ? other.exponent_ : std::max(exponent_, other.exponent_);
  widen(e);
  copy.widen(e);
  for (std::size_t i = 0; i < bins_.size(); ++i) bins_[i] += copy.bins_[i];
  total_ += copy.total_;
}

void Observer::add(std::span<const float> values) {
  if (values.empty()) return;
  const auto [lo, hi] = std::minmax_element(values.begin(), values.end());
  if (empty()) {
    min_ = *lo;
    max_ = *hi;
  } else {
    min_ = std::min(min_, *lo);
    max_ = std::max(max_, *hi);
  }
  histogram_.add(values);
}

void Observer::add_channels(std::span<const float> values, std::size_t channels,
                            std::size_t inner) {
  if (values.empty() || channels == 0) return;
  if (channel_min_.size() != channels) {
    channel_min_.assign(channels, 0);
    channel_max_.assign(channels, 0);
  }
  if (inner == 1) {
    for (std::size_t i = 0; i < values.size(); i += channels)
      for (std::size_t c = 0; c < channels; ++c) {
        channel_min_[c] = std::min(channel_min_[c], values[i + c]);
        channel_max_[c] = std::max(channel_max_[c], values[i + c]);
      }
    return;
  }
  for (std::size_t i = 0; i < values.size(); i += inner) {
    const std::size_t c = i / inner % channels;
    const auto [lo, hi] =
        std::minmax_element(values.begin() + static_cast<std::ptrdiff_t>(i),
                            values.begin() + static_cast<std::ptrdiff_t>(i + inner));
    channel_min_[c] = std::min(channel_min_[c], *lo);
    channel_max_[c] = std::max(channel_max_[c], *hi);
  }
}

void Observer::merge(const Observer& other) {
  if (other.empty()) return;
  min_ = empty() ? other.min_ : std::min(min_, other.min_);
  max_ = empty() ? other.max_ : std::max(max_, other.max_);
  if (channel_min_.size() < other.channel_min_.size()) {
    channel_min_.resize(other.channel_min_.size(), 0);
    channel_max_.resize(other.channel_max_.size(), 0);
  }
  for (std::size_t c = 0; c < other.channel_min_.size(); ++c) {
    channel_min_[c] = std::min(channel_min_[c], other.channel_min_[c]);
    channel_max_[c] = std::max(channel_max_[c], other.channel_max_[c]);
  }
  histogram_.merge(other.histogram_);
}

std::size_t first_not_finite(std::span<const float> values) {
  constexpr std::size_t kBlock = 4096;
  for (std::size_t b = 0; b < values.size(); b += kBlock) {
    const std::size_t end = std::min(values.size(), b + kBlock);
    bool bad = false;
    for (std::size_t i = b; i < end; ++i)
      bad |= (std::bit_cast<std::uint32_t>(values[i]) & 0x7f800000u) == 0x7f800000u;
    if (!bad) continue;
    for (std::size_t i = b; i < end; ++i)
      if (!std::isfinite(values[i])) return i;
  }
  return values.size();
}

}  // namespace fold8::quant
