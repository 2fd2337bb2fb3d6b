// --keep-float on models that bring their own Q/DQ.
#include "fusion/passes/float_pairs.h"

#include "fusion/convert.h"
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// x -> relu h -> pair -> layer -> relu -> y; the layer's weights come as codes.
constexpr const char* kPair =
    "x: f32[4,8]\nh = unary(x) kind=relu\nq: u8[4,8] @(0.001,0) = quantize(h)\nd = "
    "dequantize(q)\nw = const random:s8[8,8] @(0.01,0)\nv = dequantize(w)\nl = linear(d, v)\ny = "
    "unary(l) kind=relu\nreturn y";

int pairs_left(const graph::Graph& g) {
  auto copy = g;
  EXPECT_TRUE(copy.compact().ok());
  return count_ops(copy, "quantize");
}

TEST(FloatPairs, NamedByTensorNodeOrLayer) {
  for (const char* glob : {"h", "d", "l", "y", "l*"}) {
    graph::Graph g = parsed(kPair);
    EXPECT_THAT(drop_pairs(g, {glob}), ElementsAre(glob));
    EXPECT_EQ(pairs_left(g), 0) << glob;
  }
}

TEST(FloatPairs, WhatTheFileRoundsIsRemembered) {
  graph::Graph g = parsed(kPair);
  EXPECT_TRUE(file_scales(g).empty());
  remember_file_scales(g);
  const auto found = file_scales(g);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.begin()->first, "h");
  EXPECT_THAT(drop_pairs(g, {found.begin()->second}), ElementsAre(found.begin()->second));
  EXPECT_EQ(pairs_left(g), 0);
}

TEST(FloatPairs, OthersStay) {
  graph::Graph g = parsed(kPair);
  EXPECT_THAT(drop_pairs(g, {"x", "other"}), IsEmpty());
  EXPECT_THAT(drop_pairs(g, {}), IsEmpty());
  EXPECT_EQ(pairs_left(g), 1);
}

TEST(FloatPairs, OfAGraphOutputKeepsTheName) {
  graph::Graph g = parsed(
      "x: f32[4,8]\nh = unary(x) kind=relu\nq: u8[4,8] @(0.001,0) = quantize(h)\nd = "
      "dequantize(q)\nreturn d");
  EXPECT_THAT(drop_pairs(g, {"h"}), ElementsAre("h"));
  EXPECT_EQ(pairs_left(g), 0);
  ASSERT_EQ(g.outputs.size(), 1u);
  EXPECT_EQ(g.value(g.outputs[0]).name, "d");
}

TEST(FloatPairs, ConvertLeavesWhatTheyRoundedFloat) {
  const graph::Graph g = parsed(kPair);
  auto samples = testing_support::normal_samples(g, 4);
  ConvertOptions options;
  const auto broken = convert(g, &samples, options);
  options.quantize.keep_float = {"y"};
  const auto fixed = convert(g, &samples, options);
  ASSERT_TRUE(broken.ok() && fixed.ok());
  ASSERT_EQ(fixed->summary.float_layers.size(), 1u);
  EXPECT_THAT(fixed->summary.warnings, IsEmpty());
  // The float network rounds as the file says; without the pair nothing is clipped at 0.255.
  const auto sample = samples.all()[0];
  const auto clipped = testing_support::run_once(broken->graph, sample),
             whole = testing_support::run_once(fixed->graph, sample);
  double a = 0, b = 0;
  for (const float v : clipped[0].as<float>()) a += static_cast<double>(v) * static_cast<double>(v);
  for (const float v : whole[0].as<float>()) b += static_cast<double>(v) * static_cast<double>(v);
  EXPECT_GT(b, 4 * a);
}

}  // namespace
}  // namespace fold8::fusion
