// Conv and ConvTranspose: f32 against a chain of fma, INT8 against the formulas of SPEC 5a
// evaluated naively, on every target.
#include <cmath>

#include "runtime/ops/pack_weights.h"
#include "tests/ops/matrix_values.h"

namespace fold8::ops {
namespace {

using ::testing::ElementsAre;

// A convolution in ONNX order, one chain of fma over (taps, channels).
std::vector<float> naive_conv(const std::vector<float>& x, const std::vector<float>& w, int c,
                              int h, int m, int k, int stride, int pad, int group) {
  const int oh = (h + 2 * pad - k) / stride + 1, cg = c / group, mg = m / group;
  std::vector<float> y;
  for (int o = 0; o < m; ++o)
    for (int i = 0; i < oh; ++i)
      for (int j = 0; j < oh; ++j) {
        float acc = 0;
        for (int a = 0; a < k; ++a)
          for (int b = 0; b < k; ++b)
            for (int ch = 0; ch < cg; ++ch) {
              const int r = i * stride - pad + a, s = j * stride - pad + b;
              if (r < 0 || s < 0 || r >= h || s >= h) continue;
              acc = std::fma(x[static_cast<std::size_t>((((o / mg) * cg + ch) * h + r) * h + s)],
                             w[static_cast<std::size_t>(((o * cg + ch) * k + a) * k + b)], acc);
            }
        y.push_back(acc);
      }
  return y;
}

struct ConvCase {
  int c, h, m, k, stride, pad, group;
};

TEST(ConvF32, IsOneFmaChain) {
  for (const ConvCase s : {ConvCase{3, 9, 5, 3, 2, 1, 1}, ConvCase{8, 6, 20, 1, 1, 0, 1},
                           ConvCase{6, 7, 6, 3, 1, 1, 6}, ConvCase{6, 7, 12, 3, 1, 1, 3}}) {
    const Shape xs{Dim(1), Dim(s.c), Dim(s.h), Dim(s.h)},
        ws{Dim(s.m), Dim(s.c / s.group), Dim(s.k), Dim(s.k)};
    const Evaluated x = random_f32(xs, 1), w = random_f32(ws, 2);
    const auto want =
        naive_conv(x.as<float>(), w.as<float>(), s.c, s.h, s.m, s.k, s.stride, s.pad, s.group);
    const std::string p = std::to_string(s.pad), st = std::to_string(s.stride),
                      k = std::to_string(s.k);
    const std::string attributes = " kernel=[" + k + "," + k + "] strides=[" + st + "," + st +
                                   "] pads=[" + p + "," + p + "," + p + "," + p +
                                   "] group=" + std::to_string(s.group);
    for (const kernels::Target* t : runnable_targets())
      EXPECT_EQ(run_one("x: f32" + to_string(xs) + "\n y = conv(x, " +
                            literal("f32", ws, w.as<float>()) + ")" + attributes + "\n return y",
                        {x}, {t->kernels, 2})
                    .as<float>(),
                want)
          << t->name << attributes;
  }
}

TEST(ConvF32, TransposedByHand) {
  EXPECT_THAT(run_one("x: f32[1,1,2]\n y = conv(x, f32[1,2,3]{1,2,3,10,20,30}) strides=[2] "
                      "transposed=true\n return y",
                      {value<float>({1, 1, 2}, {1, 2})})
                  .as<float>(),
              ElementsAre(1, 2, 5, 4, 6, 10, 20, 50, 40, 60));
}

TEST(ConvS8, FollowsTheContract) {
  for (const ConvCase s : {ConvCase{3, 9, 5, 3, 2, 1, 1}, ConvCase{8, 6, 20, 1, 1, 0, 1},
                           ConvCase{6, 7, 6, 3, 1, 1, 6}, ConvCase{6, 7, 12, 3, 1, 1, 3}}) {
    const Shape xs{Dim(1), Dim(s.c), Dim(s.h), Dim(s.h)},
        ws{Dim(s.m), Dim(s.c / s.group), Dim(s.k), Dim(s.k)};
    const Evaluated x = random_u8(xs, 1);
    const auto w = random_s8(static_cast<std::size_t>(ws.count()), 2);
    std::vector<float> real;  // exact in f32: the accumulators are below 2^24
    for (std::uint8_t v : x.as<std::uint8_t>()) real.push_back(static_cast<float>(v - 77));
    const auto acc = naive_conv(real, std::vector<float>(w.begin(), w.end()), s.c, s.h, s.m, s.k,
                                s.stride, s.pad, s.group);
    const std::string p = std::to_string(s.pad), st = std::to_string(s.stride),
                      k = std::to_string(s.k);
    const std::string attributes = " kernel=[" + k + "," + k + "] strides=[" + st + "," + st +
                                   "] pads=[" + p + "," + p + "," + p + "," + p +
                                   "] group=" + std::to_string(s.group);
    const std::string head = "x: u8" + to_string(xs) + " @(0.03,77)\n w = const " +
                             literal("s8", ws, w, "@(0.02,0)") + "\n ";
    const int oh = (s.h + 2 * s.pad - s.k) / s.stride + 1;
    const std::string ys = to_string(Shape{Dim(1), Dim(s.m), Dim(oh), Dim(oh)});
    for (const kernels::Target* t : runnable_targets()) {
      const auto f32 =
          run_one(head + "y = conv(x, w)" + attributes + "\n return y", {x}, {t->kernels, 2})
              .as<float>();
      const auto u8 =
          run_one(head + "y: u8" + ys + " @(0.9,130) = conv(x, w)" + attributes + "\n return y",
                  {x}, {t->kernels, 2})
              .as<std::uint8_t>();
      ASSERT_EQ(f32.size(), acc.size());
      for (std::size_t i = 0; i < acc.size(); ++i) {
        ASSERT_EQ(f32[i], std::fma(acc[i], static_cast<float>(double(0.03f) * double(0.02f)), 0.0f))
            << t->name << attributes;
        ASSERT_EQ(
            u8[i],
            requantized(
                std::fma(acc[i], static_cast<float>(double(0.03f) * double(0.02f) / double(0.9f)),
                         0.0f),
                130))
            << t->name << attributes;
      }
    }
  }
}

TEST(ConvS8, TransposedAgreesWithF32) {
  const Evaluated x = random_u8({2, 4, 5, 5}, 1);
  std::vector<float> real;
  for (std::uint8_t v : x.as<std::uint8_t>()) real.push_back(static_cast<float>(v - 128));
  for (const char* group : {"1", "2"}) {
    const Shape ws{Dim(4), Dim(3), Dim(3), Dim(3)};
    const auto w = random_s8(static_cast<std::size_t>(ws.count()), 2);
    for (const char* pads : {"pads=[1,1,1,1] output_padding=[1,0]", "auto_pad=same_upper",
                             "auto_pad=same_lower", "output_shape=[10,9]"}) {
      const std::string rest = ") kernel=[3,3] strides=[2,2] " + std::string(pads) +
                               " transposed=true group=" + group + "\n return y";
      EXPECT_EQ(
          run_one("x: u8[2,4,5,5] @(1,128)\n y = conv(x, " + literal("s8", ws, w, "@(1,0)") + rest,
                  {x})
              .as<float>(),
          run_one("x: f32[2,4,5,5]\n y = conv(x, " + literal("f32", ws, w) + rest,
                  {value({2, 4, 5, 5}, real)})
              .as<float>())
          << rest;
    }
  }
}

// Most positions meet no tap at all.
TEST(ConvS8, TransposedWithStridesBeyondTheKernel) {
  const Evaluated x = random_u8({1, 4, 3}, 1);
  std::vector<float> real;
  for (std::uint8_t v : x.as<std::uint8_t>()) real.push_back(static_cast<float>(v - 128));
  const Shape ws{Dim(4), Dim(3), Dim(3)};
  const auto w = random_s8(static_cast<std::size_t>(ws.count()), 2);
  for (const char* stride : {"4", "7", "65536"}) {
    const std::string rest = ") strides=[" + std::string(stride) + "] transposed=true\n return y";
    EXPECT_EQ(
        run_one("x: u8[1,4,3] @(1,128)\n y = conv(x, " + literal("s8", ws, w, "@(1,0)") + rest, {x})
            .as<float>(),
        run_one("x: f32[1,4,3]\n y = conv(x, " + literal("f32", ws, w) + rest,
                {value({1, 4, 3}, real)})
            .as<float>())
        << rest;
  }
}

}  // namespace
}  // namespace fold8::ops
