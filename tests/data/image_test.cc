#include "tools/data/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/temp_folder.h"

namespace fold8::data {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;

const std::string kTwoPixels =
    "P6 2 1 255\n" + std::string("\x0a\x14\x1e\x28\x32\x3c", 6);  // 10,20,30 | 40,50,60

TEST(Picture, BecomesChannelsFirstFloats) {
  const TempFolder folder;
  PictureOptions o;
  o.mean = {10, 20, 30};
  o.std = {10, 10, 30};
  const auto t = picture_tensor(folder.write("p.ppm", kTwoPixels),
                                TensorType{DType::f32, Shape{1, 3, 1, 2}, {}, Layout::plain}, o);
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_THAT(t->as<float>(), ElementsAre(0, 3, 0, 3, 0, 1));
}

TEST(Picture, BecomesChannelsLastBytes) {
  const TempFolder folder;
  PictureOptions o;
  o.channels_last = true;
  const auto t =
      picture_tensor(folder.write("p.ppm", kTwoPixels),
                     TensorType{DType::u8, Shape{Dim::unknown(), 1, 2, 3}, {}, Layout::plain}, o);
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_THAT(t->as<std::uint8_t>(), ElementsAre(10, 20, 30, 40, 50, 60));
}

TEST(Picture, FloatsWithoutMeanAndStdAreBetween0And1) {
  const TempFolder folder;
  const auto t = picture_tensor(folder.write("p.ppm", "P6 1 1 255\n\xff\xff\xff"),
                                TensorType{DType::f32, Shape{1, 3, 1, 1}, {}, Layout::plain}, {});
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_THAT(t->as<float>(), Each(1.0f));
}

TEST(Picture, ResizeKeepsConstantPicturesAndAveragesWhenItShrinks) {
  const Picture flat{5, 7, 1, std::vector<std::uint8_t>(35, 77)};
  EXPECT_THAT(resize_picture(flat, 3, 11).pixels, Each(77));
  const Picture steps{1, 4, 1, {0, 0, 200, 200}};
  const Picture half = resize_picture(steps, 1, 2);
  EXPECT_LT(half.pixels[0], 60);
  EXPECT_GT(half.pixels[1], 140);
  EXPECT_EQ(half.pixels[0] + half.pixels[1], 200);
}

TEST(Picture, WrongChannelsAreExplained) {
  const TempFolder folder;
  const auto t =
      picture_tensor(folder.write("p.ppm", kTwoPixels),
                     TensorType{DType::f32, Shape{1, 224, 224, 3}, {}, Layout::plain}, {});
  ASSERT_FALSE(t.ok());
  EXPECT_THAT(t.error().message, HasSubstr("--layout"));
}

}  // namespace
}  // namespace fold8::data
