#include "runtime/kernels/resize.h"

#include <algorithm>
#include <vector>

#include "runtime/core/aligned.h"
#include "runtime/kernels/resize_table.h"
#include "tests/kernels/f32_test_support.h"

namespace fold8::kernels {
namespace {

using testing::GuardedBuffer;
using testing::SeededRng;

// One axis of {1, 2, 4, 7, 11} by the table.
std::vector<float> resize_row(const ResizeAxisSpec& spec, float extrapolation = 10) {
  const float x[] = {1, 2, 4, 7, 11};
  const auto table = make_resize_table(spec);
  EXPECT_TRUE(table.ok());
  std::vector<float> y(spec.out);
  if (table.value().taps == 1) {
    ResizeNearestArgs args;
    args.inner_bytes = args.element_size = 4;
    args.axis[2] = {spec.in, spec.out, table.value().index.data()};
    args.extrapolation = &extrapolation;
    args.x = x;
    args.y = y.data();
    args.line_end = 1;
    reference::resize_nearest(args);
  } else {
    ResizeF32Args args;
    args.axis[2] = {spec.in, spec.out, table.value().taps, table.value().index.data(),
                    table.value().weight.data()};
    args.extrapolation = extrapolation;
    args.x = x;
    args.y = y.data();
    args.line_end = 1;
    reference::resize_f32(args);
  }
  return y;
}

ResizeAxisSpec spec_of(std::size_t out, ResizeMode mode,
                       CoordinateMode coordinates = CoordinateMode::half_pixel) {
  ResizeAxisSpec s;
  s.in = 5;
  s.out = out;
  s.scale = static_cast<double>(out) / 5;
  s.mode = mode;
  s.coordinates = coordinates;
  return s;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 4e-6) << i;
}

// The expectations below are those of onnx.reference.
TEST(ResizeTable, Linear) {
  const auto mode = ResizeMode::linear;
  expect_near(resize_row(spec_of(8, mode)), {1, 1.4375, 2.125, 3.375, 4.9375, 6.8125, 9.25, 11});
  expect_near(resize_row(spec_of(1, mode, CoordinateMode::pytorch_half_pixel)), {1});
  expect_near(resize_row(spec_of(8, mode, CoordinateMode::align_corners)),
              {1, 1.571429f, 2.285714f, 3.428571f, 4.857143f, 6.571429f, 8.714286f, 11});
  expect_near(resize_row(spec_of(3, mode, CoordinateMode::asymmetric)), {1, 3.333333f, 8.333333f});
  ResizeAxisSpec s = spec_of(2, mode, CoordinateMode::half_pixel_symmetric);
  s.scale = 0.5;
  expect_near(resize_row(s), {2, 7});
  s = spec_of(4, mode, CoordinateMode::tf_crop_and_resize);
  s.roi_start = 0.2f;
  s.roi_end = 1.3f;
  expect_near(resize_row(s), {1.8f, 4.8f, 9.933332f, 10});
}

TEST(ResizeTable, Cubic) {
  expect_near(
      resize_row(spec_of(8, ResizeMode::cubic)),
      {0.9071655f, 1.268311f, 2.132324f, 3.133301f, 4.897217f, 6.69165f, 9.52301f, 11.37134f});
  ResizeAxisSpec s = spec_of(8, ResizeMode::cubic);
  s.exclude_outside = true;
  s.cubic_coeff_a = -0.5;
  expect_near(resize_row(s), {0.9280443f, 1.294098f, 2.095703f, 3.267578f, 4.830078f, 6.783203f,
                              9.571869f, 11.28782f});
  expect_near(resize_row(spec_of(3, ResizeMode::cubic, CoordinateMode::align_corners)), {1, 4, 11});
}

TEST(ResizeTable, Nearest) {
  const auto row = [](std::size_t out, NearestMode nearest, CoordinateMode coordinates) {
    ResizeAxisSpec s = spec_of(out, ResizeMode::nearest, coordinates);
    s.nearest = nearest;
    return resize_row(s);
  };
  using N = NearestMode;
  using C = CoordinateMode;
  EXPECT_EQ(row(8, N::round_prefer_floor, C::half_pixel),
            (std::vector<float>{1, 1, 2, 4, 4, 7, 11, 11}));
  EXPECT_EQ(row(10, N::round_prefer_ceil, C::asymmetric),
            (std::vector<float>{1, 2, 2, 4, 4, 7, 7, 11, 11, 11}));
  EXPECT_EQ(row(10, N::round_prefer_floor, C::asymmetric),
            (std::vector<float>{1, 1, 2, 2, 4, 4, 7, 7, 11, 11}));
  EXPECT_EQ(row(7, N::floor, C::asymmetric), (std::vector<float>{1, 1, 2, 4, 4, 7, 11}));
  EXPECT_EQ(row(7, N::ceil, C::half_pixel), (std::vector<float>{1, 2, 4, 4, 7, 11, 11}));
}

TEST(ResizeTable, RefusesWhatHasNoMeaning) {
  ResizeAxisSpec s = spec_of(3, ResizeMode::linear);
  s.scale = 0;
  EXPECT_FALSE(make_resize_table(s).ok());
  s.scale = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(make_resize_table(s).ok());
  s = spec_of(3, ResizeMode::cubic);
  s.cubic_coeff_a = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(make_resize_table(s).ok());
  s = spec_of(0, ResizeMode::linear);
  EXPECT_FALSE(make_resize_table(s).ok());
}

TEST(ResizeTable, IndicesStayInsideForWildScales) {
  for (double scale : {1e-300, 1e-9, 1e9, 1e300})
    for (auto mode : {ResizeMode::nearest, ResizeMode::linear, ResizeMode::cubic}) {
      ResizeAxisSpec s = spec_of(4, mode);
      s.scale = scale;
      const auto table = make_resize_table(s);
      ASSERT_TRUE(table.ok());
      for (std::int32_t i : table.value().index) EXPECT_TRUE(i >= 0 && i < 5);
    }
}

TEST(ResizeReference, CubicInTwoAxes) {
  std::vector<float> x(16), y(15);
  for (int i = 0; i < 16; ++i)
    x[static_cast<std::size_t>(i)] = static_cast<float>(std::pow(i + 1, 1.5));
  ResizeAxisSpec h = spec_of(3, ResizeMode::cubic), w = spec_of(5, ResizeMode::cubic);
  h.in = w.in = 4;
  h.scale = 0.75;
  w.scale = 1.25;
  const auto th = make_resize_table(h), tw = make_resize_table(w);
  ResizeF32Args args;
  args.axis[1] = {4, 3, 4, th.value().index.data(), th.value().weight.data()};
  args.axis[2] = {4, 5, 4, tw.value().index.data(), tw.value().weight.data()};
  args.x = x.data();
  args.y = y.data();
  args.line_end = 3;
  reference::resize_f32(args);
  const float want[15] = {2.0618036f, 3.3834822f, 5.4307833f, 7.9083815f, 9.9511385f,
                          17.929775f, 20.684963f, 24.478773f, 28.504675f, 31.648771f,
                          43.966583f, 47.571987f, 52.463543f, 57.542641f, 61.462276f};
  for (std::size_t i = 0; i < 15; ++i) EXPECT_NEAR(y[i], want[i], 1e-4f);
}

class ResizeTest : public TargetTest {};

ResizeTable random_table(SeededRng& rng, std::size_t in, std::size_t out, ResizeMode mode) {
  ResizeAxisSpec s;
  s.in = in;
  s.out = out;
  s.scale = static_cast<double>(out) / static_cast<double>(in);
  s.mode = mode;
  s.coordinates = static_cast<CoordinateMode>(rng.integer(0, 5));
  s.roi_start = -0.2;
  s.roi_end = 0.9;
  return std::move(make_resize_table(s)).value();
}

TEST_P(ResizeTest, F32GivesTheBitsOfTheReference) {
  SeededRng rng;
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    const ResizeMode mode = i % 2 ? ResizeMode::linear : ResizeMode::cubic;
    ResizeF32Args args;
    ResizeTable table[3];
    args.outer = static_cast<std::size_t>(rng.integer(1, 3));
    args.inner = i % 3 == 0 ? 1 : static_cast<std::size_t>(rng.integer(1, 40));
    args.extrapolation = -5;
    std::size_t x_size = args.outer * args.inner, y_size = x_size, lines = args.outer;
    for (int a = 0; a < 3; ++a) {
      ResizeAxisF32& axis = args.axis[a];
      axis.in = axis.out = static_cast<std::size_t>(rng.integer(1, a == 0 ? 3 : 9));
      if (rng.integer(0, a == 0 ? 3 : 5) > 1) {
        axis.out = static_cast<std::size_t>(rng.integer(1, a == 0 ? 4 : 17));
        table[a] = random_table(rng, axis.in, axis.out, mode);
        axis.taps = table[a].taps;
        axis.index = table[a].index.data();
        axis.weight = table[a].weight.data();
      }
      x_size *= axis.in;
      y_size *= axis.out;
      if (a < 2) lines *= axis.out;
    }
    GuardedBuffer<float> x(x_size), want(y_size), got(y_size);
    fill_wild(rng, x.span());
    GuardedBuffer<std::byte> scratch(resize_f32_scratch_bytes(args));
    args.scratch = scratch.data();
    args.x = x.data();
    args.y = want.data();
    args.line_end = lines;
    reference::resize_f32(args);
    args.y = got.data();
    for (std::size_t part : {lines / 3, lines}) {
      args.line_end = part;
      kernels().resize_f32(args);
      args.line_begin = part;
    }
    ASSERT_TRUE(same_bits(got.span(), want.span()));
  }
}

TEST_P(ResizeTest, NearestGivesTheBytesOfTheReference) {
  SeededRng rng;
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    ResizeNearestArgs args;
    ResizeTable table[3];
    args.outer = static_cast<std::size_t>(rng.integer(1, 3));
    args.element_size = std::size_t{1} << rng.integer(0, 3);
    args.inner_bytes =
        args.element_size * static_cast<std::size_t>(rng.integer(0, 2) ? 1 : rng.integer(1, 9));
    const std::uint8_t extrapolation[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    args.extrapolation = extrapolation;
    std::size_t x_size = args.outer * args.inner_bytes, y_size = x_size, lines = args.outer;
    for (int a = 0; a < 3; ++a) {
      ResizeAxisNearest& axis = args.axis[a];
      axis.in = axis.out = static_cast<std::size_t>(rng.integer(1, 6));
      if (rng.integer(0, 3) > 0) {
        axis.out = static_cast<std::size_t>(rng.integer(1, 9));
        table[a] = random_table(rng, axis.in, axis.out, ResizeMode::nearest);
        axis.index = table[a].index.data();
      }
      x_size *= axis.in;
      y_size *= axis.out;
      if (a < 2) lines *= axis.out;
    }
    GuardedBuffer<std::uint8_t> x(x_size), want(y_size), got(y_size);
    rng.fill_integers(x.span(), 0, 255);
    args.x = x.data();
    args.y = want.data();
    args.line_end = lines;
    reference::resize_nearest(args);
    args.y = got.data();
    for (std::size_t part : {lines / 3, lines}) {
      args.line_end = part;
      kernels().resize_nearest(args);
      args.line_begin = part;
    }
    ASSERT_TRUE(std::ranges::equal(got.span(), want.span()));
  }
}

FOLD8_FOR_ALL_TARGETS(ResizeTest);

}  // namespace
}  // namespace fold8::kernels
