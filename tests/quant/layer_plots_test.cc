#include "quant/layer_plots.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "quant/compare.h"
#include "quant/weight_ranges.h"
#include "tests/support/memory_samples.h"
#include "tests/support/parsed_graph.h"

namespace fold8::quant {
namespace {

using ::testing::ElementsAre;
using testing_support::MemorySamples;
using testing_support::model_of;
using testing_support::normal_samples;
using testing_support::parsed;
using testing_support::tensor_of;

TEST(LayerPlots, RangesAndErrorsOfChannels) {
  LayerPlotter plotter(1, 2, 2);
  plotter.add(0, {1, 2, 2}, std::vector<float>{1, 2, 30, 40}, std::vector<float>{1, 2.5f, 30, 38});
  plotter.add(1, {1, 2, 1}, std::vector<float>{5, -7}, std::vector<float>{5, -7});
  const LayerPlots p = plotter.take();
  ASSERT_EQ(p.channels.size(), 2u);
  EXPECT_EQ(p.channels[0].min.reference, 1);  // not 0, which no element is
  EXPECT_EQ(p.channels[0].max.reference, 5);
  EXPECT_EQ(p.channels[1].min.got, -7);
  EXPECT_EQ(p.channels[1].max.got, 38);
  EXPECT_EQ(p.channels[0].power, 1 + 4 + 25);
  EXPECT_EQ(p.channels[0].error, 0.25);
  EXPECT_EQ(p.channels[1].error, 4);
  EXPECT_EQ(p.reference.min(), -7);
  EXPECT_EQ(p.got.max(), 38);
  EXPECT_EQ(p.reference.count(), 6u);
  ASSERT_TRUE(p.worst);
  EXPECT_EQ(p.worst->sample, 0u);
  EXPECT_EQ(p.worst->element, 3u);
  EXPECT_EQ(p.worst->value.reference, 40);
  EXPECT_EQ(p.worst->value.got, 38);
}

TEST(LayerPlots, DrawnValuesAreBoundedAndSpreadOverSamples) {
  for (const std::size_t samples : {1u, 7u, 256u, 5000u}) {
    LayerPlotter plotter(-1, 0, samples);
    for (std::size_t s = 0; s < samples; ++s) {
      const std::vector<float> values(3, static_cast<float>(s));
      plotter.add(s, {3}, values, values);
    }
    const LayerPlots p = plotter.take();
    EXPECT_EQ(p.values.size(), LayerPlotter::kValues) << samples;
    EXPECT_LT(p.values.front().reference, static_cast<float>(samples) / 8 + 1);
    EXPECT_GE(p.values.back().reference, static_cast<float>(samples) * 7 / 8 - 1);
    EXPECT_TRUE(p.channels.empty());
  }
}

TEST(LayerPlots, SamplesBeyondTheExpectedOnesAndInfinitiesDrawNothing) {
  LayerPlotter plotter(-1, 0, 1);
  const std::vector<float> infinite = {1, HUGE_VALF}, none;
  plotter.add(0, {2}, infinite, infinite);
  plotter.add(0, {0}, none, none);
  EXPECT_TRUE(plotter.take().reference.empty());
  const std::vector<float> one = {1};
  for (std::size_t s = 0; s < 3; ++s) plotter.add(s, {1}, one, one);
  EXPECT_LE(plotter.take().values.size(), LayerPlotter::kValues);
}

TEST(LayerPlots, ComparisonsFillThem) {
  const graph::Graph a =
      parsed("x: f32[1,4]\nr = relu(x)\ny = linear(r, f32[1,4]{1,1,1,1})\nreturn y");
  const graph::Graph b = parsed(
      "x: f32[1,4]\nr: u8[1,4] @(0.01,0) = relu(x)\ny = linear(r, s8[1,4] @(1,0) "
      "{1,1,1,1})\nreturn y");
  MemorySamples samples({{tensor_of({1, 4}, {-1, 0.5f, 0.501f, 9})}});
  CompareOptions options;
  options.plots = true;
  std::vector<std::string> outputs;
  options.on_output = [&](const OutputPair& p) {
    outputs.push_back(p.name);
    EXPECT_EQ(p.shape, (Shape{1, 1}));
    EXPECT_EQ(p.dtype, DType::f32);
    EXPECT_EQ(p.reference.size(), 1u);
    return ok_status();
  };
  const auto c = compare(model_of(a), model_of(b), samples, options);
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_THAT(outputs, ElementsAre("y"));
  const LayerError& r = c->layers[0];
  ASSERT_TRUE(r.plots);
  EXPECT_EQ(r.plots->channels.size(), 4u);
  EXPECT_EQ(r.plots->worst->element, 3u);
  ASSERT_EQ(r.code_counts.size(), 256u);
  EXPECT_EQ(r.code_counts[0], 1u);
  EXPECT_EQ(r.code_counts[50], 2u);
  EXPECT_EQ(r.code_counts[255], 1u);
  ASSERT_TRUE(r.range);
  EXPECT_NEAR(r.range->second, 2.55, 1e-6);
  EXPECT_FALSE(c->layers[1].range);
}

TEST(LayerPlots, AnErrorOfTheCallerEndsTheComparison) {
  const graph::Graph g = parsed("x: f32[1,2]\ny = relu(x)\nreturn y");
  auto samples = normal_samples(g, 2);
  CompareOptions options;
  options.on_output = [](const OutputPair&) { return Status(invalid_model("enough")); };
  const auto c = compare(model_of(g), model_of(g), samples, options);
  ASSERT_FALSE(c.ok());
  EXPECT_THAT(c.error().message, ::testing::HasSubstr("enough"));
}

TEST(WeightRanges, ChannelsOfLinearAndConv) {
  const graph::Graph a = parsed(
      "x: f32[1,2,3,3]\nc = conv(x, f32[4,2,1,1]{1,-2, 0,0, 3,1, 90,0}) kernel=[1,1] strides=[1,1] "
      "pads=[0,0,0,0] dilations=[1,1]\np = average_pool(c) global=true\nf = flatten(p)\n"
      "y = linear(f, f32[2,4]{1,2,3,-4, 0,0,0,5})\nreturn y");
  const graph::Graph b = parsed(
      "x: f32[1,2,3,3]\nxq: u8[1,2,3,3] @(0.1,128) = quantize(x)\nw = const s8[4,2,1,1] "
      "@(1,0) {1,-2, 0,0, 3,1, 90,0}\nc = conv(xq, w) kernel=[1,1] strides=[1,1] "
      "pads=[0,0,0,0] dilations=[1,1]\np = average_pool(c) global=true\nf = flatten(p)\n"
      "y = linear(f, f32[2,4]{1,2,3,-4, 0,0,0,5})\nreturn y");
  const auto r = weight_ranges(*model_of(a), *model_of(b));
  ASSERT_TRUE(r.ok()) << r.error().message;
  ASSERT_EQ(r->size(), 2u);
  const WeightRanges &c = (*r)[0], &y = (*r)[1];
  EXPECT_EQ(c.name, "c");
  EXPECT_THAT(c.reference, ElementsAre(2, 0, 3, 90));
  EXPECT_THAT(c.limit, ElementsAre(127, 127, 127, 127));
  EXPECT_THAT(c.dead, ElementsAre(1));
  EXPECT_THAT(c.huge, ElementsAre(3));
  EXPECT_FALSE(c.rescaled);
  EXPECT_THAT(y.reference, ElementsAre(4, 5));
  EXPECT_TRUE(y.limit.empty());
}

TEST(WeightRanges, GroupsOfATransposedConvolution) {
  // Two groups, each with one input and two output channels: [C=2, M/groups=2, 1].
  const graph::Graph g = parsed(
      "x: f32[1,2,4]\ny = conv(x, f32[2,2,1]{1,2, -3,4}) kernel=[1] strides=[1] pads=[0,0] "
      "dilations=[1] group=2 transposed=true\nreturn y");
  const auto r = weight_ranges(*model_of(g), *model_of(g));
  ASSERT_TRUE(r.ok()) << r.error().message;
  ASSERT_EQ(r->size(), 1u);
  EXPECT_THAT((*r)[0].reference, ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace fold8::quant
