#include "tools/onnx/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fold8::onnx_io {
namespace {

TEST(Half, EveryPatternSurvivesTheRoundTrip) {
  for (int i = 0; i < 65536; ++i) {
    const auto h = static_cast<std::uint16_t>(i);
    const float f = half_to_float(h);
    if (std::isnan(f))
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(f))));
    else
      EXPECT_EQ(float_to_half(f), h) << i;
  }
}

TEST(Half, RoundsToEvenAndOverflowsToInfinity) {
  EXPECT_EQ(float_to_half(1.0f), 0x3c00);
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f), 0x3c00);  // a tie, to even
  EXPECT_EQ(float_to_half(1.0f + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(float_to_half(65504.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(-0.0f), 0x8000);
  EXPECT_EQ(half_to_float(1), 0x1p-24f);
  EXPECT_EQ(float_to_half(0x1p-25f), 0);  // a tie, to even
}

TEST(Bfloat, RoundsToEven) {
  EXPECT_EQ(float_to_bfloat(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bfloat(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(float_to_bfloat(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(bfloat_to_float(0x4049), 3.140625f);
}

}  // namespace
}  // namespace fold8::onnx_io
