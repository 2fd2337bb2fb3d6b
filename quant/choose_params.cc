#include "quant/choose_params.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/kernels/math_double.h"

namespace fold8::quant {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"minmax", "percentile", "entropy", "mse",
                                                    "auto"};
constexpr int kLevels = 255;  // steps between the smallest and the largest code

Range with_zero(Range r) { return {std::min(r.lo, 0.0), std::max(r.hi, 0.0)}; }

// The value below which `count` of the histogram's values lie: the upper edge of the bin where they
// are reached.
double edge_at(const Histogram& h, double count) {
  double seen = 0;
  const auto bins = h.bins();
  for (std::size_t i = 0; i < bins.size(); ++i) {
    seen += static_cast<double>(bins[i]);
    if (seen >= count) return h.lower(i + 1);
  }
  return h.lower(bins.size());
}

Range percentile_range(const Observer& o, double percentile) {
  const Histogram& h = o.histogram();
  const double n = static_cast<double>(h.total());
  const double hi = edge_at(h, n * percentile);
  const double lo = edge_at(h, n * (1 - percentile)) - h.width();
  return {std::max(lo, static_cast<double>(o.min())), std::min(hi, static_cast<double>(o.max()))};
}

// Divergence between the histogram clipped to [lo, hi] and the same after rounding to 256 codes:
// each code spreads its count evenly over the bins it covers that are not empty.
double divergence(const Histogram& h, double lo, double hi) {
  const auto bins = h.bins();
  const double w = h.width();
  const auto first = static_cast<std::ptrdiff_t>(std::floor(lo / w)) + Histogram::kSide;
  const auto last = std::min<std::ptrdiff_t>(
      static_cast<std::ptrdiff_t>(std::ceil(hi / w)) + Histogram::kSide, 2 * Histogram::kSide);
  const std::size_t n = static_cast<std::size_t>(std::max<std::ptrdiff_t>(last - first, 1));
  std::vector<double> p(n, 0.0), q(n, 0.0);
  double inside = 0, below = 0, above = 0;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const auto k = static_cast<std::ptrdiff_t>(i) - first;
    const double c = static_cast<double>(bins[i]);
    if (k < 0)
      below += c;
    else if (k >= static_cast<std::ptrdiff_t>(n))
      above += c;
    else {
      p[static_cast<std::size_t>(k)] = c;
      inside += c;
    }
  }
  if (inside == 0) return std::numeric_limits<double>::infinity();
  const double codes = std::min<double>(kLevels + 1, static_cast<double>(n));
  const auto code_of = [&](std::size_t k) {
    return static_cast<std::size_t>(static_cast<double>(k) * codes / static_cast<double>(n));
  };
  for (std::size_t begin = 0; begin < n;) {
    std::size_t end = begin;
    double sum = 0, filled = 0;
    while (end < n && code_of(end) == code_of(begin)) {
      sum += p[end];
      filled += p[end] > 0;
      ++end;
    }
    for (std::size_t k = begin; k < end; ++k) q[k] = p[k] > 0 ? sum / filled : 0;
    begin = end;
  }
  p.front() += below;  // the reference keeps what the codes lose
  p.back() += above;
  const double total = inside + below + above;
  double d = 0;
  for (std::size_t k = 0; k < n; ++k) {
    if (p[k] == 0) continue;
    const double pk = p[k] / total, qk = std::max(q[k] / inside, 1e-12);
    d += pk * kernels::log_f64(pk / qk);
  }
  return d;
}

// Tries ever smaller shares of the observed range on both sides and keeps the best by `cost`
// (lowest; ties: widest).
template <class Cost>
Range search(const Observer& o, const Cost& cost) {
  constexpr int kSteps = 100;
  const Range full = with_zero({o.min(), o.max()});
  Range best = full;
  double best_cost = cost(full);
  const double reach = std::max(-full.lo, full.hi);
  for (int i = kSteps - 1; i >= kSteps / 5; --i) {
    const double limit = reach * i / kSteps;
    const Range r{std::max(full.lo, -limit), std::min(full.hi, limit)};
    if (const double c = cost(r); c < best_cost) {
      best_cost = c;
      best = r;
    }
  }
  return best;
}

}  // namespace

std::optional<Method> method_from_name(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<Method>(i);
  return std::nullopt;
}

std::string_view name(Method m) { return kNames[static_cast<std::size_t>(m)]; }

double expected_squared_error(const Histogram& h, double scale, double lo, double hi) {
  const auto bins = h.bins();
  const double rounding = scale * scale / 12;
  double sum = 0;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (bins[i] == 0) continue;
    const double x = h.lower(i) + h.width() / 2;
    const double clipped = std::clamp(x, lo, hi) - x;
    sum += static_cast<double>(bins[i]) *
           (clipped * clipped + (std::abs(x) < h.width() ? 0 : rounding));
  }
  return sum;
}

Range choose_range(const Observer& o, Method method, double percentile) {
  if (o.empty()) return {};
  const Range full{o.min(), o.max()};
  if (o.histogram().empty()) return full;  // all that is known
  switch (method) {
    case Method::minmax:
      return full;
    case Method::automatic:
      return percentile_range(o, kAutomaticPercentile);
    case Method::percentile:
      return percentile_range(o, percentile);
    case Method::entropy:
      return search(o, [&](const Range& r) { return divergence(o.histogram(), r.lo, r.hi); });
    case Method::mse:
      return search(o, [&](const Range& r) {
        return expected_squared_error(o.histogram(), (r.hi - r.lo) / kLevels, r.lo, r.hi);
      });
  }
  return full;
}

QuantParams activation_params(const Range& range) {
  const Range r = with_zero(range);
  double scale = (r.hi - r.lo) / kLevels;
  if (!(scale > 0)) scale = 1.0;  // only zeros were seen: any scale is exact
  constexpr double kSmallest = std::numeric_limits<float>::min();
  const float s = static_cast<float>(
      std::clamp(scale, kSmallest, static_cast<double>(std::numeric_limits<float>::max())));
  const double z = std::rint(-r.lo / static_cast<double>(s));
  return QuantParams::per_tensor(s, static_cast<std::int32_t>(std::clamp(z, 0.0, 255.0))).value();
}

}  // namespace fold8::quant
