#include "quant/layer_facts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "quant/batch_norm_facts.h"
#include "tests/support/memory_samples.h"
#include "tests/support/parsed_graph.h"
#include "tests/support/random.h"

namespace fold8::quant {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using testing_support::MemorySamples;
using testing_support::model_of;
using testing_support::parsed;
using testing_support::tensor_of;

ModelFacts measured(const graph::Graph& a, const graph::Graph& b, SampleSource& samples) {
  auto facts = measure_facts(model_of(a), model_of(b), samples);
  EXPECT_TRUE(facts.ok()) << facts.error().message;
  return facts.ok() ? std::move(*facts) : ModelFacts{};
}

TEST(Roundings, FoundThroughWhatMovesThem) {
  const graph::Graph g = parsed(
      "x: f32[2,4]\nh = unary(x) kind=relu\nq: u8[2,4] @(0.5,3) = quantize(h)\nt: u8[4,2] "
      "@(0.5,3) = transpose(q) perm=[1,0]\nd = dequantize(t)\ny = unary(d) kind=relu\ne = "
      "dequantize(q)\nz = unary(e) kind=abs\nreturn y, z");
  const auto found = find_roundings(g, [](const std::string& n) { return n == "h" || n == "x"; });
  ASSERT_EQ(found.size(), 1u);  // t was only moved
  EXPECT_EQ(found[0].tensor, "h");
  EXPECT_FALSE(found[0].by_layer);
  EXPECT_FALSE(found[0].is_output);
  ASSERT_EQ(found[0].readers.size(), 2u);
  EXPECT_EQ(found[0].readers[0].layer, "y");
  EXPECT_EQ(found[0].readers[1].layer, "z");
  EXPECT_TRUE(find_roundings(g, [](const std::string&) { return false; }).empty());
}

TEST(Roundings, ByTheLayerThatWritesThem) {
  const graph::Graph g = parsed(
      "x: f32[2,4]\nq: u8[2,4] @(0.1,0) = quantize(x)\nw = const s8[3,4] @(1,0) "
      "{1,0,0,0,0,1,0,0,0,0,1,0}\nh: u8[2,3] @(0.2,9) = linear(q, w)\nreturn h");
  const auto found = find_roundings(g, [](const std::string& n) { return n == "h" || n == "x"; });
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].tensor, "x");
  EXPECT_TRUE(found[0].to_matrix);
  EXPECT_EQ(found[1].tensor, "h");
  EXPECT_TRUE(found[1].by_layer);
  EXPECT_TRUE(found[1].is_output);
  EXPECT_EQ(found[1].params.zero_point(), 9);
}

TEST(RoundingFacts, ByHand) {
  const graph::Graph a = parsed("x: f32[1,4]\ny = unary(x) kind=abs\nreturn y");
  const graph::Graph b = parsed(
      "x: f32[1,4]\nq: u8[1,4] @(0.1,10) = quantize(x)\nd = dequantize(q)\ny = unary(d) "
      "kind=abs\nreturn y");  // codes from -1 to 24.5
  MemorySamples samples(
      {{tensor_of({1, 4}, {0.04f, 1, 2, 3})}, {tensor_of({1, 4}, {-2, 0, 1, 30})}});
  const ModelFacts facts = measured(a, b, samples);
  ASSERT_EQ(facts.roundings.size(), 1u);
  const RoundingFacts& r = facts.roundings[0];
  EXPECT_EQ(r.count(), 8u);
  EXPECT_EQ(r.clipped, 2u);
  EXPECT_NEAR(r.clip_error, 1 + 5.5 * 5.5, 1e-4);
  EXPECT_NEAR(r.powers.error, r.clip_error + 0.04 * 0.04, 1e-4);
  EXPECT_NEAR(r.powers.energy, 0.0016 + 14 + 4 + 1 + 900, 1e-4);
  EXPECT_THAT(r.clipped_samples, ElementsAre(Pair(1, 0.5)));
  EXPECT_EQ(r.codes_used(), 6u);  // 10 (0.04, 0), 20 (1), 30, 40, 0, 255
  EXPECT_THAT(r.channel_max, ElementsAre(2, 1, 2, 30));
  EXPECT_EQ(r.widest_sample, 1u);
  EXPECT_NEAR(r.lowest(), -1, 1e-6);
  EXPECT_NEAR(r.highest(), 24.5, 1e-5);
  EXPECT_EQ(facts.samples, 2u);
}

// The definition, value after value: every chain of additions in this order.
struct ByDefinition {
  Powers all;
  std::vector<Powers> channels;
  std::vector<float> most;
  double clip_error = 0;
  std::uint64_t clipped = 0;
  std::set<int> codes;

  void add(const Rounding& r, std::span<const float> values, const Shape& shape) {
    const double lo = r.s8 ? -128 : 0, hi = r.s8 ? 127 : 255;
    const bool per_token = r.params.granularity() == Granularity::per_token;
    const auto row = static_cast<std::size_t>(shape.back().value());
    const auto inner = static_cast<std::size_t>(shape.count(r.channel_axis + 1, shape.rank()));
    channels.resize(static_cast<std::size_t>(shape.extent(r.channel_axis)));
    most.resize(channels.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double x = values[i];
      double scale = per_token ? 0 : double{r.params.scale()},
             zero = per_token ? 0 : r.params.zero_point();
      if (per_token) {
        for (std::size_t j = i / row * row; j < i / row * row + row; ++j)
          scale = std::max(scale, std::fabs(double{values[j]}) / 127);
      }
      const double exact = x / scale + zero;
      const double code = per_token ? std::rint(exact) : std::clamp(std::rint(exact), lo, hi);
      const double e = double{static_cast<float>((code - zero) * scale)} - x;
      all.energy += x * x;
      all.error += e * e;
      const std::size_t c = i / inner % channels.size();
      channels[c].energy += x * x;
      channels[c].error += e * e;
      most[c] = std::max(most[c], std::fabs(values[i]));
      if (per_token) continue;
      codes.insert(static_cast<int>(code - lo));
      if (!(exact < lo - 0.5 || exact > hi + 0.5)) continue;
      ++clipped;
      clip_error += e * e;
    }
  }
};

TEST(RoundingFacts, AreThoseOfTheDefinitionToTheBit) {
  testing::SeededRng rng;
  struct Case {
    Shape shape;
    int axis;
  };
  for (const Case& c : {Case{{2, 3, 37, 31}, 1}, Case{{3, 41, 29}, 2}, Case{{1, 5, 1, 1}, 1},
                        Case{{1, 2, 1, 700}, 1}})
    for (const int kind : {0, 1, 2}) {
      RoundingFacts facts;
      facts.where.channel_axis = c.axis;
      facts.where.s8 = kind == 1;
      facts.where.params = kind == 2   ? QuantParams::per_token()
                           : kind == 1 ? QuantParams::per_tensor(0.013f, -7).value()
                                       : QuantParams::per_tensor(0.017f, 130).value();
      ByDefinition expected;
      for (std::size_t sample = 0; sample < 3; ++sample) {
        std::vector<float> values(static_cast<std::size_t>(c.shape.count()));
        for (float& v : values) v = rng.normal();
        facts.add(values, c.shape, sample);
        expected.add(facts.where, values, c.shape);
      }
      EXPECT_EQ(facts.powers.energy, expected.all.energy);
      EXPECT_EQ(facts.powers.error, expected.all.error);
      EXPECT_EQ(facts.channel_max, expected.most);
      for (std::size_t i = 0; i < expected.channels.size(); ++i) {
        EXPECT_EQ(facts.channel_powers[i].energy, expected.channels[i].energy);
        EXPECT_EQ(facts.channel_powers[i].error, expected.channels[i].error);
      }
      EXPECT_EQ(facts.clipped, expected.clipped);
      EXPECT_EQ(facts.clip_error, expected.clip_error);
      EXPECT_EQ(facts.codes_used(), expected.codes.size());
    }
}

TEST(RoundingFacts, PartsOfAConcat) {
  const graph::Graph a = parsed(
      "x: f32[1,2]\nb = unary(x) kind=abs\ns = unary(x) kind=sigmoid\nt = concat(b, s) "
      "axis=1\nreturn t");
  const graph::Graph b = parsed(
      "x: f32[1,2]\nb = unary(x) kind=abs\ns = unary(x) kind=sigmoid\nt = concat(b, s) axis=1\nq: "
      "u8[1,4] @(2,0) = quantize(t)\nd = dequantize(q)\nu = unary(d) kind=abs\nreturn u, t");
  MemorySamples samples({{tensor_of({1, 2}, {200, 400})}});
  const ModelFacts facts = measured(a, b, samples);
  ASSERT_EQ(facts.roundings.size(), 1u);
  ASSERT_EQ(facts.roundings[0].parts.size(), 2u);
  EXPECT_EQ(facts.roundings[0].parts[0].name, "b");
  EXPECT_EQ(facts.roundings[0].parts[0].max_abs, 400);
  EXPECT_EQ(facts.roundings[0].parts[0].powers.error, 0);
  EXPECT_EQ(facts.roundings[0].parts[1].name, "s");
  EXPECT_NEAR(facts.roundings[0].parts[1].powers.error, 2, 1e-6);  // 1 becomes 0, twice
}

TEST(WeightFacts, StepsAndPowersOfInputChannels) {
  const graph::Graph a = parsed("x: f32[1,2]\ny = linear(x, f32[2,2]{1,-127, 0.5,2})\nreturn y");
  const graph::Graph b = parsed(
      "x: f32[1,2]\nq: u8[1,2] @(0.1,0) = quantize(x)\nw = const s8[2,2] @(1,0) {1,-127, 1,2}\ny = "
      "linear(q, w)\nreturn y");
  MemorySamples samples({{tensor_of({1, 2}, {1, 2})}});
  const ModelFacts facts = measured(a, b, samples);
  const LayerFacts* y = facts.find("y");
  ASSERT_TRUE(y != nullptr && y->weights.has_value());
  EXPECT_EQ(y->input, 0u);
  const WeightFacts& w = *y->weights;
  EXPECT_THAT(w.input_max, ElementsAre(1, 127));
  EXPECT_THAT(w.output_max, ElementsAre(127, 2));
  EXPECT_NEAR(w.input_power[0], 1 + 0.25, 1e-9);
  EXPECT_NEAR(w.input_error[0], 2.0 / 12, 1e-9);  // a step of 1, twice
  EXPECT_EQ(w.clipped, 0u);
  EXPECT_TRUE(w.per_tensor);
  EXPECT_EQ(facts.macs, 4);
}

TEST(NormFacts, RowsBelowTheirRounding) {
  const graph::Graph a = parsed("x: f32[2,4]\ny = layer_norm(x)\nreturn y");
  const graph::Graph b =
      parsed("x: f32[2,4]\nq: u8[2,4] @(1,128) = quantize(x)\ny = layer_norm(q)\nreturn y");
  MemorySamples samples({{tensor_of({2, 4}, {10, -10, 20, -20, 5, 5.1f, 5.2f, 5.1f})}});
  const ModelFacts facts = measured(a, b, samples);
  const LayerFacts* y = facts.find("y");
  ASSERT_TRUE(y != nullptr && y->norm.has_value());
  EXPECT_EQ(y->norm->variances.count(), 2u);
  EXPECT_EQ(y->norm->drowned, 1u);
  EXPECT_NEAR(y->norm->noise, 1.0 / 12, 1e-12);
}

TEST(Magnitudes, MedianWithinAQuarterOctave) {
  Magnitudes m;
  for (int i = 1; i <= 101; ++i) m.add(i);
  EXPECT_EQ(m.count(), 101u);
  EXPECT_EQ(m.max(), 101);
  EXPECT_LE(m.median(), 51);
  EXPECT_GT(m.median() * 1.25, 51);
  EXPECT_EQ(Magnitudes().median(), 0);
}

// ---- BatchNorm

// One BatchNorm on pictures whose colours had mean m and deviation s when it was trained.
graph::Graph picture_net(const std::string& means, const std::string& variances) {
  return parsed(
      "x: f32[1,3,8,8]\nc = conv(x, f32[3,3,1,1]{1,0,0, 0,1,0, 0,0,1}) kernel=[1,1] strides=[1,1] "
      "pads=[0,0,0,0] dilations=[1,1]\ny = batch_norm(c, f32[3]{1,1,1}, f32[3]{0,0,0}, f32[3]{" +
      means + "}, f32[3]{" + variances + "})\nreturn y");
}

MemorySamples pictures(float mean, float deviation) {
  auto samples = testing_support::normal_samples(picture_net("0,0,0", "1,1,1"), 4);
  for (auto& sample : samples.all())
    for (float& v : sample[0].as<float>()) v = mean + deviation * v;
  return samples;
}

TEST(BatchNormFacts, AgreeAndDisagree) {
  const graph::Graph g = picture_net("0,0,0", "1,1,1");
  auto good = pictures(0, 1), bad = pictures(100, 30);
  const auto agree = batch_norm_facts(model_of(g), good),
             not_so = batch_norm_facts(model_of(g), bad);
  ASSERT_TRUE(agree.ok() && not_so.ok());
  ASSERT_EQ(agree->size(), 1u);
  EXPECT_FALSE((*agree)[0].disagrees());
  EXPECT_LT((*agree)[0].distance, 0.05);
  EXPECT_EQ((*agree)[0].layer, "c");
  EXPECT_TRUE((*not_so)[0].disagrees());
  EXPECT_NEAR((*not_so)[0].median_shift, 100, 10);
  EXPECT_NEAR((*not_so)[0].median_spread, 30, 5);
}

MemorySamples pixels(float mean, float deviation) {
  auto samples = pictures(mean, deviation);
  for (auto& sample : samples.all())
    for (float& v : sample[0].as<float>()) v = std::clamp(v, 0.0f, 255.0f);
  return samples;
}

TEST(BatchNormFacts, APreprocessingIsOfferedOnlyIfItsNumbersAgree) {
  const graph::Graph g = picture_net("0,0,0", "1,1,1");
  // Values about 6, or up to 120 with a small spread: every usual change leaves statistics wrong.
  for (MemorySamples given : {pixels(6.5f, 1.5f), pixels(118, 4)}) {
    const auto guess = guess_preprocessing(model_of(g), given);
    ASSERT_TRUE(guess.ok());
    EXPECT_FALSE(guess->has_value());
  }
  auto below_zero = pixels(118, 58);
  EXPECT_TRUE(guess_preprocessing(model_of(g), below_zero).value().has_value());
  below_zero.all().back()[0].as<float>()[5] = -40;  // no pixels in 0..255
  EXPECT_FALSE(guess_preprocessing(model_of(g), below_zero).value().has_value());
}

TEST(BatchNormFacts, ThePreprocessingIsGuessed) {
  const graph::Graph g = picture_net("0,0,0", "1,1,1");
  auto raw = pixels(118, 58), right = pictures(0, 1), strange = pictures(1e6f, 3);
  const auto guess = guess_preprocessing(model_of(g), raw);
  ASSERT_TRUE(guess.ok()) << guess.error().message;
  ASSERT_TRUE(guess->has_value());
  EXPECT_EQ((*guess)->flag(),
            "--preprocess 'x:mean=123.675,116.28,103.53,std=58.395,57.12,57.375'");
  EXPECT_LT((*guess)->after, (*guess)->before);
  const auto none = guess_preprocessing(model_of(g), right);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
  const auto unknown = guess_preprocessing(model_of(g), strange);
  ASSERT_TRUE(unknown.ok());
  EXPECT_FALSE(unknown->has_value());
}

TEST(BatchNormFacts, NetworksWithoutOne) {
  const graph::Graph g = parsed("x: f32[1,3,8,8]\ny = unary(x) kind=relu\nreturn y");
  auto samples = testing_support::normal_samples(g, 1);
  const auto facts = batch_norm_facts(model_of(g), samples);
  ASSERT_TRUE(facts.ok());
  EXPECT_TRUE(facts->empty());
  const auto guess = guess_preprocessing(model_of(g), samples);
  ASSERT_TRUE(guess.ok());
  EXPECT_FALSE(guess->has_value());
}

}  // namespace
}  // namespace fold8::quant
