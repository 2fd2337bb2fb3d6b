#include "runtime/core/shape.h"

#include <gtest/gtest.h>

namespace fold8 {
namespace {

TEST(Dim, ArithmeticKeepsSymbolsOnlyWhereTheValueIsTheSame) {
  const Dim n = Dim::symbol(0), m = Dim::symbol(1);
  EXPECT_TRUE(same(n + Dim(0), n));
  EXPECT_TRUE(same(n * Dim(1), n));
  EXPECT_TRUE(same(n - n, Dim(0)));
  EXPECT_TRUE(same(floor_div(n, Dim(1)), n));
  EXPECT_FALSE(same(n, m));
  EXPECT_FALSE(same(n + Dim(1), n + Dim(1)));  // both unknown: not certainly equal
  EXPECT_EQ(floor_div(Dim(-7), Dim(2)), Dim(-4));
  EXPECT_FALSE((Dim(INT64_MAX) + Dim(1)).known());  // overflow is unknown, never wrapped
}

TEST(Shape, CountsWithoutOverflow) {
  EXPECT_EQ(Shape({2, 3, 4}).elements(), 24);
  EXPECT_EQ(Shape({}).elements(), 1);
  EXPECT_EQ((Shape{Dim(std::int64_t{1} << 62), Dim(8)}).elements(), std::nullopt);
  EXPECT_EQ((Shape{Dim(std::int64_t{1} << 62), Dim(8), Dim(0)}).elements(), 0);
  EXPECT_EQ((Shape{Dim::unknown(), Dim(8)}).elements(), std::nullopt);
}

TEST(Shape, Broadcasts) {
  const Dim n = Dim::symbol(0);
  EXPECT_EQ(*broadcast({n, 1, 3}, {4, 1}), (Shape{n, 4, 3}));
  EXPECT_EQ(*broadcast({n}, {n}), (Shape{n}));
  EXPECT_EQ(*broadcast({5}, {n}), (Shape{5}));
  EXPECT_FALSE(broadcast({2}, {3}).has_value());
  EXPECT_EQ(*broadcast({0}, {1}), (Shape{0}));
}

TEST(Shape, EditsAndPrints) {
  Shape s{1, 2, 3};
  s.insert(1, Dim::symbol(0));
  EXPECT_EQ(to_string(s), "[1,s0,2,3]");
  s.erase(0);
  const std::string names[] = {"batch"};
  EXPECT_EQ(to_string(s, names), "[batch,2,3]");
  EXPECT_EQ(normalize_axis(-1, 3), 2);
  EXPECT_EQ(normalize_axis(3, 3), std::nullopt);
}

}  // namespace
}  // namespace fold8
