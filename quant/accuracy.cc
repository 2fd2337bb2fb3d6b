#include "quant/accuracy.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/kernels/math_double.h"

namespace fold8::quant {
namespace {

constexpr double kNormal95 = 1.959963984540054;  // two-sided 95 % of the normal distribution

double as_double(std::uint64_t n) { return static_cast<double>(n); }

// Wilson's score interval of a share.
Interval wilson(double share, double n) {
  const double z2 = kNormal95 * kNormal95, centre = share + z2 / (2 * n),
               half = kNormal95 * std::sqrt(share * (1 - share) / n + z2 / (4 * n * n));
  return {std::max(0.0, (centre - half) / (1 + z2 / n)),
          std::min(1.0, (centre + half) / (1 + z2 / n))};
}

double correlation(double a, double b, double c, double d) {
  const double margins = (a + b) * (c + d) * (a + c) * (b + d), product = a * d - b * c,
               half = (a + b + c + d) / 2;
  if (margins == 0) return 0;
  return (product > 0 ? std::max(product - half, 0.0) : product) / std::sqrt(margins);
}

}  // namespace

double PairedCounts::reference() const {
  return samples() ? as_double(both + only_reference) / as_double(samples()) : 0;
}
double PairedCounts::other() const {
  return samples() ? as_double(both + only_other) / as_double(samples()) : 0;
}
double PairedCounts::difference() const {
  return samples() ? (as_double(only_other) - as_double(only_reference)) / as_double(samples()) : 0;
}

Interval difference_interval(const PairedCounts& counts) {
  if (counts.samples() == 0) return {-1, 1};
  const double n = as_double(counts.samples()), p = counts.other(), q = counts.reference(),
               d = counts.difference();
  const double phi = correlation(as_double(counts.both), as_double(counts.only_other),
                                 as_double(counts.only_reference), as_double(counts.neither));
  const Interval wp = wilson(p, n), wq = wilson(q, n);
  const auto combined = [phi](double x, double y) {
    return std::sqrt(std::max(0.0, x * x - 2 * phi * x * y + y * y));
  };
  return {d - combined(p - wp.low, wq.high - q), d + combined(wp.high - p, q - wq.low)};
}

double mcnemar_p(const PairedCounts& counts) {
  const std::uint64_t n = counts.only_reference + counts.only_other,
                      fewer = std::min(counts.only_reference, counts.only_other);
  if (2 * fewer == n) return 1;
  // Binomial(n, 1/2) at k = 0, 1, ... as logarithms: 2^-n is no double for large n.
  double log_term = -as_double(n) * kernels::log_f64(2.0), sum = 0;
  for (std::uint64_t k = 0;; ++k) {
    sum += kernels::exp_f64(log_term);
    if (k == fewer) break;
    log_term += kernels::log_f64(as_double(n - k) / as_double(k + 1));
  }
  return std::min(1.0, 2 * sum);
}

Status count_right(std::span<const double> reference, std::span<const double> other,
                   std::span<const std::int64_t> labels, std::size_t first, PairedCounts& counts) {
  if (labels.empty()) return ok_status();
  const std::size_t classes = reference.size() / labels.size();
  const auto best = [classes](std::span<const double> scores, std::size_t row) {
    const auto from = scores.subspan(row * classes, classes);
    return std::max_element(from.begin(), from.end()) - from.begin();
  };
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::int64_t label = labels[row];
    if (label < 0 || label >= static_cast<std::int64_t>(classes))
      return invalid_model("label " + std::to_string(first + row) + " is " + std::to_string(label) +
                           ", the model has classes 0 to " + std::to_string(classes - 1));
    const bool r = best(reference, row) == label, o = best(other, row) == label;
    ++(r && o ? counts.both : r ? counts.only_reference : o ? counts.only_other : counts.neither);
  }
  return ok_status();
}

Result<std::size_t> classes_of(const Shape& shape) {
  int rank = shape.rank();
  while (rank > 2 && shape.extent(rank - 1) == 1) --rank;
  if (rank < 2)
    return invalid_argument("it has shape " + to_string(shape) +
                            ", and class scores are at least [samples, classes]");
  if (rank > 3)
    return invalid_argument("it has shape " + to_string(shape) +
                            ", and class scores are [samples, classes] or [samples, places, "
                            "classes]");
  if (shape.extent(rank - 1) < 2)
    return invalid_argument("it has one number per sample (shape " + to_string(shape) +
                            "): a regression, not scores of classes");
  return static_cast<std::size_t>(shape.extent(rank - 1));
}

}  // namespace fold8::quant
