#include "runtime/kernels/pool.h"

#include <algorithm>
#include <vector>

#include "tests/kernels/f32_test_support.h"

namespace fold8::kernels {
namespace {

using testing::GuardedBuffer;
using testing::SeededRng;

struct Case {
  PoolWindow window;
  std::size_t outer = 1, channels = 1, x_size = 0, y_size = 0, lines = 0;
  bool include_pad = false;
};

Case random_case(SeededRng& rng, bool plain) {
  Case c;
  c.outer = static_cast<std::size_t>(rng.integer(1, 3));
  c.channels = plain ? 1 : static_cast<std::size_t>(rng.integer(1, 70));
  c.include_pad = rng.integer(0, 1) == 1;
  c.x_size = c.outer * c.channels;
  c.y_size = c.x_size;
  c.lines = c.outer;
  for (int a = rng.integer(0, 3) == 0 ? 0 : 1; a < 3; ++a) {
    PoolAxis& axis = c.window.axis[a];
    axis.in = rng.integer(3, plain && a == 2 ? 40 : 12);
    axis.kernel = rng.integer(1, 3);
    axis.stride = rng.integer(1, 3);
    axis.dilation = rng.integer(1, 2);
    axis.pad_begin = rng.integer(0, axis.kernel - 1);
    axis.pad_end = rng.integer(0, axis.kernel - 1);
    // ceil_mode: the last window may hang over
    axis.out = std::max<std::int64_t>(
        1, (axis.in + axis.pad_begin + axis.pad_end - (axis.kernel - 1) * axis.dilation - 1) /
                   axis.stride +
               1 + rng.integer(0, 1));
    c.x_size *= static_cast<std::size_t>(axis.in);
    c.y_size *= static_cast<std::size_t>(axis.out);
    if (a < 2) c.lines *= static_cast<std::size_t>(axis.out);
  }
  return c;
}

class PoolTest : public TargetTest {
 protected:
  // The kernel in two parts against the reference in one.
  template <class Args, class T>
  void compare(const Case& c, Args args, void (*wanted)(const Args&), void (*kernel)(const Args&),
               T) {
    GuardedBuffer<T> want(c.y_size), got(c.y_size);
    args.outer = c.outer;
    args.channels = c.channels;
    args.window = c.window;
    args.line_end = c.lines;
    args.y = want.data();
    wanted(args);
    args.y = got.data();
    args.line_end = c.lines / 2;
    kernel(args);
    args.line_begin = c.lines / 2;
    args.line_end = c.lines;
    kernel(args);
    if constexpr (std::is_same_v<T, float>)
      ASSERT_TRUE(same_bits(got.span(), want.span()));
    else
      ASSERT_TRUE(std::ranges::equal(got.span(), want.span()));
  }
};

TEST_P(PoolTest, F32GivesTheBitsOfTheReference) {
  SeededRng rng;
  for (int i = 0; i < 120; ++i) {
    SCOPED_TRACE(i);
    const Case c = random_case(rng, i % 3 == 0);
    GuardedBuffer<float> x(c.x_size);
    fill_wild(rng, x.span());
    MaxPoolArgs<float> max;
    max.x = x.data();
    compare(c, max, reference::max_pool_f32, kernels().max_pool_f32, 0.0f);
    AveragePoolF32Args average;
    average.x = x.data();
    average.count_include_pad = c.include_pad;
    compare(c, average, reference::average_pool_f32, kernels().average_pool_f32, 0.0f);
  }
}

TEST_P(PoolTest, U8GivesTheBitsOfTheReference) {
  SeededRng rng;
  for (int i = 0; i < 120; ++i) {
    SCOPED_TRACE(i);
    const Case c = random_case(rng, i % 3 == 0);
    GuardedBuffer<std::uint8_t> x(c.x_size);
    rng.fill_integers(x.span(), 0, 255);
    MaxPoolArgs<std::uint8_t> max;
    max.x = x.data();
    compare(c, max, reference::max_pool_u8, kernels().max_pool_u8, std::uint8_t{0});
    std::vector<float> multipliers(28);
    for (std::size_t n = 1; n < multipliers.size(); ++n)
      multipliers[n] = 1.3f / static_cast<float>(n);
    AveragePoolU8Args average;
    average.x = x.data();
    average.x_zero_point = static_cast<std::int32_t>(rng.integer(0, 255));
    average.multipliers = multipliers.data();
    average.count_include_pad = c.include_pad;
    average.y_zero_point = 100;
    compare(c, average, reference::average_pool_u8, kernels().average_pool_u8, std::uint8_t{0});
    average.output_kind = OutputKind::f32;
    compare(c, average, reference::average_pool_u8, kernels().average_pool_u8, 0.0f);
  }
}

// More positions than 16-bit sums of codes can hold.
TEST_P(PoolTest, LargeWindowsOfCodesGiveTheBitsOfTheReference) {
  SeededRng rng;
  for (std::size_t channels : {1, 3, 8, 15, 16, 24, 64, 70, 100, 300})
    for (std::int64_t extent : {16, 17, 23}) {
      Case c;
      c.channels = channels;
      c.window.axis[1] = c.window.axis[2] = {.in = extent, .out = 1, .kernel = extent};
      c.x_size = channels * static_cast<std::size_t>(extent * extent);
      c.y_size = channels;
      c.lines = 1;
      GuardedBuffer<std::uint8_t> x(c.x_size);
      rng.fill_integers(x.span(), rng.integer(0, 1) ? 250 : 0, 255);
      std::vector<float> multipliers(c.x_size + 1, 0.7f / static_cast<float>(extent * extent));
      AveragePoolU8Args average;
      average.x = x.data();
      average.x_zero_point = 7;
      average.multipliers = multipliers.data();
      average.output_kind = OutputKind::f32;
      compare(c, average, reference::average_pool_u8, kernels().average_pool_u8, 0.0f);
      MaxPoolArgs<std::uint8_t> max;
      max.x = x.data();
      compare(c, max, reference::max_pool_u8, kernels().max_pool_u8, std::uint8_t{0});
    }
}

TEST_P(PoolTest, GlobalAverageGivesTheBitsOfTheReference) {
  SeededRng rng;
  for (std::size_t channels : {1, 5, 16, 40, 70, 129})
    for (std::size_t positions : {1, 7, 8, 49}) {
      GlobalAverageF32Args args;
      args.outer = 19;
      args.channels = channels;
      args.positions = positions;
      GuardedBuffer<float> x(19 * channels * positions), want(19 * channels), got(19 * channels);
      fill_wild(rng, x.span());
      args.x = x.data();
      args.y = want.data();
      args.end = want.size();
      reference::global_average_f32(args);
      args.y = got.data();
      for (std::size_t part : {want.size() / 2 + 1, want.size()}) {
        args.end = part;
        kernels().global_average_f32(args);
        args.begin = part;
      }
      ASSERT_TRUE(same_bits(got.span(), want.span())) << channels << "x" << positions;
    }
}

TEST_P(PoolTest, MaximaOfZerosAndNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              inf = std::numeric_limits<float>::infinity();
  const float x[8] = {-0.0f, 0.0f, 0.0f, -0.0f, -0.0f, -0.0f, inf, nan};
  const float want[4] = {0.0f, 0.0f, -0.0f, nan};
  float y[4];
  MaxPoolArgs<float> args;
  args.window.axis[2] = {8, 4, 2, 2, 1, 0, 0};
  args.x = x;
  args.y = y;
  args.line_end = 1;
  kernels().max_pool_f32(args);
  EXPECT_TRUE(same_bits(y, want));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[3]), 0x7fc00000u);
}

// ONNX's own example of count_include_pad: 5x5 counting up from 1, kernel 5, pad 2.
TEST(PoolReference, AverageOfOnnxExamples) {
  std::vector<float> x(25), y(25);
  for (int i = 0; i < 25; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i + 1);
  AveragePoolF32Args args;
  args.window.axis[1] = args.window.axis[2] = {5, 5, 5, 1, 1, 2, 2};
  args.x = x.data();
  args.y = y.data();
  args.line_end = 5;
  reference::average_pool_f32(args);
  EXPECT_EQ(y[0], 7);
  EXPECT_EQ(y[1], 7.5f);
  EXPECT_EQ(y[12], 13);
  args.count_include_pad = true;
  reference::average_pool_f32(args);
  EXPECT_FLOAT_EQ(y[0], 2.52f);
  EXPECT_FLOAT_EQ(y[1], 3.6f);
}

FOLD8_FOR_ALL_TARGETS(PoolTest);

}  // namespace
}  // namespace fold8::kernels
