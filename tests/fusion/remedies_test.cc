// What attempts try at no cost at run time: corrected biases, static scales among per-token ones;
// and that an attempt that fails is left out.
#include <algorithm>
#include <cmath>
#include <set>

#include "fusion/choose_rounding.h"
#include "fusion/mean_results.h"
#include "quant/sample_rows.h"
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(MeanResults, AreOfWhatActivationsRead) {
  const graph::Graph g = parsed(
      "x: f32[2,2]\ny = linear(x, f32[2,2]{1,0,0,2}, f32[2]{0,-100}) activation=clip a=0 b=inf\n"
      "return y");
  MemorySamples samples({{testing_support::tensor_of({2, 2}, {1, 2, 3, 4})},
                         {testing_support::tensor_of({2, 2}, {5, 6, 7, 8})}});
  const auto means = mean_results(g, layers_to_average(g), samples, 64, 1);
  ASSERT_TRUE(means.ok()) << means.error().message;
  ASSERT_EQ(means->layers.count("y"), 1u);
  EXPECT_EQ(means->layers.at("y"), (std::vector<double>{4, -90}));
}

TEST(MeanResults, ChannelsOfAConvolutionAreItsSecondAxis) {
  const graph::Graph g = parsed(
      "x: f32[1,1,2,2]\ny = conv(x, f32[2,1,1,1]{1,-3}) kernel=[1,1] strides=[1,1] "
      "pads=[0,0,0,0] dilations=[1,1]\nreturn y");
  MemorySamples samples({{testing_support::tensor_of({1, 1, 2, 2}, {1, 2, 3, 6})}});
  const auto means = mean_results(g, layers_to_average(g), samples, 64, 1);
  ASSERT_TRUE(means.ok()) << means.error().message;
  EXPECT_EQ(means->layers.at("y"), (std::vector<double>{3, -9}));
}

// Weights that are off shift a layer's results, and the next layer's through its input: each is
// corrected for its own part, borders included.
TEST(BiasCorrection, IsOfWhatALayerItselfShifts) {
  const auto text = [](const std::string& w) {
    return "x: f32[1,1,2,2]\na = conv(x, f32[1,1,3,3]{" + w +
           "}) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]\nb = conv(a, "
           "f32[2,1,1,1]{2,-3}, f32[2]{1,1}) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] "
           "dilations=[1,1]\nreturn b";
  };
  const graph::Graph g = parsed(text("0,0,0,0,1,0,0,0,0")),
                     off = parsed(text("0,0,0,0,1,0.5,0,0,0"));  // adds half of the right neighbour
  MemorySamples samples({{testing_support::tensor_of({1, 1, 2, 2}, {1, 2, 3, 6})}});
  const auto layers = layers_to_average(g);
  const auto wanted = mean_results(g, layers, samples, 64, 1),
             got = mean_results(off, layers, samples, 64, 1);
  ASSERT_TRUE(wanted.ok() && got.ok());
  const ChannelMeans c = bias_corrections(g, layers, *wanted, *got);
  ASSERT_EQ(c.size(), 2u);
  EXPECT_NEAR(c.at("a")[0], -(2 + 6) * 0.5 / 4, 1e-6);
  EXPECT_NEAR(c.at("b")[0], 0, 1e-6);
  EXPECT_NEAR(c.at("b")[1], 0, 1e-6);
}

TEST(BiasCorrection, IsAddedToTheBiasOrBecomesOne) {
  for (const char* bias : {", f32[2]{1,2}", ""}) {
    QuantizeOptions o;
    o.bias_corrections["y"] = {0.5, -1};
    const Quantized q = quantized(
        "x: f32[3,4]\ny = linear(x, random:f32[2,4]" + std::string(bias) + ")\nreturn y", o);
    const auto b = floats(q.graph, node_named(q.graph, "y").inputs[2]);
    EXPECT_EQ(b, *bias == '\0' ? (std::vector<float>{0.5f, -1}) : (std::vector<float>{1.5f, 1}));
  }
}

TEST(BiasCorrection, OfAnotherNumberOfChannelsIsIgnored) {
  QuantizeOptions o;
  o.bias_corrections["y"] = {0.5, -1, 7};
  const Quantized q =
      quantized("x: f32[3,4]\ny = linear(x, random:f32[2,4], f32[2]{1,2})\nreturn y", o);
  EXPECT_EQ(floats(q.graph, node_named(q.graph, "y").inputs[2]), (std::vector<float>{1, 2}));
}

// f32 in, a norm, a layer with GELU, a layer: per token.
constexpr const char* kMlp =
    "x: f32[4,6,32]\nn = norm(x, random:f32[32], random:f32[32])\n"
    "h = linear(n, random:f32[64,32], random:f32[64]) activation=gelu_erf\n"
    "y = linear(h, random:f32[8,64])\nreturn y";

TEST(StaticAmongPerToken, OnlyNamedTensorsGetOneScale) {
  QuantizeOptions o;
  o.static_inputs = {"h"};
  const Quantized q = quantized(kMlp, o);
  const auto scale_of = [&](const char* layer) {
    const auto& quant = q.graph.type(node_named(q.graph, layer).inputs[0]).quant;
    return quant && quant->is_per_tensor();
  };
  EXPECT_FALSE(scale_of("h"));
  EXPECT_TRUE(scale_of("y"));
}

TEST(StaticAmongPerToken, OneScaleIsForWhatLiesOnOneSideOfZero) {
  const graph::Graph g = parsed(kMlp);
  auto samples = normal_samples(g, 8);
  const auto table = calibrated(g, samples);
  const auto rows = quant::sample_rows(model_of(g), samples, {"n", "h"}, 64, 1);
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  QuantizeOptions o;
  EXPECT_TRUE(better_static(g, o, *rows).empty());  // no ranges
  o.calibration = &table;
  const auto chosen = better_static(g, o, *rows);
  EXPECT_EQ(chosen.count("n"), 0u);
  // The rule: the smaller error, each rounding carried out.
  EXPECT_LE(chosen.size(), 1u);
}

// All but the first sample fail from the n-th on that anybody asks for.
class FailingSamples : public MemorySamples {
 public:
  FailingSamples(MemorySamples samples, int good) : MemorySamples(samples), good_(good) {}
  Result<std::vector<Tensor>> sample(std::size_t i) override {
    if (i > 0 && reads >= good_) return invalid_argument("the disk is gone");
    return MemorySamples::sample(i);
  }

 private:
  int good_;
};

TEST(Attempts, WhatFailsIsLeftOut) {
  const graph::Graph g = parsed(kMlp);
  const MemorySamples samples = normal_samples(g, 8);
  ConvertOptions o;
  o.quantize.weights = quant::WeightGranularity::per_tensor;
  o.quantize.streams = Streams::f32;
  o.quantize.attention = AttentionProducts::f32;
  o.search = false;
  o.one_pass_samples = o.score_samples;  // both read the same
  FailingSamples counted(samples, 1 << 20);
  const auto plain = convert(g, &counted, o);
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  o.search = true;
  FailingSamples failing(samples, counted.reads - 1);  // its last one counts multiply-adds
  const auto searched = convert(g, &failing, o);
  ASSERT_TRUE(searched.ok()) << searched.error().message;
  EXPECT_EQ(searched->summary.outputs[0].error.sqnr_db, plain->summary.outputs[0].error.sqnr_db);
  EXPECT_THAT(searched->summary.warnings, Contains(HasSubstr("was left out: the disk is gone")));
}

// No attempt is worse than none.
TEST(Attempts, TheSearchDoesNotLose) {
  ConvertOptions o;
  o.quantize.weights = quant::WeightGranularity::per_tensor;
  o.search = false;
  const auto sqnr = [&] {
    const Converted c = must_convert(kMlp, o);
    return c.summary.outputs.empty() ? 0 : c.summary.outputs[0].error.sqnr_db.value_or(0);
  };
  const double plain = sqnr();
  o.search = true;
  EXPECT_GE(sqnr(), plain);
}

// `a` reads a feature that is huge and has weight 0: one scale, static or per token, loses the
// others. `b` has nearly all of the multiply-adds.
constexpr const char* kCheapAndBroken =
    "x: f32[8,4]\nz: f32[8,64]\n"
    "a = linear(x, f32[3,4]{0,1,-1,0.5, 0,0.5,1,-1, 0,-1,0.25,1})\n"
    "b = linear(z, random:f32[256,64])\nreturn a, b";

MemorySamples huge_feature(const graph::Graph& g) {
  auto samples = normal_samples(g, 16);
  for (auto& sample : samples.all())
    for (std::size_t row = 0; row < 8; ++row) sample[0].as<float>()[row * 4] = 5000;
  return samples;
}

TEST(Remedies, TheCheapLayerThatCostsMostStaysFloat) {
  const graph::Graph g = parsed(kCheapAndBroken);
  auto samples = huge_feature(g);
  const auto c = convert(g, &samples, {});
  ASSERT_TRUE(c.ok()) << c.error().message;
  ASSERT_EQ(c->summary.float_layers.size(), 1u);
  EXPECT_EQ(c->summary.float_layers[0].node, "a");
  EXPECT_THAT(c->summary.float_layers[0].why,
              testing::AllOf(HasSubstr("a remedy"), HasSubstr(" dB")));
  EXPECT_EQ(c->summary.quantized_layers, std::vector<std::string>{"b"});
  EXPECT_TRUE(c->summary.outputs[0].error.exact);
  // 96 of 8 * (12 + 16384) multiply-adds.
  EXPECT_NEAR(*c->summary.int8_mac_share, 1 - 12.0 / (12 + 16384), 1e-6);
  EXPECT_THAT(c->summary.warnings,
              Contains(testing::AllOf(HasSubstr("INT8 was poor"),
                                      HasSubstr("1 layer left float, 0.1 % of the multiply-adds"),
                                      HasSubstr("--no-search"))));
  EXPECT_THAT(c->summary.warnings, testing::Not(Contains(HasSubstr("stays poor"))));
}

TEST(Remedies, NoLayerStaysFloatWhereThatIsNotAllowedOrNotEnough) {
  const graph::Graph g = parsed(kCheapAndBroken);
  auto samples = huge_feature(g);
  ConvertOptions none, search_off, dear;
  none.most_float_share = 0;
  search_off.search = false;
  dear.most_float_share = 0.0005;  // the layer has 0.0007
  for (const ConvertOptions& o : {none, search_off, dear}) {
    const auto c = convert(g, &samples, o);
    ASSERT_TRUE(c.ok()) << c.error().message;
    EXPECT_TRUE(c->summary.float_layers.empty());
    EXPECT_LT(*c->summary.outputs[0].error.sqnr_db, 15);
    EXPECT_EQ(std::any_of(c->summary.warnings.begin(), c->summary.warnings.end(),
                          [](const auto& w) { return w.find("stays poor") != std::string::npos; }),
              o.search);
  }
}

TEST(Remedies, ASoundNetworkKeepsAllLayersInInt8) {
  const graph::Graph g = parsed(kCheapAndBroken);
  auto samples = normal_samples(g, 16);
  const auto c = convert(g, &samples, {});
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_TRUE(c->summary.float_layers.empty());
}

}  // namespace
}  // namespace fold8::fusion
