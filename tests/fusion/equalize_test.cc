// Factors that move between neighbouring layers: the tensor between them gets channels of like
// size, and not a bit of the float results changes.
#include <cmath>

#include "fusion/passes/passes.h"
#include "quant/compare.h"
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

const std::string kSquare = " kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]";
const std::string kPoint = " kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]";
constexpr const char* kGains = "f32[4,1,1,1]{64,1,0.015625,8}";
constexpr const char* kUndo = "f32[1,4,1,1]{0.015625,1,64,0.125}";

// Two layers over four channels of very different size, which the second one undoes.
std::string pair(const std::string& first_attributes, const std::string& more = "return y") {
  return "x: f32[2,4,5,5]\nw1 = binary(random:f32[4,1,3,3], " + std::string(kGains) +
         ") kind=mul\nw2 = binary(random:f32[3,4,1,1], " + kUndo +
         ") kind=mul\na = conv(x, w1, random:f32[4])" + kSquare + " group=4" + first_attributes +
         "\ny = conv(a, w2, random:f32[3])" + kPoint + "\n" + more;
}

struct Equalized {
  graph::Graph before, after;
  int pairs = 0;
};
Equalized equalized(const std::string& text) {
  Equalized e{parsed(text), {}, 0};
  EXPECT_TRUE(run(Stage{"constants", {&fold_constants}}, e.before).ok());
  e.after = e.before;
  auto tally = run(Stage{"equalize", {&equalize}}, e.after);
  EXPECT_TRUE(tally.ok()) << tally.error().message;
  if (tally.ok()) e.pairs = tally->applied;
  expect_verified(e.after);
  return e;
}

double spread_of(const graph::Graph& g, const char* node) {
  const auto w = floats(g, node_named(g, node).inputs[1]);
  const std::size_t each = w.size() / 4;
  double least = HUGE_VAL, most = 0;
  for (std::size_t c = 0; c < 4; ++c) {
    double range = 0;
    for (std::size_t i = 0; i < each; ++i)
      range = std::max(range, double{std::fabs(w[c * each + i])});
    least = std::min(least, range), most = std::max(most, range);
  }
  return most / least;
}

TEST(Equalize, ChannelsBetweenTwoLayersGetLikeSizes) {
  for (const char* activation :
       {"", " activation=clip a=0 b=inf", " activation=leaky_relu a=0.1"}) {
    const Equalized e = equalized(pair(activation));
    EXPECT_GE(e.pairs, 1) << activation;
    EXPECT_GT(spread_of(e.before, "a"), 500);
    EXPECT_LT(spread_of(e.after, "a"), 32);
  }
}

TEST(Equalize, TheFloatResultsKeepTheirBits) {
  const Equalized e = equalized(pair(" activation=clip a=0 b=inf"));
  auto samples = normal_samples(e.before, 3);
  for (const auto& s : samples.all())
    EXPECT_TRUE(same_bytes(run_once(e.before, s)[0], run_once(e.after, s)[0]));
}

// original = stored * factor, for whoever compares the tensor between them by its name.
TEST(Equalize, TheTensorBetweenThemKeepsItsNameAndItsFactors) {
  const Equalized e = equalized(pair(""));
  const graph::ValueId a = node_named(e.after, "y").inputs[0];
  EXPECT_EQ(e.after.value(a).name, "a");
  ASSERT_EQ(e.after.value(a).rescale.size(), 4u);
  EXPECT_EQ(e.after.value(a).rescale_axis, 1);
  const auto was = floats(e.before, node_named(e.before, "a").inputs[1]),
             is = floats(e.after, node_named(e.after, "a").inputs[1]);
  for (std::size_t i = 0; i < was.size(); ++i)
    EXPECT_EQ(is[i] * e.after.value(a).rescale[i / 9], was[i]);
}

TEST(Equalize, LeavesAloneWhatAFactorCannotCross) {
  for (const std::string& text :
       {pair(" activation=hard_swish a=0.16 b=0.5"), pair(" activation=clip a=0 b=6"),
        pair("", "return y, a"), pair("", "z = relu(a)\nreturn y, z")}) {
    const Equalized e = equalized(text);
    EXPECT_EQ(e.pairs, 0) << text;
    EXPECT_EQ(graph::to_text(e.after), graph::to_text(e.before));
  }
  EXPECT_EQ(equalized("x: f32[2,4,5,5]\na = conv(x, random:f32[4,1,3,3])" + kSquare +
                      " group=4\ny = conv(a, random:f32[3,4,1,1])" + kPoint + "\nreturn y")
                .pairs,
            0)
      << "channels of like size";
}

TEST(Equalize, DeadChannelsKeepAFactorOfOne) {
  const Equalized e = equalized(
      "x: f32[2,4,5,5]\nw1 = binary(random:f32[4,1,3,3], f32[4,1,1,1]{64,0,0.015625,8}) kind=mul\n"
      "a = conv(x, w1)" +
      kSquare + " group=4\ny = conv(a, random:f32[3,4,1,1])" + kPoint + "\nreturn y");
  ASSERT_EQ(e.pairs > 0, true);
  EXPECT_EQ(e.after.value(node_named(e.after, "y").inputs[0]).rescale[1], 1.0f);
}

TEST(Equalize, AReportAgainstTheOriginalSeesNoDifference) {
  const Equalized e = equalized(pair(" activation=clip a=0 b=inf"));
  ASSERT_GE(e.pairs, 1);
  auto samples = normal_samples(e.before, 3);
  const auto c = quant::compare(model_of(e.before), model_of(e.after), samples);
  ASSERT_TRUE(c.ok()) << c.error().message;
  ASSERT_EQ(c->layers.size(), 2u);  // factors are powers of two: nothing is rounded
  for (const auto& l : c->layers) {
    EXPECT_TRUE(l.accumulated.exact) << l.name;
    ASSERT_TRUE(l.own) << l.own_missing;
    EXPECT_TRUE(l.own->exact) << l.name;
  }
  EXPECT_TRUE(c->outputs[0].error.exact);
}

}  // namespace
}  // namespace fold8::fusion
