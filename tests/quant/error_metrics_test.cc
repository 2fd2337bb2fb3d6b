#include "quant/error_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/random.h"

namespace fold8::quant {
namespace {

TEST(ErrorMeter, MatchesTheFormulas) {
  ErrorMeter m;
  ASSERT_TRUE(m.add(std::vector<float>{1, 2, 3}, std::vector<float>{1.1f, 2, 2.9f}).ok());
  const auto s = m.summary();
  EXPECT_NEAR(*s.sqnr_db, 10 * std::log10(14 / 0.02), 1e-4);
  EXPECT_NEAR(s.max_abs, 0.1, 1e-6);
  EXPECT_NEAR(*s.rel_l2, std::sqrt(0.02 / 14), 1e-6);
  EXPECT_NEAR(s.bias, 0, 1e-7);
  EXPECT_FALSE(s.exact);
}

TEST(ErrorMeter, ZeroErrorAndZeroReferenceAreNull) {
  ErrorMeter exact, zero;
  ASSERT_TRUE(exact.add(std::vector<float>{1, 2}, std::vector<float>{1, 2}).ok());
  EXPECT_FALSE(exact.summary().sqnr_db.has_value());
  EXPECT_TRUE(exact.summary().exact);
  EXPECT_EQ(exact.summary().cosine, 1.0);
  ASSERT_TRUE(zero.add(std::vector<float>{0, 0}, std::vector<float>{1, 0}).ok());
  EXPECT_FALSE(zero.summary().sqnr_db.has_value());
  EXPECT_FALSE(zero.summary().exact);
  EXPECT_FALSE(zero.summary().rel_l2.has_value());
}

TEST(ErrorMeter, AddsOneValueAfterTheOther) {
  testing::SeededRng rng;
  for (const std::size_t n : {1, 15, 2048, 2049, 5000}) {
    std::vector<float> reference(n), got(n);
    double ref2 = 0, err2 = 0, err = 0, max_abs = 0;
    for (std::size_t i = 0; i < n; ++i) {
      reference[i] = rng.normal();
      got[i] = reference[i] + 0.01f * rng.normal();
      if (i % 1000 == 7) {  // agreed upon, and no error
        reference[i] = got[i] = std::numeric_limits<float>::infinity();
        continue;
      }
      const double r = reference[i], e = double{got[i]} - r;
      ref2 += r * r;
      err2 += e * e;
      err += e;
      max_abs = std::max(max_abs, std::fabs(e));
    }
    ErrorMeter m;
    ASSERT_TRUE(m.add(reference, got).ok());
    const ErrorSummary s = m.summary();
    EXPECT_EQ(s.rel_l2, std::sqrt(err2 / ref2));
    EXPECT_EQ(s.bias, err / static_cast<double>(n));
    EXPECT_EQ(s.max_abs, max_abs);
    EXPECT_EQ(s.elements, n);
  }
}

TEST(ErrorMeter, NamesTheElement) {
  std::vector<float> a(5000, 1.0f), b = a;
  b[4321] = std::nanf("");
  ErrorMeter m;
  const Status s = m.add(a, b);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().message.find("element 4321 "), std::string::npos) << s.error().message;
}

TEST(ErrorMeter, RefusesNaN) {
  ErrorMeter m;
  EXPECT_FALSE(m.add(std::vector<float>{1}, std::vector<float>{std::nanf("")}).ok());
}

TEST(ClassMeter, CountsAgreement) {
  ClassMeter m;
  m.add(std::vector<float>{0, 5, 1, 9, 2, 3}, std::vector<float>{0, 5, 1, 2, 9, 3}, 3);
  EXPECT_EQ(m.rows(), 2u);
  EXPECT_EQ(m.top1(), 0.5);
  EXPECT_EQ(m.top5(), 1.0);
  EXPECT_GT(*m.kl(), 0);
  EXPECT_FALSE(ClassMeter().top1().has_value());
}

}  // namespace
}  // namespace fold8::quant
