#include "quant/observer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "quant/wide.h"

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

// floor(v / 2^exponent) + kSide of each. The products are exact but where they underflow, which
// only a negative number's floor would notice.
void number_bins(const float* v, std::size_t n, int exponent, std::int32_t* numbers) {
  constexpr int kLeastForFloat = -120;  // 2^120 is a float
  if (exponent < kLeastForFloat) {
    const double inverse = power_of_two(-exponent);
    for (std::size_t i = 0; i < n; ++i) {
      const double x = static_cast<double>(v[i]) * inverse;
      const auto toward_zero = static_cast<std::int32_t>(x);
      numbers[i] = toward_zero - (x < static_cast<double>(toward_zero)) + Histogram::kSide;
    }
    return;
  }
  const float inverse = static_cast<float>(power_of_two(-exponent));
  for (std::size_t i = 0; i < n; ++i) {
    const float x = v[i] * inverse;
    const auto toward_zero = static_cast<std::int32_t>(x);
    const std::int32_t negative = v[i] < 0.0f ? 1 : 0,
                       between = x != static_cast<float>(toward_zero) ? 1 : 0,
                       near_zero = toward_zero == 0 ? 1 : 0;
    numbers[i] = toward_zero - (negative & (between | near_zero)) + Histogram::kSide;
  }
}

using Tables = std::vector<std::array<std::uint32_t, 2 * Histogram::kSide>>;

void pour(Tables& tables, std::vector<std::uint64_t>& bins) {
  for (auto& table : tables) {
    for (std::size_t b = 0; b < bins.size(); ++b) bins[b] += table[b];
    table.fill(0);
  }
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

void Histogram::add(std::span<const float> values) { add(values, extent_of(values)); }

void Histogram::add(std::span<const float> values, const Extent& extent) {
  if (values.empty()) return;
  const int needed = exponent_for(extent.lo, extent.hi, total_ == 0 ? kSmallest : exponent_);
  if (bins_.empty() || needed > exponent_ || total_ == 0) widen(needed);
  // Numbers of bins first, which the compiler turns into vector code; then counts, of neighbours in
  // tables of their own: many equal values in a row (zeros behind a Relu) would wait for each
  // other.
  constexpr std::size_t kBlock = 512, kTables = 4;
  std::array<std::int32_t, kBlock> numbers;
  std::vector<std::array<std::uint32_t, 2 * kSide>> tables;
  if (values.size() >= 32 * kBlock) tables.resize(kTables);
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t n = std::min(kBlock, values.size() - begin);
    const float* v = values.data() + begin;
    wide([&] { number_bins(v, n, exponent_, numbers.data()); });
    if (tables.empty()) {
      for (std::size_t i = 0; i < n; ++i) ++bins_[static_cast<std::size_t>(numbers[i])];
      continue;
    }
    std::size_t i = 0;
    for (; i + kTables <= n; i += kTables)
      for (std::size_t t = 0; t < kTables; ++t)
        ++tables[t][static_cast<std::size_t>(numbers[i + t])];
    for (; i < n; ++i) ++tables[0][static_cast<std::size_t>(numbers[i])];
    if ((begin / kBlock) % (std::size_t{1} << 20) == 0)
      pour(tables, bins_);  // before they overflow
  }
  pour(tables, bins_);
  total_ += values.size();
}

std::optional<Histogram> Histogram::of(int exponent, std::size_t first,
                                       std::span<const std::uint64_t> bins) {
  Histogram h;
  if (bins.empty()) return h;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
  if (exponent < kSmallest || exponent > kLargest || bins.size() > 2 * kSide ||
      first > 2 * kSide - bins.size())
    return std::nullopt;
  h.bins_.assign(2 * kSide, 0);
  std::copy(bins.begin(), bins.end(), h.bins_.begin() + static_cast<std::ptrdiff_t>(first));
  for (const std::uint64_t n : bins) {
    if (n > kMost - h.total_) return std::nullopt;
    h.total_ += n;
  }
  if (h.total_ == 0) return std::nullopt;
  h.exponent_ = exponent;
  return h;
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

Extent extent_of(std::span<const float> values) {
  constexpr std::size_t kLanes = 16;
  if (values.empty()) return {};
  std::array<float, kLanes> lo, hi;
  std::array<std::uint32_t, kLanes> odd{};  // set where an exponent has all its bits
  lo.fill(values[0]);
  hi.fill(values[0]);
  const std::size_t whole = values.size() / kLanes * kLanes;
  wide([&] {
    std::array<float, kLanes> least = lo, most = hi;  // in registers
    std::array<std::uint32_t, kLanes> seen = odd;
    for (const float* v = values.data(); v < values.data() + whole; v += kLanes)
      for (std::size_t l = 0; l < kLanes; ++l) {
        least[l] = v[l] < least[l] ? v[l] : least[l];
        most[l] = v[l] > most[l] ? v[l] : most[l];
        seen[l] |= (std::bit_cast<std::uint32_t>(v[l]) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
      }
    lo = least;
    hi = most;
    odd = seen;
  });
  std::size_t i = whole;
  for (std::size_t l = 0; i < values.size(); ++i, ++l) {
    lo[l] = std::min(lo[l], values[i]);
    hi[l] = std::max(hi[l], values[i]);
    odd[l] |= std::isfinite(values[i]) ? 0u : 1u;
  }
  Extent e{lo[0], hi[0], odd[0] == 0};
  for (std::size_t l = 1; l < kLanes; ++l) {
    e.lo = std::min(e.lo, lo[l]);
    e.hi = std::max(e.hi, hi[l]);
    e.finite = e.finite && odd[l] == 0;
  }
  e.lo += 0.0f;  // -0 becomes 0
  e.hi += 0.0f;
  return e;
}

void Observer::add(std::span<const float> values, std::uint64_t sample) {
  add(values, extent_of(values), sample);
}

void Observer::add(std::span<const float> values, const Extent& extent, std::uint64_t sample) {
  if (values.empty()) return;
  min_ = empty() ? extent.lo : std::min(min_, extent.lo);
  max_ = empty() ? extent.hi : std::max(max_, extent.hi);
  const float size = std::max(-extent.lo, extent.hi) + 0.0f;
  see_peak({size, sample});
  halves_[sample & 1] = std::max(halves_[sample & 1], size);
  histogram_.add(values, extent);
}

// Of a sample that is seen twice, the larger peak counts.
void Observer::see_peak(const Peak& peak) {
  const auto before = [](const Peak& a, const Peak& b) {
    return a.size > b.size || (a.size == b.size && a.sample < b.sample);
  };
  if (!(peak.size > 0)) return;
  for (Peak& p : peaks_)
    if (p.size > 0 && p.sample == peak.sample) {
      p.size = std::max(p.size, peak.size);
      if (before(peaks_[1], peaks_[0])) std::swap(peaks_[0], peaks_[1]);
      return;
    }
  if (before(peak, peaks_[0])) {
    peaks_[1] = peaks_[0];
    peaks_[0] = peak;
  } else if (before(peak, peaks_[1])) {
    peaks_[1] = peak;
  }
}

void Observer::see_channels(std::size_t channels) {
  if (channels_vary_ || channel_min_.size() == channels) return;
  channels_vary_ = !channel_min_.empty();
  channel_min_.assign(channels_vary_ ? 0 : channels, 0);
  channel_max_.assign(channel_min_.size(), 0);
}

void Observer::add_channels(std::span<const float> values, std::size_t channels,
                            std::size_t inner) {
  if (values.empty() || channels == 0) return;
  see_channels(channels);
  if (channels_vary_) return;
  if (inner == 1) {
    float *lo = channel_min_.data(), *hi = channel_max_.data();
    for (std::size_t i = 0; i < values.size(); i += channels) {
      const float* v = values.data() + i;
      for (std::size_t c = 0; c < channels; ++c) {
        lo[c] = v[c] < lo[c] ? v[c] : lo[c];
        hi[c] = v[c] > hi[c] ? v[c] : hi[c];
      }
    }
    return;
  }
  for (std::size_t i = 0; i < values.size(); i += inner) {
    const std::size_t c = i / inner % channels;
    const Extent e = extent_of(values.subspan(i, inner));
    channel_min_[c] = std::min(channel_min_[c], e.lo);
    channel_max_[c] = std::max(channel_max_[c], e.hi);
  }
}

void Observer::merge(const Observer& other) {
  if (other.empty()) return;
  min_ = empty() ? other.min_ : std::min(min_, other.min_);
  max_ = empty() ? other.max_ : std::max(max_, other.max_);
  if (other.channels_vary_) {
    channels_vary_ = true;
    channel_min_.clear();
    channel_max_.clear();
  } else if (!other.channel_min_.empty()) {
    see_channels(other.channel_min_.size());
  }
  for (std::size_t c = 0; c < channel_min_.size() && c < other.channel_min_.size(); ++c) {
    channel_min_[c] = std::min(channel_min_[c], other.channel_min_[c]);
    channel_max_[c] = std::max(channel_max_[c], other.channel_max_[c]);
  }
  for (const Peak& p : other.peaks_) see_peak(p);
  for (std::size_t h = 0; h < halves_.size(); ++h)
    halves_[h] = std::max(halves_[h], other.halves_[h]);
  histogram_.merge(other.histogram_);
}

Observer Observer::of_range(float lo, float hi) {
  Observer o;
  o.min_ = lo;
  o.max_ = hi;
  o.only_range_ = true;
  return o;
}

std::optional<Observer> Observer::of(Stored s) {
  const auto finite = [](std::span<const float> v) { return first_not_finite(v) == v.size(); };
  const std::array<float, 6> singles = {s.min,           s.max,       s.peaks[0].size,
                                        s.peaks[1].size, s.halves[0], s.halves[1]};
  if (!finite(singles) || !finite(s.channel_min) || !finite(s.channel_max) || s.min > s.max ||
      s.channel_min.size() != s.channel_max.size() || (s.channels_vary && !s.channel_min.empty()))
    return std::nullopt;
  Observer o;
  o.min_ = s.min;
  o.max_ = s.max;
  o.histogram_ = std::move(s.histogram);
  o.channel_min_ = std::move(s.channel_min);
  o.channel_max_ = std::move(s.channel_max);
  o.channels_vary_ = s.channels_vary;
  o.peaks_ = s.peaks;
  o.halves_ = s.halves;
  return o;
}

std::size_t first_not_finite(std::span<const float> values) {
  constexpr std::size_t kBlock = 4096;
  for (std::size_t b = 0; b < values.size(); b += kBlock) {
    const std::size_t end = std::min(values.size(), b + kBlock);
    std::uint32_t bad = 0;
    wide([&] {
      std::uint32_t any = 0;
      for (std::size_t i = b; i < end; ++i)
        any |= (std::bit_cast<std::uint32_t>(values[i]) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
      bad = any;
    });
    if (bad == 0) continue;
    for (std::size_t i = b; i < end; ++i)
      if (!std::isfinite(values[i])) return i;
  }
  return values.size();
}

}  // namespace fold8::quant
