#include "runtime/core/quant_params.h"

#include <gtest/gtest.h>

#include <limits>

namespace fold8 {
namespace {

TEST(QuantParams, RefusesScalesThatAreNotFiniteAndPositive) {
  for (float bad : {0.0f, -1.0f, std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_FALSE(QuantParams::per_tensor(bad, 0).ok());
    EXPECT_FALSE(QuantParams::per_channel(0, {1.0f, bad}).ok());
  }
  EXPECT_TRUE(QuantParams::per_tensor(std::numeric_limits<float>::denorm_min(), 0).ok());
}

TEST(QuantParams, CountsMustAgree) {
  EXPECT_FALSE(QuantParams::per_channel(0, {1.0f, 2.0f}, {1}).ok());
  EXPECT_FALSE(QuantParams::per_group(0, 0, {1.0f}).ok());
}

TEST(QuantParams, PrintsLikeTheGraphText) {
  EXPECT_EQ(to_string(*QuantParams::per_tensor(0.5f, 128)), "@(0.5,128)");
  EXPECT_EQ(to_string(*QuantParams::per_channel(1, {1.0f})), "@channel(1)");
  EXPECT_EQ(to_string(*QuantParams::per_group(1, 64, {1.0f})), "@group(1,64)");
  EXPECT_EQ(to_string(QuantParams::per_token()), "@token");
}

}  // namespace
}  // namespace fold8
