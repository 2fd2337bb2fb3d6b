#include "quant/accuracy.h"

#include <gmock/gmock.h>

#include <vector>

namespace fold8::quant {
namespace {

using ::testing::HasSubstr;

// Expected values: Newcombe's method 10 and the binomial test in another program (scipy 1.17).
TEST(Accuracy, IntervalsOfThePairedDifference) {
  const struct {
    PairedCounts counts;  // both, only reference, only other, neither
    double difference, low, high;
  } cases[] = {
      {{20, 2, 12, 16}, 0.2, 0.0561564248, 0.3292069954},
      {{36, 2, 12, 0}, 0.2, 0.0569295840, 0.3404276030},
      {{36, 0, 14, 0}, 0.28, 0.1528395179, 0.4166512370},
      {{0, 0, 0, 50}, 0, -0.0713475991, 0.0713475991},
      {{1, 97, 1, 1}, -0.96, -0.9850257704, -0.8736721762},
  };
  for (const auto& c : cases) {
    EXPECT_NEAR(c.counts.difference(), c.difference, 1e-12);
    const Interval i = difference_interval(c.counts);
    EXPECT_NEAR(i.low, c.low, 1e-9);
    EXPECT_NEAR(i.high, c.high, 1e-9);
    const Interval mirrored = difference_interval(
        {c.counts.both, c.counts.only_other, c.counts.only_reference, c.counts.neither});
    EXPECT_NEAR(mirrored.low, -c.high, 1e-9);
    EXPECT_NEAR(mirrored.high, -c.low, 1e-9);
  }
  EXPECT_EQ(difference_interval({}).low, -1);
  EXPECT_EQ(difference_interval({}).high, 1);
}

TEST(Accuracy, McNemarIsTheBinomialTest) {
  EXPECT_NEAR(mcnemar_p({20, 2, 12, 16}), 2.0 * (1 + 14 + 91) / 16384, 1e-12);
  EXPECT_EQ(mcnemar_p({5, 3, 3, 5}), 1);
  EXPECT_EQ(mcnemar_p({}), 1);
  EXPECT_NEAR(mcnemar_p({0, 0, 10, 0}), 2.0 / 1024, 1e-12);
  // 2^-4000 is no double.
  EXPECT_NEAR(mcnemar_p({0, 1950, 2050, 0}), 0.1175, 5e-4);
  EXPECT_GE(mcnemar_p({0, 0, 100000, 0}), 0);
}

TEST(Accuracy, RowsAreCountedInPairs) {
  const std::vector<double> reference = {1, 0, 0, 0, 1, 0, 0, 0, 1, 5, 5, 1},
                           other = {1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 7, 1};
  PairedCounts n;
  // right: 0 and 0; 1 and 0; 2 and 0; the first of two largest and 1
  ASSERT_TRUE(count_right(reference, other, std::vector<std::int64_t>{0, 1, 1, 1}, 0, n).ok());
  EXPECT_EQ(n.both, 1u);
  EXPECT_EQ(n.only_reference, 1u);
  EXPECT_EQ(n.neither, 1u);
  EXPECT_EQ(n.only_other, 1u);
  EXPECT_EQ(n.reference(), 0.5);
  EXPECT_EQ(n.other(), 0.5);
  const Status outside =
      count_right(reference, other, std::vector<std::int64_t>{0, 1, 3, 0}, 10, n);
  ASSERT_FALSE(outside.ok());
  EXPECT_THAT(outside.error().message, HasSubstr("label 12 is 3"));
  EXPECT_THAT(outside.error().message, HasSubstr("classes 0 to 2"));
  EXPECT_FALSE(count_right(reference, other, std::vector<std::int64_t>{-1, 0, 0, 0}, 0, n).ok());
}

TEST(Accuracy, WhatIsNoListOfClassScoresSaysWhy) {
  EXPECT_EQ(*classes_of({8, 10}), 10u);
  EXPECT_EQ(*classes_of({8, 10, 1, 1}), 10u);
  EXPECT_EQ(*classes_of({2, 7, 10}), 10u);
  EXPECT_THAT(classes_of({8, 1}).error().message, HasSubstr("regression"));
  EXPECT_THAT(classes_of({8}).error().message, HasSubstr("[samples, classes]"));
  EXPECT_THAT(classes_of({1, 10, 4, 4}).error().message, HasSubstr("[1,10,4,4]"));
}

}  // namespace
}  // namespace fold8::quant
