// A rotation of what a layer reads, taken back by its weights.
#include "quant/rotate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/random.h"

namespace fold8::quant {
namespace {

constexpr std::size_t kWidth = 48, kRows = 20;
constexpr double kRounding = 1e-5;  // of sums of 48 products of standard normal numbers

std::vector<float> normal(std::size_t n, std::uint64_t seed) {
  testing::SeededRng rng(seed);
  std::vector<float> x(n);
  rng.fill_normal(x);
  return x;
}

double dot(const float* a, const float* b) {
  double sum = 0;
  for (std::size_t j = 0; j < kWidth; ++j) sum += double{a[j]} * b[j];
  return sum;
}

TEST(Rotate, OnlyRowsOfAMultipleOf16) {
  EXPECT_TRUE(can_rotate(16) && can_rotate(48));
  EXPECT_FALSE(can_rotate(0) || can_rotate(8) || can_rotate(40));
}

TEST(Rotate, ResultsOfTheLayerStay) {
  const auto x = normal(kRows * kWidth, 1), w = normal(7 * kWidth, 2);
  const auto y = rotated_rows(x, kWidth), v = rotated_weights(w, kWidth);
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t n = 0; n < 7; ++n)
      EXPECT_NEAR(dot(&y[r * kWidth], &v[n * kWidth]), dot(&x[r * kWidth], &w[n * kWidth]),
                  kRounding);
}

TEST(Rotate, OneLargeElementIsSpread) {
  std::vector<float> x(kWidth);
  x[5] = 4;
  for (const float y : rotated_rows(x, kWidth)) EXPECT_TRUE(y == 0 || std::fabs(y) == 4);
  const std::vector<float> mean(kWidth, 1.0f);
  for (const float y : rotated_rows(mean, kWidth)) EXPECT_EQ(std::fabs(y), 4);
}

TEST(Rotate, MomentsAreThoseOfRotatedRows) {
  const auto moments_of = [](const std::vector<float>& x) {
    Moments m;
    m.width = kWidth;
    m.rows = kRows;
    m.xx.assign(kWidth * kWidth, 0.0f);
    for (std::size_t r = 0; r < x.size(); r += kWidth)
      for (std::size_t i = 0; i < kWidth; ++i)
        for (std::size_t j = 0; j < kWidth; ++j) m.xx[i * kWidth + j] += x[r + i] * x[r + j];
    return m;
  };
  const auto x = normal(kRows * kWidth, 3);
  Moments m = moments_of(x);
  rotate_moments(m);
  const Moments want = moments_of(rotated_rows(x, kWidth));
  for (std::size_t i = 0; i < kWidth; ++i)
    for (std::size_t j = 0; j < kWidth; ++j) {
      EXPECT_NEAR(m.xx[i * kWidth + j], want.xx[i * kWidth + j], 1e-2);
      EXPECT_EQ(m.xx[i * kWidth + j], m.xx[j * kWidth + i]);
    }
}

}  // namespace
}  // namespace fold8::quant
