#include "quant/error_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

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
