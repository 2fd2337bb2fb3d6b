// Weights rounded for the outputs of linear layers and convolutions of a graph; and by which
// tensors attempts are compared.
#include "fusion/round_weights.h"

#include "fusion/judged_outputs.h"
#include "fusion/rewrite/constants.h"
#include "fusion/score.h"
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kSquare = " kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]";

// Neighbouring positions that resemble each other, as in pictures.
MemorySamples smooth_samples(const graph::Graph& g) {
  MemorySamples samples = normal_samples(g, 8);
  for (auto& sample : samples.all()) {
    auto x = sample[0].as<float>();
    for (std::size_t i = 1; i < x.size(); ++i) x[i] = 0.95f * x[i - 1] + 0.3f * x[i];
  }
  return samples;
}

RoundedWeights rounded(const graph::Graph& g, quant::SampleSource& samples, int threads = 1) {
  RoundWeightsOptions o;
  o.threads = threads;
  auto r = round_weights(g, model_of(g), samples, o);
  EXPECT_TRUE(r.ok()) << r.error().message;
  return r.ok() ? std::move(*r) : RoundedWeights{};
}

// Of the outputs with only the weights rounded, in dB.
double sqnr_with(const graph::Graph& g, const RoundedWeights& weights,
                 quant::SampleSource& samples) {
  graph::Graph changed = g;
  for (graph::NodeId n = 0; n < changed.node_count(); ++n) {
    const graph::ValueId w = changed.node(n).inputs[1];
    const auto it = weights.find(changed.value(w).name);
    if (it == weights.end()) continue;
    std::vector<double> values;
    const auto scales = it->second.params.scales();
    const std::size_t each = it->second.codes.size() / scales.size();
    for (std::size_t i = 0; i < it->second.codes.size(); ++i)
      values.push_back(it->second.codes[i] * double{scales[i / each]});
    changed.node(n).inputs[1] = add_floats(changed, "rounded", changed.type(w).shape, values);
  }
  FloatOutputs kept;
  ScoreOptions o;
  o.samples = first_samples(samples.count(), 8);
  const auto s =
      score([&] { return exec::Model::from_graph(g); }, model_of(changed), samples, o, kept);
  EXPECT_TRUE(s.ok());
  return s.ok() ? s->worst_sqnr_db.value_or(0) : 0;
}

TEST(RoundWeights, ConvolutionsErrLessInTheirOutputs) {
  for (const std::string& layer : {"conv(x, random:f32[6,4,3,3])" + kSquare,
                                   "conv(x, random:f32[4,1,3,3])" + kSquare + " group=4",
                                   "conv(x, random:f32[6,2,3,3])" + kSquare + " group=2"}) {
    const graph::Graph g = parsed("x: f32[1,4,12,12]\ny = " + layer + "\nreturn y");
    MemorySamples samples = smooth_samples(g);
    const RoundedWeights ours = rounded(g, samples);
    ASSERT_EQ(ours.size(), 1u);
    const graph::ValueId w = g.node(0).inputs[1];
    auto nearest = quant::quantize_weight(g.constant<float>(w), g.type(w).shape, 0,
                                          quant::WeightGranularity::per_channel);
    ASSERT_TRUE(nearest.ok());
    EXPECT_EQ(ours.begin()->second.params, nearest->params);
    const RoundedWeights theirs = {{g.value(w).name, *std::move(nearest)}};
    EXPECT_GT(sqnr_with(g, ours, samples), sqnr_with(g, theirs, samples) + 3) << layer;
    EXPECT_EQ(rounded(g, samples, 3).begin()->second.codes, ours.begin()->second.codes);
  }
}

TEST(RoundWeights, WeightsThatMeetOtherRowsTooAreLeftOut) {
  const std::string pad = " kernel=[1,1] strides=[1,1] dilations=[1,1] pads=";
  graph::Graph g = parsed(
      "x: f32[1,4,8,8]\na = conv(x, random:f32[4,4,1,1])" + pad +
      "[0,0,0,0]\nb = conv(a, random:f32[4,4,1,1])" + pad +
      "[0,0,0,0]\nc = conv(b, random:f32[4,4,1,1])" + pad +
      "[0,0,0,0]\nd = conv(c, random:f32[4,4,2,2]) kernel=[2,2] strides=[2,2] pads=[0,0,0,0] "
      "dilations=[1,1] transposed=true\nreturn d");
  g.node(1).inputs[1] = g.node(0).inputs[1];
  MemorySamples samples = smooth_samples(g);
  const RoundedWeights r = rounded(g, samples);
  ASSERT_EQ(r.size(), 1u);  // c's
  EXPECT_EQ(r.begin()->first, g.value(node_named(g, "c").inputs[1]).name);
}

TEST(JudgedOutputs, OfASoftmaxItIsWhatItReads) {
  graph::Graph g = parsed(
      "x: f32[2,8]\na = linear(x, random:f32[4,8])\ny = softmax(a) axis=1\nz = relu(x)\n"
      "return y, z");
  const auto names = judged_outputs(g);
  EXPECT_THAT(names, ElementsAre("a", "z"));
  ASSERT_TRUE(judge_by(g, names));
  EXPECT_EQ(g.value(g.outputs[0]).name, "a");
  EXPECT_EQ(g.value(g.outputs[1]).name, "z");
  EXPECT_FALSE(judge_by(g, {"nowhere", "z"}));
}

TEST(JudgedOutputs, AreFoundBehindACast) {
  const graph::Graph g = parsed(
      "x: f32[2,8]\na = linear(x, random:f32[4,8])\ns = softmax(a) axis=1\ny = cast(s) to=f16\n"
      "i = cast(s) to=s32\nreturn y, i");
  EXPECT_THAT(judged_outputs(g), ElementsAre("a", "i"));
}

TEST(JudgedOutputs, StandBehindTheOutputs) {
  graph::Graph g = parsed(
      "x: f32[2,8]\na = linear(x, random:f32[4,8])\ny = softmax(a) axis=1\nz = relu(x)\n"
      "return z, y");
  EXPECT_THAT(judge_also(g, judged_outputs(g)), ElementsAre(0, 2));
  std::vector<std::string> names;
  for (const graph::ValueId v : g.outputs) names.push_back(g.value(v).name);
  EXPECT_THAT(names, ElementsAre("z", "y", "a"));
  EXPECT_THAT(judge_also(g, {}), IsEmpty());
  EXPECT_THAT(judge_also(g, {"z", "nowhere", "a"}), IsEmpty());
  EXPECT_EQ(g.outputs.size(), 3u);
}

// One run gives the outputs' own errors and those they are judged by.
TEST(JudgedOutputs, AreScoredWithTheOutputs) {
  graph::Graph a = parsed("x: f32[1,4]\ny = softmax(x) axis=1\nreturn y"),
               b = parsed(
                   "x: f32[1,4]\ns = affine(x, f32[4]{1,1,1,1}, f32[4]{1,1,1,1}) axis=1\n"
                   "x2 = relu(s)\ny = softmax(x2) axis=1\nreturn y");
  a.outputs.push_back(a.inputs[0]);
  b.outputs.push_back(node_named(b, "x2").outputs[0]);
  MemorySamples samples({{testing_support::tensor_of({1, 4}, {1, 2, 3, 9})}});
  FloatOutputs kept;
  ScoreOptions o;
  o.samples = {0};
  o.judged = {1};
  const auto s = score([&] { return exec::Model::from_graph(a); }, model_of(b), samples, o, kept);
  ASSERT_TRUE(s.ok()) << s.error().message;
  ASSERT_EQ(s->outputs.size(), 1u);
  EXPECT_EQ(s->outputs[0].name, "y");  // a shift, which a Softmax does not see
  EXPECT_GT(s->outputs[0].error.sqnr_db.value_or(1e9), 100);
  EXPECT_NEAR(s->worst_sqnr_db.value_or(0), 13.76, 0.01);  // 95 / 4
}

TEST(ScoredSamples, TheFirstOrSpreadOverAll) {
  EXPECT_THAT(first_samples(32, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(even_samples(32, 4), ElementsAre(0, 8, 16, 24));
  EXPECT_THAT(even_samples(5, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(even_samples(3, 4), ElementsAre(0, 1, 2));
  EXPECT_THAT(even_samples(0, 4), IsEmpty());
}

TEST(JudgedOutputs, NoneWithoutASoftmax) {
  EXPECT_THAT(judged_outputs(parsed("x: f32[2,8]\ny = relu(x)\nreturn y")), IsEmpty());
}

// What people read is the error of the outputs themselves.
TEST(JudgedOutputs, TheSummaryNamesTheOutputs) {
  const Converted c =
      must_convert("x: f32[2,8]\na = linear(x, random:f32[4,8])\ny = softmax(a) axis=1\nreturn y");
  ASSERT_EQ(c.summary.outputs.size(), 1u);
  EXPECT_EQ(c.summary.outputs[0].name, "y");
}

}  // namespace
}  // namespace fold8::fusion
