#include "quant/quantize_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/random.h"

namespace fold8::quant {
namespace {

TEST(QuantizeWeight, EveryChannelUsesItsWholeRange) {
  testing::SeededRng rng;
  std::vector<float> w(4 * 30);
  rng.fill_normal(w);
  for (std::size_t i = 0; i < 30; ++i)
    w[30 + i] *= 1000;  // one huge channel must not coarsen the others
  const auto q = quantize_weight(w, Shape{4, 30}, 0, WeightGranularity::per_channel);
  ASSERT_TRUE(q.ok());
  for (std::size_t c = 0; c < 4; ++c) {
    int largest = 0;
    for (std::size_t i = 0; i < 30; ++i) {
      const int code = q->codes[c * 30 + i];
      largest = std::max(largest, std::abs(code));
      EXPECT_LE(std::abs(static_cast<float>(code) * q->params.scales()[c] - w[c * 30 + i]),
                q->params.scales()[c] * 0.5001f);
    }
    EXPECT_EQ(largest, 127);
  }
}

TEST(QuantizeWeight, PerTensorGivesEveryChannelTheSameScale) {
  const std::vector<float> w = {1, 2, 3, -4};
  const auto q = quantize_weight(w, Shape{2, 2}, 0, WeightGranularity::per_tensor);
  EXPECT_EQ(q->params.scales()[0], q->params.scales()[1]);
  EXPECT_EQ(q->codes[3], -127);
}

TEST(QuantizeWeight, ChannelsOfGroupedTransposedConvolutions) {
  // [C=2, M/group=2, 1], two groups: input row 0 belongs to group 0, row 1 to group 1.
  const std::vector<float> w = {1, 10, 100, 1000};
  const auto q = quantize_weight(w, Shape{2, 2, 1}, 1, WeightGranularity::per_channel, 2);
  ASSERT_TRUE(q.ok());
  ASSERT_EQ(q->params.scales().size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(q->codes[i], 127);
    EXPECT_FLOAT_EQ(q->params.scales()[i], w[i] / 127);
  }
}

TEST(QuantizeWeight, ZeroAndTinyChannelsHaveAValidScale) {
  const std::vector<float> w = {0, 0, 1e-44f, 0};
  const auto q = quantize_weight(w, Shape{2, 2}, 0, WeightGranularity::per_channel);
  ASSERT_TRUE(q.ok());
  EXPECT_EQ(q->params.scales()[0], 1.0f);
  EXPECT_GE(q->params.scales()[1], std::numeric_limits<float>::min());
}

TEST(QuantizeWeight, RefusesNaN) {
  const std::vector<float> w = {0, std::nanf("")};
  const auto q = quantize_weight(w, Shape{1, 2}, 0, WeightGranularity::per_channel);
  ASSERT_FALSE(q.ok());
  EXPECT_NE(q.error().message.find("element 1 is NaN"), std::string::npos);
}

TEST(QuantizeWeightGroups, EveryGroupOfInputsHasItsScale) {
  const std::vector<float> w = {127, -1, 254, 2, 4, 0.5f, 0, 0, -127, 1};
  const auto q = quantize_weight_groups(w, Shape{2, 5}, 2);
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_EQ(q->params.granularity(), Granularity::per_group);
  EXPECT_EQ(q->params.group(), 2);
  const auto scales = q->params.scales();
  EXPECT_EQ(std::vector<float>(scales.begin(), scales.end()),
            (std::vector<float>{1, 2, static_cast<float>(4 / 127.0), static_cast<float>(0.5 / 127),
                                1, static_cast<float>(1 / 127.0)}));
  EXPECT_EQ(q->codes, (std::vector<std::int8_t>{127, -1, 127, 1, 127, 127, 0, 0, -127, 127}));
}

TEST(QuantizeWeightGroups, RefusesWhatIsNoMatrixOfNumbers) {
  const std::vector<float> w = {1, 2, NAN, 4};
  EXPECT_FALSE(quantize_weight_groups(w, Shape{2, 2}, 2).ok());
  EXPECT_FALSE(quantize_weight_groups(std::vector<float>{1, 2}, Shape{2}, 2).ok());
  EXPECT_FALSE(quantize_weight_groups(std::vector<float>{1, 2}, Shape{1, 2}, 0).ok());
}

}  // namespace
}  // namespace fold8::quant
