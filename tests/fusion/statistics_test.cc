// Statistics measured in parts and used by convert(); BatchNorms measured again.
#include "fusion/statistics.h"

#include <cmath>

#include "fusion/reestimate_batch_norms.h"
#include "fusion/stage_log.h"
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing_support::tensor_of;

constexpr const char* kCnn = R"(
x: f32[n,3,8,8]
c = conv(x, random:f32[8,3,3,3]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]
b = batch_norm(c, random_positive:f32[8], random:f32[8], random:f32[8], random_positive:f32[8])
r = relu(b)
p = average_pool(r) global=true
f = flatten(p)
y = linear(f, random:f32[5,8], random:f32[5])
return y
)";

constexpr const char* kMlp = R"(
x: f32[n,16]
h = linear(x, random:f32[32,16], random:f32[32])
r = relu(h)
y = linear(r, random:f32[4,32], random:f32[4])
return y
)";

// Of which no sample could change anything.
ConvertOptions plain() {
  ConvertOptions o;
  o.search = false;
  o.smooth.off = true;
  o.equalize = false;
  o.quantize.streams = Streams::u8;
  o.quantize.attention = AttentionProducts::int8;
  return o;
}

quant::Statistics must_measure(const graph::Graph& g, quant::SampleSource& samples) {
  auto s = measure(g, samples, {});
  EXPECT_TRUE(s.ok()) << s.error().message;
  return s.ok() ? std::move(*s) : quant::Statistics{};
}

std::string must_bytes(const graph::Graph& g, quant::SampleSource* samples,
                       const ConvertOptions& options) {
  auto c = convert(g, samples, options);
  EXPECT_TRUE(c.ok()) << c.error().message;
  return c.ok() ? bytes_of(*c) : std::string();
}

TEST(Statistics, ConvertGivesTheFileThatSamplesGive) {
  for (const char* text : {kCnn, kMlp})
    for (const auto method : {quant::Method::automatic, quant::Method::mse}) {
      const graph::Graph g = parsed(text);
      auto samples = normal_samples(g, 12);
      ConvertOptions o = plain();
      o.quantize.method = method;
      const std::string wanted = must_bytes(g, &samples, o);
      const quant::Statistics s = must_measure(g, samples);
      o.statistics = &s;
      EXPECT_TRUE(must_bytes(g, nullptr, o) == wanted);
      // Samples as well: they score, the ranges are still the statistics'.
      auto others = normal_samples(g, 2, 77);
      auto both = convert(g, &others, o);
      ASSERT_TRUE(both.ok()) << both.error().message;
      EXPECT_TRUE(bytes_of(*both) == wanted);
      EXPECT_EQ(both->summary.samples, 12u);
      EXPECT_EQ(both->summary.outputs.size(), 1u);
    }
}

TEST(Statistics, ShardsOfAnySizeGiveTheSame) {
  const graph::Graph g = parsed(kCnn);
  auto samples = normal_samples(g, 9);
  const auto whole = quant::to_bytes(must_measure(g, samples));
  std::optional<quant::Statistics> all;
  for (const auto& [first, count] : {std::pair{7, 2}, {0, 1}, {1, 6}}) {
    std::vector<std::vector<Tensor>> shard(samples.all().begin() + first,
                                           samples.all().begin() + first + count);
    MemorySamples source(std::move(shard));
    const quant::Statistics part = must_measure(g, source);
    if (all)
      ASSERT_TRUE(all->merge(part).ok());
    else
      all = part;
  }
  EXPECT_TRUE(*quant::to_bytes(*all) == *whole);
}

TEST(Statistics, OfAnotherNetworkAreRefused) {
  const graph::Graph g = parsed(kCnn), other = parsed(kMlp);
  auto samples = normal_samples(other, 4);
  const quant::Statistics s = must_measure(other, samples);
  ConvertOptions o = plain();
  o.statistics = &s;
  const auto refused = convert(g, nullptr, o);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("belong to another model"), HasSubstr(quant::id_text(s.model))));
}

// Without samples the ends of a smoothed tensor follow from those of its channels.
TEST(Statistics, SmoothingByAFixedAlphaNeedsNoSamples) {
  const graph::Graph g = parsed(kMlp);
  auto samples = normal_samples(g, 12);
  for (auto& sample : samples.all())
    for (std::size_t i = 0; i < sample[0].as<float>().size(); i += 16)
      sample[0].as<float>()[i] *= 30;  // one channel is far larger
  const quant::Statistics s = must_measure(g, samples);
  ConvertOptions o = plain();
  o.smooth = {false, 0.5};
  o.quantize.method = quant::Method::minmax;
  auto with_samples = convert(g, &samples, o);
  ASSERT_TRUE(with_samples.ok());
  o.statistics = &s;
  auto without = convert(g, nullptr, o);
  ASSERT_TRUE(without.ok()) << without.error().message;
  EXPECT_EQ(without->summary.smoothed.size(), with_samples->summary.smoothed.size());
  EXPECT_FALSE(without->summary.smoothed.empty());
  // The same but for the last bit of a scale, which may turn a code.
  const auto x = testing_support::run_once(with_samples->graph, samples.all()[0]),
             y = testing_support::run_once(without->graph, samples.all()[0]);
  float most = 0, error = 0;
  for (std::size_t i = 0; i < x[0].as<const float>().size(); ++i) {
    most = std::max(most, std::fabs(x[0].as<const float>()[i]));
    error = std::max(error, std::fabs(x[0].as<const float>()[i] - y[0].as<const float>()[i]));
  }
  EXPECT_LT(error, 0.02f * most);
}

TEST(Statistics, WhatTheySayOfTheDataIsAWarning) {
  const graph::Graph g = parsed(kMlp);
  MemorySamples one({{Tensor(DType::f32, Shape{1, 16})}});
  std::fill(one.all()[0][0].as<float>().begin(), one.all()[0][0].as<float>().end(), 0.0f);
  const quant::Statistics s = must_measure(g, one);
  ConvertOptions o = plain();
  o.statistics = &s;
  const auto c = convert(g, nullptr, o);
  ASSERT_TRUE(c.ok());
  EXPECT_THAT(c->summary.warnings,
              AllOf(Contains(HasSubstr("only 1 calibration sample")), Contains(HasSubstr("blank")),
                    Contains(HasSubstr("'x' was constant"))));
}

struct Reestimated {
  Status status = ok_status();
  graph::Graph graph;
  ConvertSummary summary;
};

Reestimated reestimated(const graph::Graph& g, quant::SampleSource& samples) {
  Reestimated r;
  r.graph = g;
  const ConvertOptions options;
  StageLog log(options, r.summary);
  r.status = reestimate_batch_norms(r.graph, samples, 1, log, r.summary);
  return r;
}

std::vector<float> operand(const graph::Graph& g, const char* node, std::size_t i) {
  for (graph::NodeId n = 0; n < g.node_count(); ++n)
    if (!g.node(n).dead && g.node(n).name == node) {
      const auto values = g.constant<float>(g.node(n).inputs[i]);
      return {values.begin(), values.end()};
    }
  ADD_FAILURE() << "no node " << node;
  return {};
}

TEST(ReestimateBatchNorms, MeanAndVarianceAreThoseOfTheSamples) {
  const graph::Graph g = parsed(
      "x: f32[n,2]\ny = batch_norm(x, f32[2]{1,1}, f32[2]{0,0}, f32[2]{9,9}, f32[2]{4,4})\nreturn "
      "y");
  MemorySamples samples(
      {{tensor_of({2, 2}, {1, 10, 2, 30})}, {tensor_of({1, 2}, {6, 20})}, {tensor_of({0, 2}, {})}});
  const Reestimated r = reestimated(g, samples);
  ASSERT_TRUE(r.status.ok()) << r.status.error().message;
  EXPECT_EQ(operand(r.graph, "y", 3), (std::vector<float>{3, 20}));
  EXPECT_EQ(operand(r.graph, "y", 4),
            (std::vector<float>{static_cast<float>(14.0 / 3), static_cast<float>(200.0 / 3)}));
  ASSERT_EQ(r.summary.reestimated.size(), 1u);
  EXPECT_EQ(r.summary.reestimated[0].node, "y");
  EXPECT_EQ(r.summary.reestimated[0].values, 3u);
  EXPECT_NEAR(r.summary.reestimated[0].most_shift, 5.5, 1e-12);  // (20 - 9) / 2
  EXPECT_NEAR(r.summary.reestimated[0].most_ratio, 200.0 / 12, 1e-9);
}

// The second one sees what the first gives with its new statistics: both outputs are standard.
TEST(ReestimateBatchNorms, EachComesBehindThoseInFrontOfIt) {
  const graph::Graph g = parsed(
      "x: f32[n,3,4,4]\n"
      "a = batch_norm(x, f32[3]{2,2,2}, f32[3]{1,1,1}, f32[3]{0,0,0}, f32[3]{1,1,1})\n"
      "c = conv(a, random:f32[4,3,1,1]) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]\n"
      "y = batch_norm(c, f32[4]{1,1,1,1}, f32[4]{0,0,0,0}, f32[4]{5,5,5,5}, f32[4]{1,1,1,1})\n"
      "return y");
  auto samples = normal_samples(g, 6);
  for (auto& s : samples.all())
    for (float& v : s[0].as<float>()) v = 7 * v + 3;
  const Reestimated r = reestimated(g, samples);
  ASSERT_TRUE(r.status.ok()) << r.status.error().message;
  ASSERT_EQ(r.summary.reestimated.size(), 2u);
  std::vector<double> sum(4, 0.0), squares(4, 0.0);
  double count = 0;
  for (const auto& s : samples.all()) {
    const auto out = testing_support::run_once(r.graph, s);
    ASSERT_EQ(out.size(), 1u);
    const auto y = out[0].as<const float>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      sum[i / 16 % 4] += double{y[i]};
      squares[i / 16 % 4] += double{y[i]} * y[i];
    }
    count += static_cast<double>(y.size()) / 4;
  }
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_NEAR(sum[c] / count, 0, 1e-5);
    EXPECT_NEAR(squares[c] / count, 1, 1e-4);
  }
}

TEST(ReestimateBatchNorms, ChannelsThatNeverChangeKeepWhatIsStored) {
  const graph::Graph g = parsed(
      "x: f32[n,2]\ny = batch_norm(x, f32[2]{1,1}, f32[2]{0,0}, f32[2]{9,9}, f32[2]{4,4})\nreturn "
      "y");
  MemorySamples samples({{tensor_of({2, 2}, {1, 5, 3, 5})}});
  const Reestimated r = reestimated(g, samples);
  ASSERT_TRUE(r.status.ok());
  EXPECT_EQ(operand(r.graph, "y", 3), (std::vector<float>{2, 9}));
  EXPECT_EQ(operand(r.graph, "y", 4), (std::vector<float>{1, 4}));
  EXPECT_EQ(r.summary.reestimated[0].kept, 1u);
}

TEST(ReestimateBatchNorms, IsRefusedWithoutBatchNormsAndWithoutSamples) {
  const graph::Graph mlp = parsed(kMlp);
  auto samples = normal_samples(mlp, 2);
  const Reestimated none = reestimated(mlp, samples);
  ASSERT_FALSE(none.status.ok());
  EXPECT_THAT(none.status.error().message, HasSubstr("no BatchNorm"));
  ConvertOptions o;
  o.reestimate_bn = true;
  o.quantize.activations = Activations::dynamic;
  const auto without = convert(parsed(kCnn), nullptr, o);
  ASSERT_FALSE(without.ok());
  EXPECT_THAT(without.error().message, AllOf(HasSubstr("--reestimate-bn"), HasSubstr("--calib")));
}

TEST(ReestimateBatchNorms, NaNInTheDataIsNamed) {
  const graph::Graph g = parsed(kCnn);
  auto samples = normal_samples(g, 2);
  samples.all()[1][0].as<float>()[3] = std::nanf("");
  const Reestimated r = reestimated(g, samples);
  ASSERT_FALSE(r.status.ok());
  EXPECT_THAT(r.status.error().message, AllOf(HasSubstr("sample 1"), HasSubstr("'c'")));
}

// Data shifted against that of the training: what convert() makes of it gets better.
TEST(ReestimateBatchNorms, ConvertFoldsTheNewOnes) {
  const graph::Graph g = parsed(kCnn);
  auto samples = normal_samples(g, 8);
  ConvertOptions o = plain();
  o.reestimate_bn = true;
  const auto c = convert(g, &samples, o);
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ(c->summary.reestimated.size(), 1u);
  EXPECT_EQ(c->summary.batch_norms_left, 0);
}

}  // namespace
}  // namespace fold8::fusion
