#include "quant/choose_params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/random.h"

namespace fold8::quant {
namespace {

TEST(ActivationParams, ZeroIsAlwaysACode) {
  for (const auto& [lo, hi] : std::initializer_list<std::pair<double, double>>{
           {0.5, 2}, {-3, -1}, {-1, 1}, {0, 6}, {-0.1, 12.7}}) {
    const QuantParams q = activation_params({lo, hi});
    EXPECT_GE(q.zero_point(), 0);
    EXPECT_LE(q.zero_point(), 255);
    const double lowest = q.scale() * (0 - q.zero_point()),
                 highest = q.scale() * (255 - q.zero_point());
    EXPECT_LE(lowest, std::min(lo, 0.0) + q.scale() / 2 * 1.001);
    EXPECT_GE(highest, std::max(hi, 0.0) - q.scale() / 2 * 1.001);
  }
  EXPECT_EQ(activation_params({0, 255}).scale(), 1.0f);
  EXPECT_EQ(activation_params({-128, 127}).zero_point(), 128);
}

TEST(ActivationParams, StayValidAtTheEdges) {
  const double big = std::numeric_limits<float>::max();
  for (const Range& r : {Range{0, 0}, Range{0, 1e-40}, Range{-1e-44, 0}, Range{-big, big},
                         Range{3, 3}, Range{-3, -3}}) {
    const QuantParams q = activation_params(r);
    EXPECT_TRUE(std::isfinite(q.scale()));
    EXPECT_GE(q.scale(), std::numeric_limits<float>::min());
  }
}

class Methods : public ::testing::TestWithParam<Method> {};

TEST_P(Methods, StayInsideTheObservedRangeAndAreDeterministic) {
  testing::SeededRng rng;
  std::vector<float> values(20000);
  rng.fill_normal(values);
  values[17] = 40.0f;  // one outlier
  Observer o;
  o.add(values);
  const Range a = choose_range(o, GetParam()), b = choose_range(o, GetParam());
  EXPECT_EQ(a.lo, b.lo);
  EXPECT_EQ(a.hi, b.hi);
  EXPECT_GE(a.lo, o.min());
  EXPECT_LE(a.hi, o.max());
  if (GetParam() == Method::minmax)
    EXPECT_EQ(a.hi, 40.0);
  else
    EXPECT_LT(a.hi, 39.0) << "the outlier should be given up";
}
INSTANTIATE_TEST_SUITE_P(All, Methods,
                         ::testing::Values(Method::minmax, Method::percentile, Method::entropy,
                                           Method::mse),
                         [](const auto& i) { return std::string(name(i.param)); });

TEST(Methods, MseNeverLosesToMinmaxOnItsOwnMeasure) {
  testing::SeededRng rng;
  for (int trial = 0; trial < 5; ++trial) {
    std::vector<float> values(5000);
    for (float& v : values) v = rng.normal() * std::abs(rng.normal());
    Observer o;
    o.add(values);
    const auto cost = [&](const Range& r) {
      return expected_squared_error(o.histogram(),
                                    (std::max(r.hi, 0.0) - std::min(r.lo, 0.0)) / 255,
                                    std::min(r.lo, 0.0), std::max(r.hi, 0.0));
    };
    EXPECT_LE(cost(choose_range(o, Method::mse)), cost(choose_range(o, Method::minmax)));
  }
}

TEST(Methods, EmptyAndConstantTensorsHaveARange) {
  for (Method m :
       {Method::minmax, Method::percentile, Method::entropy, Method::mse, Method::automatic}) {
    EXPECT_EQ(choose_range(Observer(), m).hi, 0.0);
    Observer zeros;
    zeros.add(std::vector<float>(10, 0.0f));
    EXPECT_EQ(activation_params(choose_range(zeros, m)).scale(), 1.0f);
    Observer c;
    c.add(std::vector<float>(10, 2.5f));
    EXPECT_NEAR(activation_params(choose_range(c, m)).scale(), 2.5 / 255, 1e-6);
  }
}

TEST(Methods, AutomaticIsMinmaxForSmallTensorsAndGivesUpOneInAHundredThousand) {
  testing::SeededRng rng;
  std::vector<float> values(300000);
  rng.fill_normal(values);
  values[5] = 500.0f;
  Observer large, small;
  large.add(values);
  small.add(std::span(values).first(1000));
  EXPECT_LT(choose_range(large, Method::automatic).hi, 10.0);
  EXPECT_EQ(choose_range(small, Method::automatic).hi, 500.0);
}

TEST(Methods, NamesRoundTrip) {
  for (Method m :
       {Method::minmax, Method::percentile, Method::entropy, Method::mse, Method::automatic})
    EXPECT_EQ(method_from_name(name(m)), m);
  EXPECT_FALSE(method_from_name("magic").has_value());
}

}  // namespace
}  // namespace fold8::quant
