#include "quant/observer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/random.h"

namespace fold8::quant {
namespace {

bool same(const Histogram& a, const Histogram& b) {
  return a.total() == b.total() && a.width() == b.width() &&
         std::equal(a.bins().begin(), a.bins().end(), b.bins().begin(), b.bins().end());
}

TEST(Histogram, AnyOrderAndGroupingGivesTheSameBytes) {
  testing::SeededRng rng;
  std::vector<float> values(5000);
  for (float& v : values) v = rng.normal() * static_cast<float>(1 << rng.integer(0, 12));
  Histogram whole, split_a, split_b, pieces;
  whole.add(values);
  split_a.add(std::span(values).first(1234));
  split_b.add(std::span(values).subspan(1234));
  split_b.merge(split_a);
  EXPECT_TRUE(same(whole, split_b));
  std::reverse(values.begin(), values.end());
  for (std::size_t i = 0; i < values.size(); i += 7)
    pieces.add(std::span(values).subspan(i, std::min<std::size_t>(7, values.size() - i)));
  EXPECT_TRUE(same(whole, pieces));
}

TEST(Histogram, HoldsExtremes) {
  const float big = std::numeric_limits<float>::max(),
              tiny = std::numeric_limits<float>::denorm_min();
  Histogram h;
  h.add(std::vector<float>{big, -big, tiny, -tiny, 0.0f});
  EXPECT_EQ(h.total(), 5u);
  std::uint64_t sum = 0;
  for (std::uint64_t n : h.bins()) sum += n;
  EXPECT_EQ(sum, 5u);
  Histogram zeros;
  zeros.add(std::vector<float>{0.0f, 0.0f});
  h.merge(zeros);
  EXPECT_EQ(h.total(), 7u);
}

// Numbers of bins by vectors, beside a plain floor, over all magnitudes.
TEST(Histogram, CountsAsThePlainDefinition) {
  testing::SeededRng rng;
  for (const int scale : {-149, -140, -126, -100, -20, 0, 20, 100, 127}) {
    std::vector<float> values;
    for (int i = 0; i < 40000; ++i) {
      const float v = rng.uniform(-1, 1);
      const int down =
          static_cast<int>(rng.integer(0, 3)) == 0 ? static_cast<int>(rng.integer(0, 200)) : 0;
      values.push_back(static_cast<float>(std::ldexp(double{v}, scale - down)));
      if (i % 5 == 0) values.back() = i % 2 == 0 ? 0.0f : -0.0f;
    }
    Histogram h;
    h.add(values);
    std::vector<std::uint64_t> expected(2 * Histogram::kSide, 0);
    for (const float v : values)
      ++expected[static_cast<std::size_t>(std::floor(double{v} / h.width()) + Histogram::kSide)];
    EXPECT_TRUE(std::ranges::equal(h.bins(), expected)) << scale;
  }
}

TEST(Extent, IsThatOfTheValues) {
  testing::SeededRng rng;
  for (const std::size_t n : testing::awkward_lengths()) {
    std::vector<float> values(n);
    rng.fill_normal(values);
    const auto [lo, hi] = std::minmax_element(values.begin(), values.end());
    Extent e = extent_of(values);
    EXPECT_EQ(e.lo, *lo);
    EXPECT_EQ(e.hi, *hi);
    EXPECT_TRUE(e.finite);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      auto broken = values;
      broken[static_cast<std::size_t>(rng.integer(0, static_cast<std::int64_t>(n) - 1))] = bad;
      EXPECT_FALSE(extent_of(broken).finite) << n;
    }
  }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(extent_of(std::vector<float>{-0.0f}).lo), 0u);
}

TEST(Histogram, BinsHoldTheirValues) {
  Histogram h;
  h.add(std::vector<float>{-1.0f, 0.5f, 2.0f});
  for (float v : {-1.0f, 0.5f, 2.0f}) {
    bool found = false;
    for (std::size_t i = 0; i < h.bins().size(); ++i)
      if (h.bins()[i] > 0 && h.lower(i) <= v && v < h.lower(i + 1)) found = true;
    EXPECT_TRUE(found) << v;
  }
}

TEST(Observer, MergesLikeOnePass) {
  Observer a, b, all;
  a.add(std::vector<float>{1, 5});
  b.add(std::vector<float>{-2, 3});
  all.add(std::vector<float>{1, 5, -2, 3});
  a.merge(b);
  EXPECT_EQ(a.min(), all.min());
  EXPECT_EQ(a.max(), all.max());
  EXPECT_EQ(a.count(), 4u);
  EXPECT_FALSE(a.constant());
  EXPECT_TRUE(Observer().empty());
}

TEST(Observer, KeepsChannelsApart) {
  Observer o;
  o.add_channels(std::vector<float>{1, 2, -3, 4, 5, 6, 7, -8}, 2, 2);  // [2, 2 channels, 2]
  EXPECT_EQ(o.channel_min()[0], 0.0f);
  EXPECT_EQ(o.channel_max()[0], 6.0f);
  EXPECT_EQ(o.channel_min()[1], -8.0f);
}

TEST(FirstNotFinite, FindsTheFirst) {
  std::vector<float> v(10000, 1.0f);
  EXPECT_EQ(first_not_finite(v), v.size());
  v[9000] = std::numeric_limits<float>::infinity();
  v[5001] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(first_not_finite(v), 5001u);
}

}  // namespace
}  // namespace fold8::quant
