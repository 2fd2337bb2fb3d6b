// Linear and MatMul: f32 against a chain of fma, INT8 against the formulas of SPEC 5a evaluated
// naively, on every target.
#include <cmath>

#include "runtime/ops/pack_weights.h"
#include "tests/ops/matrix_values.h"

namespace fold8::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Params {
  float scale;
  int zero;
};

TEST(LinearF32, IsOneFmaChain) {
  const Evaluated x = random_f32({5, 37}, 1), w = random_f32({21, 37}, 2), b = random_f32({21}, 3);
  const std::string text = "x: f32[5,37]\n w = const " + literal("f32", {21, 37}, w.as<float>()) +
                           "\n y = linear(x, w, " + literal("f32", {21}, b.as<float>()) +
                           ")\n return y";
  for (const kernels::Target* t : runnable_targets()) {
    const auto y = run_one(text, {x}, {t->kernels, 2}).as<float>();
    ASSERT_EQ(y.size(), 105u);
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t n = 0; n < 21; ++n) {
        float acc = 0;
        for (std::size_t k = 0; k < 37; ++k)
          acc = std::fma(x.as<float>()[i * 37 + k], w.as<float>()[n * 37 + k], acc);
        ASSERT_EQ(y[i * 21 + n], acc + b.as<float>()[n]) << t->name;
      }
  }
}

TEST(LinearF32, ComputedAndBatchedWeightsGiveTheSameBits) {
  const Evaluated x = random_f32({2, 3, 8}, 1), w = random_f32({2, 5, 8}, 2);
  const auto constant = run_one("x: f32[2,3,8]\n y = linear(x, " +
                                    literal("f32", {2, 5, 8}, w.as<float>()) + ")\n return y",
                                {x})
                            .as<float>();
  const auto computed =
      run_one("x: f32[2,3,8]\n w: f32[2,5,8]\n y = linear(x, w)\n return y", {x, w}).as<float>();
  const auto product =
      run_one("x: f32[2,3,8]\n w: f32[2,5,8]\n y = matmul(x, w) transpose_b=true\n return y",
              {x, w})
          .as<float>();
  EXPECT_EQ(constant, computed);
  EXPECT_EQ(constant, product);
}

TEST(MatMulF32, RanksAlphaAndBroadcasting) {
  EXPECT_THAT(run_one("a: f32[2]\n b: f32[2,2]\n y = matmul(a, b)\n return y",
                      {value<float>({2}, {1, 2}), value<float>({2, 2}, {1, 2, 3, 4})})
                  .as<float>(),
              ElementsAre(7, 10));
  EXPECT_THAT(run_one("a: f32[2]\n b: f32[2]\n y = matmul(a, b) alpha=0.5\n return y",
                      {value<float>({2}, {1, 2}), value<float>({2}, {3, 4})})
                  .as<float>(),
              ElementsAre(5.5f));
  EXPECT_THAT(run_one("a: f32[2,1,2]\n b: f32[2,1]\n y = matmul(a, b)\n return y",
                      {value<float>({2, 1, 2}, {1, 2, 3, 4}), value<float>({2, 1}, {1, 1})})
                  .as<float>(),
              ElementsAre(3, 7));
  EXPECT_THAT(run_one("a: s64[1,2]\n b: s64[2,1]\n y = matmul(a, b)\n return y",
                      {value<std::int64_t>({1, 2}, {3, 4}), value<std::int64_t>({2, 1}, {5, 6})})
                  .as<std::int64_t>(),
              ElementsAre(39));
}

TEST(LinearS8, FollowsTheContract) {
  const std::size_t rows = 7, K = 70, N = 19;
  const Evaluated x = random_u8({7, 70}, 4), r = random_u8({7, 19}, 6);
  const auto w = random_s8(N * K, 5);
  const Evaluated b = random_f32({19}, 7, 5);
  const Params px{0.02f, 117}, py{0.7f, 101}, pr{0.11f, 90};
  const float sw = 0.013f;
  const std::string head = "x: u8[7,70] @(0.02,117)\n r: u8[7,19] @(0.11,90)\n w = const " +
                           literal("s8", {19, 70}, w, "@(0.013,0)") + "\n b = const " +
                           literal("f32", {19}, b.as<float>()) + "\n ";
  for (const kernels::Target* t : runnable_targets()) {
    const auto f32 =
        run_one(head + "y = linear(x, w, b)\n return y", {x, r}, {t->kernels, 2}).as<float>();
    const auto u8 =
        run_one(
            head +
                "y: u8[7,19] @(0.7,101) = linear(x, w, b, r) activation=clip a=0 b=30\n return y",
            {x, r}, {t->kernels, 2})
            .as<std::uint8_t>();
    const auto tanh =
        run_one(
            head +
                "y: u8[7,19] @(0.7,101) = linear(x, w, b) activation=leaky_relu a=0.5\n return y",
            {x, r}, {t->kernels, 2})
            .as<std::uint8_t>();
    const auto s32 =
        run_one(head + "y: s32[7,19] = linear(x, w)\n return y", {x, r}, {t->kernels, 2})
            .as<std::int32_t>();
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t n = 0; n < N; ++n) {
        std::int32_t acc = 0;
        for (std::size_t k = 0; k < K; ++k)
          acc += (x.as<std::uint8_t>()[i * K + k] - px.zero) * w[n * K + k];
        const std::size_t at = i * N + n;
        ASSERT_EQ(s32[at], acc);
        const auto m = static_cast<float>(double(px.scale) * double(sw)),
                   my = static_cast<float>(double(px.scale) * double(sw) / double(py.scale));
        ASSERT_EQ(f32[at], std::fma(float(acc), m, b.as<float>()[n])) << t->name;
        float v = std::fma(float(acc), my,
                           static_cast<float>(double(b.as<float>()[n]) / double(py.scale)));
        v = std::fma(float(r.as<std::uint8_t>()[at] - pr.zero),
                     static_cast<float>(double(pr.scale) / double(py.scale)), v);
        v = std::min(std::max(v, 0.0f), static_cast<float>(30.0 / double(py.scale)));
        ASSERT_EQ(u8[at], requantized(v, py.zero)) << t->name;
        float l = std::fma(float(acc), m, b.as<float>()[n]);
        l = l < 0 ? 0.5f * l : l;
        ASSERT_EQ(tanh[at], requantized(l / py.scale, py.zero)) << t->name;
      }
  }
}

TEST(LinearS8, PerTokenPerChannelZeroPointsAndSignedActivations) {
  const auto w = random_s8(16 * 32, 5);
  const std::string weight = literal("s8", {16, 32}, w, "@(0.01,0)"),
                    shifted = literal("s8", {16, 32}, w, "@(0.01,3)");
  const Evaluated x = random_f32({4, 32}, 3);
  const auto q = run_text("x: f32[4,32]\n q, s = dynamic_quantize(x)\n y = linear(q, " + weight +
                              ", _, _, s)\n return q, s, y",
                          {x});
  ASSERT_TRUE(q.ok()) << q.error().message;
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t n = 0; n < 16; ++n) {
      std::int32_t acc = 0;
      for (std::size_t k = 0; k < 32; ++k)
        acc += (q->at(0).as<std::uint8_t>()[i * 32 + k] - 128) * w[n * 32 + k];
      ASSERT_EQ(q->at(2).as<float>()[i * 16 + n],
                std::fma(float(acc) * q->at(1).as<float>()[i], 0.01f, 0.0f));
    }
  // u8 codes and s8 codes of the same numbers, on both sides
  Evaluated u = random_u8({4, 32}, 9), s = u;
  s = value<std::int8_t>({4, 32}, u.as<std::int8_t>());
  for (std::size_t i = 0; i < 128; ++i) s.data->mutable_data()[i] ^= std::byte{0x80};
  std::vector<int> uw;
  for (std::int8_t v : w) uw.push_back(v + 128);
  const std::string unsigned_weight = literal("u8", {16, 32}, uw, "@(0.01,131)");
  const auto a = run_one("x: u8[4,32] @(0.1,100)\n y: u8[4,16] @(2,128) = linear(x, " + shifted +
                             ")\n return y",
                         {u})
                     .as<std::uint8_t>();
  auto b = run_one("x: s8[4,32] @(0.1,-28)\n y: s8[4,16] @(2,0) = linear(x, " + unsigned_weight +
                       ")\n return y",
                   {s})
               .as<std::uint8_t>();
  for (auto& v : b) v ^= 0x80;
  EXPECT_EQ(a, b);
}

TEST(LinearS8, GroupsAlongK) {
  graph::Graph g =
      *graph::parse("x: u8[3,10] @(0.05,128)\n y = linear(x, random:s8[4,10] @(1,0))\n return y");
  std::vector<float> scales;
  for (int i = 0; i < 12; ++i) scales.push_back(0.01f * static_cast<float>(i + 1));
  const graph::ValueId w = g.node(0).inputs[1];
  g.value(w).type.quant = *QuantParams::per_group(1, 4, scales);
  const Evaluated x = random_u8({3, 10}, 1);
  const auto y = run_graph(g, {x});
  ASSERT_TRUE(y.ok()) << y.error().message;
  const auto codes = g.constant<std::int8_t>(w);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t n = 0; n < 4; ++n) {
      float sum = 0;
      for (std::size_t block = 0; block < 3; ++block) {
        std::int32_t acc = 0;
        for (std::size_t k = block * 4; k < std::min<std::size_t>(10, block * 4 + 4); ++k)
          acc += (x.as<std::uint8_t>()[i * 10 + k] - 128) * codes[n * 10 + k];
        sum = std::fma(float(acc),
                       static_cast<float>(double(0.05f) * double(scales[n * 3 + block])), sum);
      }
      ASSERT_EQ(y->at(0).as<float>()[i * 4 + n], sum);
    }
}

TEST(LinearS8, WeightOnly) {
  const Evaluated x = random_f32({2, 8}, 1);
  const auto w = random_s8(3 * 8, 2);
  std::vector<float> real;
  for (std::int8_t v : w) real.push_back(static_cast<float>(v - 2) * 0.25f);
  EXPECT_EQ(
      run_one(
          "x: f32[2,8]\n y = linear(x, " + literal("s8", {3, 8}, w, "@(0.25,2)") + ")\n return y",
          {x})
          .as<float>(),
      run_one("x: f32[2,8]\n y = linear(x, " + literal("f32", {3, 8}, real) + ")\n return y", {x})
          .as<float>());
}

TEST(MatMulS8, IntegerProductsWithZeroPoints) {
  const Evaluated a = random_u8({3, 9}, 1), b = random_u8({9, 18}, 2);
  const auto y =
      run_one("a: u8[3,9]\n b: u8[9,18]\n y = matmul(a, b, u8[]{7}, u8[]{200})\n return y", {a, b})
          .as<std::int32_t>();
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t n = 0; n < 18; ++n) {
      std::int32_t acc = 0;
      for (std::size_t k = 0; k < 9; ++k)
        acc += (a.as<std::uint8_t>()[i * 9 + k] - 7) * (b.as<std::uint8_t>()[k * 18 + n] - 200);
      ASSERT_EQ(y[i * 18 + n], acc);
    }
  EXPECT_THAT(
      run_one("a: s8[1,2]\n b: s8[2,1]\n y = matmul(a, b)\n return y",
              {value<std::int8_t>({1, 2}, {-128, 5}), value<std::int8_t>({2, 1}, {127, -7})})
          .as<std::int32_t>(),
      ElementsAre(-16291));
}

}  // namespace
}  // namespace fold8::ops
