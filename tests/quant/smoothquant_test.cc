#include "quant/smoothquant.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/random.h"

namespace fold8::quant {
namespace {

TEST(SmoothQuant, FactorsFollowTheFormula) {
  const std::vector<double> x = {16, 4, 1}, w = {1, 4, 0.25};
  const auto s = smoothing_factors(x, w, 0.5);
  EXPECT_NEAR(s[0], 4, 1e-12);
  EXPECT_NEAR(s[1], 1, 1e-12);
  EXPECT_NEAR(s[2], 2, 1e-12);
  EXPECT_NEAR(smoothing_factors(x, w, 1)[0], 16, 1e-12);  // all of X's range
  EXPECT_NEAR(smoothing_factors(x, w, 0)[2], 4, 1e-12);   // all of W's
}

TEST(SmoothQuant, DeadChannelsGetOneAndFactorsStayAwayFromZero) {
  const std::vector<double> x = {0, 3, 1e-30, 1e30}, w = {5, 0, 1e10, 1e-30};
  const auto s = smoothing_factors(x, w, 0.5);
  EXPECT_EQ(s[0], 1);
  EXPECT_EQ(s[1], 1);
  EXPECT_EQ(s[2], kSmallestSmoothing);
  EXPECT_TRUE(std::isfinite(s[3]));
}

// Channel 0, or every n-th, is sixty times the others, in X only.
struct Outlier {
  static constexpr std::size_t kChannels = 32, kRows = 64, kOutputs = 24;
  std::vector<float> rows = std::vector<float>(kRows * kChannels),
                     w = std::vector<float>(kOutputs * kChannels);
  std::vector<double> most = std::vector<double>(kChannels, 0.0);
  SmoothedReader reader;
  AlphaSearch search;

  explicit Outlier(std::size_t every = kChannels) {
    testing::SeededRng rng;
    rng.fill_normal(rows);
    rng.fill_normal(w);
    for (std::size_t i = 0; i < rows.size(); i += every) rows[i] *= 60;
    for (std::size_t i = 0; i < rows.size(); ++i)
      most[i % kChannels] = std::max(most[i % kChannels], std::fabs(double{rows[i]}));
    reader.w = w;
    search.x_max = most;
    search.rows = rows;
    search.readers = {&reader, 1};
  }
};

// Squared error of Q(X/s) Q(sW)^T against X W^T, every rounding carried out.
double measured(const Outlier& o, const std::vector<double>& s) {
  const std::size_t k = Outlier::kChannels;
  const auto rounded = [k](std::span<const float> v, auto factor) {
    std::vector<double> out(v.size());
    for (std::size_t i = 0; i < v.size(); i += k) {
      double most = 0;
      for (std::size_t j = 0; j < k; ++j) most = std::max(most, std::fabs(v[i + j] * factor(j)));
      for (std::size_t j = 0; j < k; ++j)
        out[i + j] = std::rint(v[i + j] * factor(j) / (most / 127)) * (most / 127);
    }
    return out;
  };
  const auto x = rounded(o.rows, [&](std::size_t j) { return 1 / s[j]; });
  const auto w = rounded(o.w, [&](std::size_t j) { return s[j]; });
  double error = 0;
  for (std::size_t r = 0; r < x.size(); r += k)
    for (std::size_t n = 0; n < w.size(); n += k) {
      double got = 0, wanted = 0;
      for (std::size_t j = 0; j < k; ++j) {
        got += x[r + j] * w[n + j];
        wanted += double{o.rows[r + j]} * o.w[n + j];
      }
      error += (got - wanted) * (got - wanted);
    }
  return error;
}

TEST(SmoothQuant, TheExpectedErrorIsTheOneThatRoundingMakes) {
  const Outlier o(4);  // more than one: the largest of a row rounds to itself
  for (const double alpha : {0.0, 0.5, 0.9}) {
    const auto s = factors_of(o.search, alpha);
    const double expected = expected_output_error(o.search, s);
    EXPECT_NEAR(measured(o, s) / expected, 1, 0.25) << alpha;
  }
}

TEST(SmoothQuant, TheSearchedAlphaTamesAnOutlier) {
  const Outlier o;
  const AlphaChoice best = choose_alpha(o.search);
  EXPECT_GT(best.alpha, 0.3);
  EXPECT_LT(best.error * 4, best.error_plain);  // 6 dB
  EXPECT_LT(measured(o, best.factors) * 4, measured(o, std::vector<double>(o.kChannels, 1.0)));
}

TEST(SmoothQuant, OneRowIsNoReasonToSmooth) {
  Outlier o;
  o.search.rows = std::span(o.rows).first(o.kChannels);
  const AlphaChoice best = choose_alpha(o.search);
  EXPECT_EQ(best.error, best.error_plain);
  for (const double s : best.factors) EXPECT_EQ(s, 1);
}

TEST(SmoothQuant, ClassesShareAFactor) {
  Outlier o;
  std::vector<int> classes(o.kChannels);
  for (std::size_t j = 0; j < classes.size(); ++j) classes[j] = static_cast<int>(j % 8);
  o.search.classes = classes;
  const auto s = factors_of(o.search, 0.5);
  for (std::size_t j = 8; j < s.size(); ++j) EXPECT_EQ(s[j], s[j % 8]);
  EXPECT_NE(s[0], s[1]);
}

}  // namespace
}  // namespace fold8::quant
