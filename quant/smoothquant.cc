#include "quant/smoothquant.h"

#include <algorithm>
#include <cmath>

#include "runtime/kernels/math_double.h"

namespace fold8::quant {
namespace {

constexpr double kSteps = 127;                   // between zero and the largest magnitude
constexpr int kFirstAlpha = 6, kLastAlpha = 18;  // in twentieths
constexpr double kAlphaStep = 1.0 / 20;

// Of classes: their largest, for every member.
void join(std::span<const int> classes, std::vector<double>& v) {
  if (classes.empty()) return;
  std::vector<double> most(v.size(), 0.0);
  for (std::size_t j = 0; j < v.size(); ++j) {
    double& m = most[static_cast<std::size_t>(classes[j])];
    m = std::max(m, v[j]);
  }
  for (std::size_t j = 0; j < v.size(); ++j) v[j] = most[static_cast<std::size_t>(classes[j])];
}

double square(double x) { return x * x; }

std::vector<double> weight_maxima(const AlphaSearch& search) {
  const std::size_t channels = search.x_max.size();
  std::vector<double> w(channels, 0.0);
  for (const SmoothedReader& reader : search.readers)
    for (std::size_t i = 0; i < reader.w.size(); i += channels)
      for (std::size_t j = 0; j < channels; ++j)
        w[j] = std::max(w[j], std::fabs(double{reader.w[i + j]}));
  return w;
}

std::vector<double> factors_for(const AlphaSearch& search, std::vector<double> x_max,
                                std::vector<double> w_max, double alpha) {
  join(search.classes, x_max);
  join(search.classes, w_max);
  return smoothing_factors(x_max, w_max, alpha);
}

std::vector<double> row_maxima(std::span<const float> rows, std::size_t channels) {
  std::vector<double> most(channels, 0.0);
  for (std::size_t i = 0; i < rows.size(); i += channels)
    for (std::size_t j = 0; j < channels; ++j)
      most[j] = std::max(most[j], std::fabs(double{rows[i + j]}));
  return most;
}

}  // namespace

std::vector<double> smoothing_factors(std::span<const double> x_max, std::span<const double> w_max,
                                      double alpha) {
  std::vector<double> s(x_max.size(), 1.0);
  for (std::size_t j = 0; j < s.size(); ++j) {
    if (!(x_max[j] > 0) || !(w_max[j] > 0)) continue;
    s[j] = std::max(kernels::pow_f64(x_max[j], alpha) / kernels::pow_f64(w_max[j], 1 - alpha),
                    kSmallestSmoothing);
  }
  return s;
}

std::vector<double> factors_of(const AlphaSearch& search, double alpha) {
  return factors_for(search, {search.x_max.begin(), search.x_max.end()}, weight_maxima(search),
                     alpha);
}

double expected_output_error(const AlphaSearch& search, std::span<const double> s) {
  const std::size_t channels = s.size(), rows = search.rows.size() / channels;
  std::vector<double> inverse(channels), power(channels, 0.0);
  for (std::size_t j = 0; j < channels; ++j) inverse[j] = 1 / s[j];
  double most = 0, steps = 0, energy = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* x = search.rows.data() + r * channels;
    double largest = 0;
    for (std::size_t j = 0; j < channels; ++j)
      largest = std::max(largest, std::fabs(double{x[j]} * inverse[j]));
    for (std::size_t j = 0; j < channels; ++j) power[j] += square(double{x[j]});
    steps += square(largest / kSteps);
    most = std::max(most, largest);
  }
  if (!search.per_token) steps = static_cast<double>(rows) * square(most / kSteps);
  for (std::size_t j = 0; j < channels; ++j) energy += power[j] * square(inverse[j]);
  double error = 0;
  for (const SmoothedReader& reader : search.readers)
    for (std::size_t i = 0; i < reader.w.size(); i += channels) {
      double norm = 0, largest = 0;
      for (std::size_t j = 0; j < channels; ++j) {
        const double w = double{reader.w[i + j]} * s[j];
        norm += w * w;
        largest = std::max(largest, std::fabs(w));
      }
      error += (steps * norm + square(largest / kSteps) * energy) / 12;
    }
  return error;
}

AlphaChoice choose_alpha(const AlphaSearch& search) {
  const std::size_t channels = search.x_max.size(), rows = search.rows.size() / channels;
  const std::vector<double> w_max = weight_maxima(search);
  AlphaSearch halves[2] = {search, search};
  halves[0].rows = search.rows.first(rows / 2 * channels);
  halves[1].rows = search.rows.subspan(rows / 2 * channels);
  const std::vector<double> maxima[2] = {row_maxima(halves[0].rows, channels),
                                         row_maxima(halves[1].rows, channels)};
  AlphaChoice best;
  const std::vector<double> plain(channels, 1.0);
  best.error_plain = best.error = expected_output_error(search, plain);
  best.factors = plain;
  if (rows < 2) return best;
  for (int i = kFirstAlpha; i <= kLastAlpha; ++i) {
    const double alpha = i * kAlphaStep;
    double error = 0;
    for (const int half : {0, 1})
      error +=
          expected_output_error(halves[half], factors_for(search, maxima[1 - half], w_max, alpha));
    if (i > kFirstAlpha && !(error < best.error)) continue;
    best.alpha = alpha;
    best.error = error;
  }
  best.factors = factors_for(search, {search.x_max.begin(), search.x_max.end()}, w_max, best.alpha);
  return best;
}

}  // namespace fold8::quant
