#include "quant/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/random.h"

namespace fold8::quant {
namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum s;
  for (const double v : values) s.add(v);
  return s.value();
}

TEST(ExactSum, NothingIsLost) {
  EXPECT_EQ(sum_of({}), 0);
  EXPECT_EQ(sum_of({1, 2, 3.5}), 6.5);
  EXPECT_EQ(sum_of({1e30, 1, -1e30}), 1);
  EXPECT_EQ(sum_of({-1e30, -1, 1e30}), -1);
  EXPECT_EQ(sum_of({0x1p256, 0x1p-298, -0x1p256}), 0x1p-298);
  const double most = double{std::numeric_limits<float>::max()};
  EXPECT_EQ(sum_of({most * most, -most * most}), 0);
  EXPECT_EQ(sum_of({most * most, most * most}), 2 * (most * most));
}

TEST(ExactSum, RoundsOnceToEven) {
  EXPECT_EQ(sum_of({1, 0x1p-53}), 1);                      // half way: down to even
  EXPECT_EQ(sum_of({1, 0x1p-52, 0x1p-53}), 1 + 0x1p-51);   // half way: up to even
  EXPECT_EQ(sum_of({1, 0x1p-53, 0x1p-298}), 1 + 0x1p-52);  // a bit far below decides
  EXPECT_EQ(sum_of({-1, -0x1p-53, -0x1p-298}), -1 - 0x1p-52);
  EXPECT_EQ(sum_of({0x1p53, -0x1p-1}), 0x1p53);  // 2^53 - 1/2
  EXPECT_EQ(sum_of({0x1p60, -1}), 0x1p60);
}

TEST(ExactSum, AnyOrderAndGroupingIsTheSame) {
  testing::SeededRng rng;
  for (int round = 0; round < 50; ++round) {
    std::vector<double> values(200);
    for (double& v : values) {
      const float a = rng.normal() * std::ldexp(1.0f, static_cast<int>(rng.integer(-60, 60)));
      v = rng.integer(0, 1) ? double{a} : double{a} * a;
    }
    const double whole = sum_of(values);
    std::reverse(values.begin(), values.end());
    ExactSum left, right;
    const auto cut = static_cast<std::size_t>(rng.integer(0, 200));
    for (std::size_t i = 0; i < values.size(); ++i) (i < cut ? left : right).add(values[i]);
    right.merge(left);
    EXPECT_EQ(right.value(), whole);
  }
}

TEST(ExactSum, ManyValues) {
  ExactSum s;
  for (int i = 0; i < 1000000; ++i) s.add(0x1.fffffep127);
  EXPECT_EQ(s.value(), 0x1.fffffep127 * 1000000);
}

}  // namespace
}  // namespace fold8::quant
