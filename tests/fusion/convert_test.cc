// The whole offline compiler: what it makes, what it says, what it refuses.
#include "fusion/convert.h"

#include "fusion/model_facts.h"
#include "fusion/score.h"
#include "runtime/format/f8.h"
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kCnn = R"(
x: f32[n,3,8,8]
c = conv(x, random:f32[8,3,3,3]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]
b = batch_norm(c, random_positive:f32[8], random:f32[8], random:f32[8], random_positive:f32[8])
r = relu(b)
d = conv(r, random:f32[8,1,3,3], random:f32[8]) kernel=[3,3] strides=[2,2] pads=[1,1,1,1] dilations=[1,1] group=8
e = relu(d)
p = average_pool(e) global=true
f = flatten(p)
y = linear(f, random:f32[5,8], random:f32[5])
return y
)";

Result<Converted> converted(const graph::Graph& g, quant::SampleSource* samples,
                            ConvertOptions options = {}) {
  return convert(g, samples, options);
}
Result<Score> score_of(const graph::Graph& reference, const graph::Graph& candidate,
                       quant::SampleSource& samples, std::size_t at_most) {
  FloatOutputs kept;
  ScoreOptions o;
  o.samples = first_samples(samples.count(), at_most);
  return score([&] { return exec::Model::from_graph(reference); }, model_of(candidate), samples, o,
               kept);
}

TEST(Convert, ANetworkBecomesInt8AndSaysSo) {
  const Converted c = must_convert(kCnn);
  const ConvertSummary& s = c.summary;
  EXPECT_EQ(s.quantized_layers.size(), 3u);
  EXPECT_THAT(s.float_layers, IsEmpty());
  EXPECT_THAT(s.warnings, IsEmpty());
  EXPECT_EQ(s.batch_norms_left, 0);
  EXPECT_EQ(s.int8_mac_share, 1.0);
  EXPECT_FALSE(s.int8_attention_share);
  EXPECT_EQ(s.samples, 8u);
  ASSERT_EQ(s.outputs.size(), 1u);
  EXPECT_EQ(s.outputs[0].name, "y");
  EXPECT_GT(s.outputs[0].error.sqnr_db.value_or(0), 20);
  EXPECT_TRUE(s.outputs[0].top1);
  std::vector<std::string> stages;
  for (const StageTime& t : s.stages) stages.push_back(t.name);
  EXPECT_THAT(stages, ElementsAre("canonicalize", "fold", "fuse", "attention", "lower",
                                  "emit float", "calibrate", "quantize", "check against float"));
  EXPECT_EQ(c.graph.metadata.at("fold8.kind"), "int8");
}

TEST(Convert, TheFileRunsLikeTheGraph) {
  const Converted c = must_convert(kCnn);
  const std::string bytes = bytes_of(c);
  const auto loaded = format::read_bytes(bytes.data(), bytes.size(), true, nullptr);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(steps_apart(c.graph, loaded->graph), 0);
}

TEST(Convert, SameBytesForAnyThreadsAndAnyOrderOfSamples) {
  const graph::Graph g = parsed(kCnn);
  auto samples = normal_samples(g, 8);
  auto first = converted(g, &samples);
  ASSERT_TRUE(first.ok());
  const std::string bytes = bytes_of(*first);
  ConvertOptions two;
  two.threads = 2;
  auto threaded = converted(g, &samples, two);
  ASSERT_TRUE(threaded.ok());
  EXPECT_TRUE(bytes_of(*threaded) == bytes);
  std::reverse(samples.all().begin(), samples.all().end());
  auto reversed = converted(g, &samples);
  ASSERT_TRUE(reversed.ok());
  EXPECT_TRUE(bytes_of(*reversed) == bytes);
}

TEST(Convert, FactsSurviveInTheMetadata) {
  ConvertOptions options;
  options.quantize.keep_float = {"y", "nothing*"};
  const Converted c = must_convert(kCnn, options);
  const ConvertSummary s = load_facts(c.graph);
  EXPECT_EQ(s.quantized_layers, c.summary.quantized_layers);
  EXPECT_EQ(s.warnings, c.summary.warnings);
  EXPECT_EQ(s.int8_mac_share, c.summary.int8_mac_share);
  EXPECT_EQ(s.declined, c.summary.declined);
  ASSERT_EQ(s.float_layers.size(), 1u);
  EXPECT_EQ(s.float_layers[0].node, "y");
  EXPECT_EQ(s.float_layers[0].op, "linear");
  EXPECT_THAT(s.float_layers[0].why, HasSubstr("'y'"));
  ConvertSummary odd;  // names may hold anything
  odd.quantized_layers = {"a\tb\nc", "d"};
  graph::Graph g;
  store_facts(odd, false, g);
  EXPECT_THAT(load_facts(g).quantized_layers, ElementsAre("a b c", "d"));
  EXPECT_FALSE(load_facts(g).int8_mac_share);
}

TEST(Convert, TheShareCountsMultiplyAdds) {
  ConvertOptions options;
  options.quantize.keep_float = {"y"};
  const Converted c = must_convert(
      "x: f32[n,8]\nh = linear(x, random:f32[16,8])\nr = relu(h)\ny = linear(r, "
      "random:f32[4,16])\nreturn y",
      options);
  EXPECT_DOUBLE_EQ(*c.summary.int8_mac_share, 128.0 / (128 + 64));
  const Converted attention = must_convert(
      "x: f32[2,4,8]\nq = linear(x, random:f32[8,8])\nk = linear(x, random:f32[8,8])\ns = "
      "matmul(q, k) transpose_b=true\n"
      "y = softmax(s)\nreturn y");
  EXPECT_EQ(attention.summary.int8_mac_share, 1.0);
  EXPECT_EQ(attention.summary.int8_attention_share, 0.0);
  EXPECT_FALSE(must_convert("x: f32[3,4]\ny = relu(x)\nreturn y").summary.int8_mac_share);
}

TEST(Convert, ABatchNormThatStaysIsCountedAndExplained) {
  const Converted c = must_convert(
      "x: f32[n,8]\nh = linear(x, random:f32[8,8])\nb = batch_norm(h, random:f32[8], "
      "random:f32[8], random:f32[8], "
      "random_positive:f32[8])\ny = add(h, b)\nreturn y");
  EXPECT_EQ(c.summary.batch_norms_left, 1);
  EXPECT_EQ(load_facts(c.graph).batch_norms_left, 1);
  EXPECT_THAT(reasons(c.summary.declined), Contains(HasSubstr("'h'")));
}

TEST(Convert, FloatOnlyNeedsNoSamples) {
  ConvertOptions options;
  options.float_only = true;
  const Converted c = must_convert(kCnn, options, 0);
  for (graph::ValueId v = 0; v < c.graph.value_count(); ++v)
    EXPECT_FALSE(is_quantizable(c.graph.type(v).dtype));
  EXPECT_EQ(c.graph.metadata.at("fold8.kind"), "float");
  EXPECT_EQ(c.summary.float_layers.size(), 3u);
  EXPECT_EQ(c.summary.float_layers[0].why, "compiled without quantizing");
  EXPECT_THAT(c.summary.quantized_layers, IsEmpty());
  EXPECT_EQ(c.summary.int8_mac_share, 0.0);
  EXPECT_EQ(count_ops(c.graph, "batch_norm") + count_ops(c.graph, "affine"), 0);
}

TEST(Convert, WithoutSamples) {
  const auto refused = convert(parsed(kCnn), nullptr, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  for (const char* words : {"calibration data", "--float", "--activations dynamic"})
    EXPECT_THAT(refused.error().message, HasSubstr(words));
  ConvertOptions options;
  options.quantize.activations = Activations::dynamic;
  const Converted dynamic = must_convert(kCnn, options, 0);
  EXPECT_THAT(dynamic.summary.quantized_layers, ElementsAre("y"));
  EXPECT_EQ(dynamic.summary.float_layers.size(), 2u);
  EXPECT_THAT(dynamic.summary.outputs, IsEmpty());
  options.quantize.activations = Activations::float_;
  EXPECT_THAT(must_convert(kCnn, options, 0).summary.quantized_layers, ElementsAre("y"));
  MemorySamples none({});
  const auto empty = convert(parsed(kCnn), &none, {});
  ASSERT_FALSE(empty.ok());
  EXPECT_THAT(empty.error().message, HasSubstr("holds no samples"));
}

TEST(Convert, FilesThatBringTheirInt8NeedNoSamples) {
  const char* text =
      "x: f32[3,8]\nq: u8[3,8] @(0.03,128) = quantize(x)\nd = dequantize(q)\nw = const "
      "random:s8[4,8] @channel(0)\n"
      "dw = dequantize(w)\ny = linear(d, dw, random:f32[4])\nreturn y";
  const Converted c = must_convert(text, {}, 0);
  EXPECT_THAT(c.summary.quantized_layers, ElementsAre("y"));
  EXPECT_EQ(c.summary.int8_mac_share, 1.0);
  EXPECT_THAT(op_names(c.graph), ElementsAre("quantize", "linear"));
  ConvertOptions options;
  options.float_only = true;
  EXPECT_EQ(must_convert(text, options, 0).summary.int8_mac_share, 0.0);
}

TEST(Convert, NotFiniteWeightsAreRefusedByNameWithOrWithoutData) {
  const graph::Graph g =
      parsed("x: f32[3,2]\nfirst = const f32[2,2]{1,2,inf,4}\ny = linear(x, first)\nreturn y");
  auto samples = normal_samples(g, 1);
  for (quant::SampleSource* source :
       {static_cast<quant::SampleSource*>(nullptr), static_cast<quant::SampleSource*>(&samples)})
    for (const bool float_only : {false, true}) {
      ConvertOptions options;
      options.float_only = float_only;
      const auto c = convert(g, source, options);
      ASSERT_FALSE(c.ok());
      EXPECT_EQ(c.error().code, Code::invalid_model);
      EXPECT_THAT(c.error().message,
                  testing::AllOf(HasSubstr("'first'"), HasSubstr("element 2"), HasSubstr("'y'")));
    }
}

TEST(Convert, NotFiniteSamplesNameSampleAndTensor) {
  const graph::Graph g = parsed("x: f32[1,4]\ny = linear(x, random:f32[3,4])\nreturn y");
  auto samples = normal_samples(g, 3);
  samples.all()[2][0].as<float>()[1] = std::nanf("");
  const auto c = convert(g, &samples, {});
  ASSERT_FALSE(c.ok());
  EXPECT_THAT(c.error().message, testing::AllOf(HasSubstr("sample 2"), HasSubstr("'x'")));
}

// Feature 0 is huge now and then and has weight 0: one scale for all rows drowns the others.
constexpr const char* kOutlier =
    "x: f32[8,4]\nw = const f32[3,4]{0,1,-1,0.5, 0,0.5,1,-1, 0,-1,0.25,1}\ny = linear(x, "
    "w)\nreturn y";
MemorySamples outliers(const graph::Graph& g, bool in_every_row) {
  auto samples = normal_samples(g, 16);
  for (std::size_t s = 0; s < 16; ++s)
    for (std::size_t row = 0; row < 8; ++row)
      if (in_every_row || (s == 5 && row == 3)) samples.all()[s][0].as<float>()[row * 4] = 5000;
  return samples;
}

TEST(Convert, APoorModelIsRepairedAndItSaysHow) {
  const graph::Graph g = parsed(kOutlier);
  auto samples = outliers(g, false);
  ConvertOptions options;
  options.search = false;
  const auto poor = convert(g, &samples, options);
  ASSERT_TRUE(poor.ok()) << poor.error().message;
  EXPECT_LT(*poor->summary.outputs[0].error.sqnr_db, 15);
  EXPECT_THAT(poor->summary.warnings, ElementsAre(HasSubstr("one sample holds the largest")));
  const auto repaired = convert(g, &samples, {});
  ASSERT_TRUE(repaired.ok()) << repaired.error().message;
  EXPECT_GT(*repaired->summary.outputs[0].error.sqnr_db, 15);
  EXPECT_THAT(repaired->summary.warnings,
              ElementsAre(HasSubstr("one sample"),
                          testing::AllOf(HasSubstr("INT8 was poor"), HasSubstr("per token"),
                                         HasSubstr(" dB"))));
  EXPECT_EQ(count_ops(repaired->graph, "dynamic_quantize"), 1);
  EXPECT_THAT(load_facts(repaired->graph).warnings, repaired->summary.warnings);
}

// A network of 16-bit floats keeps their type at its outputs, behind what is computed in f32.
TEST(Convert, OutputsOfAnyFloatTypeAreJudgedAndRepaired) {
  std::string network = kOutlier;
  network.replace(network.find("return"), std::string::npos, "");
  for (const char* type : {"f16", "bf16", "f64"}) {
    SCOPED_TRACE(type);
    const graph::Graph g = parsed(network + "z = cast(y) to=" + type + "\nreturn z");
    auto samples = outliers(g, false);
    ConvertOptions options;
    options.search = false;
    const auto poor = convert(g, &samples, options);
    ASSERT_TRUE(poor.ok()) << poor.error().message;
    ASSERT_EQ(poor->summary.outputs.size(), 1u);
    EXPECT_LT(*poor->summary.outputs[0].error.sqnr_db, 15);
    const auto repaired = convert(g, &samples, {});
    ASSERT_TRUE(repaired.ok()) << repaired.error().message;
    EXPECT_GT(*repaired->summary.outputs[0].error.sqnr_db, 15);
    EXPECT_EQ(count_ops(repaired->graph, "dynamic_quantize"), 1);
  }
}

TEST(Convert, AComparisonWithNothingIsNotSilent) {
  const graph::Graph g = parsed("x: f32[n,8]\ny = linear(x, random:f32[4,8])\nreturn y");
  auto samples = normal_samples(g, 2, 1, 0);
  const auto c = convert(g, &samples, {});
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_THAT(c->summary.warnings, Contains(HasSubstr("compared with nothing")));
}

TEST(Convert, WhatStaysPoorIsNotSilent) {
  const graph::Graph g = parsed(kOutlier);
  auto samples = outliers(g, true);
  const auto c = convert(g, &samples, {});
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_THAT(c->summary.warnings,
              Contains(testing::AllOf(HasSubstr("stays poor"), HasSubstr("--keep-float"))));
}

TEST(Convert, TellsItsProgress) {
  const graph::Graph g = parsed(kCnn);
  auto samples = normal_samples(g, 3);
  std::vector<std::string> seen;
  ConvertOptions options;
  options.progress = [&](const std::string& stage, std::size_t done, std::size_t total) {
    seen.push_back(stage + " " + std::to_string(done) + "/" + std::to_string(total));
  };
  ASSERT_TRUE(convert(g, &samples, options).ok());
  EXPECT_THAT(seen, Contains("fold 0/0"));
  EXPECT_THAT(seen, Contains("calibrate 3/3"));
}

TEST(Fold, LeavesAPlainFloatGraph) {
  const graph::Graph g = parsed(kCnn);
  const auto f = fold(g);
  ASSERT_TRUE(f.ok()) << f.error().message;
  EXPECT_EQ(f->batch_norms_left, 0);
  EXPECT_EQ(count_ops(f->graph, "batch_norm"), 0);
  auto samples = normal_samples(g, 4);
  const auto same = score_of(g, f->graph, samples, 4);
  ASSERT_TRUE(same.ok()) << same.error().message;
  EXPECT_GT(same->worst_sqnr_db.value_or(1e9), 110);
}

TEST(Score, OfAModelAgainstItself) {
  const graph::Graph g =
      parsed("x: f32[n,4]\ny = linear(x, random:f32[3,4])\nz = reshape(y, s64{-1})\nreturn y, z");
  auto samples = normal_samples(g, 5);
  const auto s = score_of(g, g, samples, 3);
  ASSERT_TRUE(s.ok()) << s.error().message;
  ASSERT_EQ(s->outputs.size(), 2u);
  EXPECT_TRUE(s->outputs[0].error.exact);
  EXPECT_FALSE(s->worst_sqnr_db);
  EXPECT_EQ(s->worst_top1, 1.0);
  EXPECT_FALSE(s->outputs[1].top1);  // no class scores
  EXPECT_EQ(samples.reads, 3);
}

TEST(Score, OutputsOfEveryType) {
  for (const std::string type : {"f32", "f16", "bf16", "f64", "s8", "u8", "s16", "u16", "s32",
                                 "u32", "s64", "u64", "bool"}) {
    SCOPED_TRACE(type);
    const auto network = [&](const char* more) {
      return parsed("x: f32[1,4]\nc = binary(x, f32[1]{" + std::string(more) +
                    "}) kind=add\ny = cast(c) to=" + type + "\nreturn y");
    };
    MemorySamples samples({{testing_support::tensor_of({1, 4}, {0, 2, 3, 4})}});
    const auto s = score_of(network("0"), network("1"), samples, 1);
    ASSERT_TRUE(s.ok()) << s.error().message;
    ASSERT_EQ(s->outputs.size(), 1u);
    EXPECT_EQ(s->outputs[0].error.elements, 4u);
    EXPECT_EQ(s->outputs[0].error.max_abs, 1);
    EXPECT_EQ(s->worst_sqnr_db, s->outputs[0].error.sqnr_db);
    EXPECT_TRUE(s->worst_sqnr_db);
    EXPECT_EQ(s->worst_top1.has_value(), type.find('f') != std::string::npos);
  }
}

// A near tie flips an index: it is shown, and what attempts are compared by are the real numbers.
TEST(Score, IndicesDecideOnlyWhereNothingElseDoes) {
  const auto network = [](const char* more) {
    return parsed("x: f32[1,4]\ny = binary(x, f32[1]{0.001}) kind=add\nc = binary(x, f32[1]{" +
                  std::string(more) + "}) kind=add\ni = cast(c) to=s64\nreturn y, i");
  };
  MemorySamples samples({{testing_support::tensor_of({1, 4}, {0, 2, 3, 4})}});
  const auto s = score_of(network("0"), network("1"), samples, 1);
  ASSERT_TRUE(s.ok()) << s.error().message;
  ASSERT_EQ(s->outputs.size(), 2u);
  EXPECT_EQ(s->outputs[1].error.max_abs, 1);
  EXPECT_FALSE(s->worst_sqnr_db);
}

}  // namespace
}  // namespace fold8::fusion
