#include "quant/plain_f32.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fold8::quant {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <class T>
std::optional<std::vector<float>> plain(std::vector<T> data, TensorType type,
                                        std::vector<float> row_scales = {}) {
  return plain_f32({type.dtype, type.shape, data.data(), type.layout}, type, row_scales);
}

TEST(PlainF32, FloatsAsTheyAre) {
  EXPECT_THAT(*plain<float>({1, -2, 3}, {DType::f32, Shape{3}, {}, Layout::plain}),
              ElementsAre(1, -2, 3));
  EXPECT_THAT(*plain<float>({}, {DType::f32, Shape{0, 4}, {}, Layout::plain}), IsEmpty());
  EXPECT_THAT(*plain<float>({7}, {DType::f32, Shape{}, {}, Layout::plain}), ElementsAre(7));
}

TEST(PlainF32, ChannelsLastInTheOrderOfTheShape) {
  // [1,2,3]: stored space first, channel 1 is ten times channel 0.
  const TensorType t{DType::f32, Shape{1, 2, 3}, {}, Layout::channels_last};
  EXPECT_THAT(*plain<float>({1, 10, 2, 20, 3, 30}, t), ElementsAre(1, 2, 3, 10, 20, 30));
  const TensorType two{DType::u8, Shape{2, 2, 1, 2}, *QuantParams::per_channel(1, {1, 100}),
                       Layout::channels_last};
  EXPECT_THAT(*plain<std::uint8_t>({1, 2, 3, 4, 5, 6, 7, 8}, two),
              ElementsAre(1, 3, 200, 400, 5, 7, 600, 800));
}

TEST(PlainF32, CodesWithOneScale) {
  EXPECT_THAT(
      *plain<std::uint8_t>(
          {0, 128, 255}, {DType::u8, Shape{3}, *QuantParams::per_tensor(0.5f, 128), Layout::plain}),
      ElementsAre(-64, 0, 63.5));
  EXPECT_THAT(*plain<std::int8_t>({-128, 0, 127}, {DType::s8, Shape{3},
                                                   *QuantParams::per_tensor(2, -1), Layout::plain}),
              ElementsAre(-254, 2, 256));
  EXPECT_THAT(
      *plain<std::int32_t>(
          {1 << 20, -1}, {DType::s32, Shape{2}, *QuantParams::per_tensor(0.25f, 0), Layout::plain}),
      ElementsAre(1 << 18, -0.25));
}

TEST(PlainF32, CodesWithAScalePerChannel) {
  const auto params = *QuantParams::per_channel(1, {1, 10}, {0, 1});
  EXPECT_THAT(*plain<std::int8_t>({1, 2, 3, 4, 5, 6, 7, 8},
                                  {DType::s8, Shape{2, 2, 2}, params, Layout::plain}),
              ElementsAre(1, 2, 20, 30, 5, 6, 60, 70));
}

TEST(PlainF32, CodesWithAScalePerRow) {
  const TensorType t{DType::u8, Shape{2, 1, 2}, QuantParams::per_token(), Layout::plain};
  EXPECT_THAT(*plain<std::uint8_t>({129, 127, 255, 1}, t, {0.5f, 2}),
              ElementsAre(0.5, -0.5, 254, -254));
  EXPECT_FALSE(plain<std::uint8_t>({129, 127, 255, 1}, t));          // nobody knows the scales
  EXPECT_FALSE(plain<std::uint8_t>({129, 127, 255, 1}, t, {0.5f}));  // of too few rows
  EXPECT_THAT(
      *plain<std::uint8_t>({}, {DType::u8, Shape{0, 4}, QuantParams::per_token(), Layout::plain}),
      IsEmpty());
}

TEST(PlainF32, WhatStandsForNoReals) {
  EXPECT_FALSE(plain<std::uint8_t>({1, 2}, {DType::u8, Shape{2}, {}, Layout::plain}));
  EXPECT_FALSE(plain<std::int64_t>({1, 2}, {DType::s64, Shape{2}, {}, Layout::plain}));
  EXPECT_FALSE(plain<std::uint8_t>({1, 0}, {DType::boolean, Shape{2}, {}, Layout::plain}));
  EXPECT_FALSE(plain<std::int8_t>(
      {1, 2}, {DType::s8, Shape{2}, *QuantParams::per_group(0, 1, {1, 2}), Layout::plain}));
}

}  // namespace
}  // namespace fold8::quant
