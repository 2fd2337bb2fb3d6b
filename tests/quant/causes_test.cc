#include "quant/causes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "quant/cause_text.h"
#include "quant/quantize_weights.h"
#include "tests/support/memory_samples.h"

namespace fold8::quant {
namespace {

using graph::Graph;
using graph::ValueId;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::MemorySamples;
using testing_support::model_of;
using testing_support::normal_samples;

constexpr std::int64_t kWidth = 16, kClasses = 8;

// x [n,16] -> hidden = relu(x w1) -> y = hidden w2; `hidden` is rounded on its way in the other.
struct Layers {
  std::vector<float> w1, w2;
  std::optional<QuantParams> hidden;  // none: per token
  std::optional<QuantParams> pair;    // a Q/DQ pair of the file in front of that
  bool int8_weights = false, per_tensor_weights = false;

  explicit Layers(unsigned seed = 1) : w1(kWidth * kWidth), w2(kClasses * kWidth) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal(0, 0.25f);
    for (float& v : w1) v = normal(rng);
    for (float& v : w2) v = normal(rng);
  }
  // Channel c of hidden times `factor`; y stays the same.
  void scale_channel(std::size_t c, float factor) {
    for (std::size_t k = 0; k < kWidth; ++k) w1[c * kWidth + k] *= factor;
    for (std::size_t n = 0; n < kClasses; ++n) w2[n * kWidth + c] /= factor;
  }

  Graph build(bool rounded) const {
    Graph g;
    const TensorType f32{DType::f32, Shape{5, kWidth}, {}, Layout::plain};
    const ValueId x = g.add_value("x", f32);
    g.inputs.push_back(x);
    const ValueId a = g.add_constant<float>("w1", Shape{kWidth, kWidth}, w1);
    const ValueId h = g.add_value("hidden", f32);
    graph::Linear relu;
    relu.activation = Activation::clip;  // at 0 from below
    relu.b = std::numeric_limits<float>::infinity();
    g.add_node(relu, "first", {x, a}, {h});
    const ValueId y =
        g.add_value("y", TensorType{DType::f32, Shape{5, kClasses}, {}, Layout::plain});
    if (!rounded) {
      g.add_node(graph::Linear{}, "second",
                 {h, g.add_constant<float>("w2", Shape{kClasses, kWidth}, w2)}, {y});
    } else {
      round(g, h, y);
    }
    g.outputs.push_back(y);
    return g;
  }

  void round(Graph& g, ValueId h, ValueId y) const {
    if (pair) {
      const Shape rows{5, kWidth};
      const ValueId codes =
          g.add_value("hidden_codes", TensorType{DType::u8, rows, *pair, Layout::plain});
      const ValueId back = g.add_value("hidden_d", TensorType{DType::f32, rows, {}, Layout::plain});
      g.add_node(graph::Quantize{}, "Q_pair", {h}, {codes});
      g.add_node(graph::Dequantize{}, "DQ_pair", {codes}, {back});
      h = back;
    }
    TensorType u8{DType::u8, Shape{5, kWidth}, hidden ? *hidden : QuantParams::per_token(),
                  Layout::plain};
    const ValueId q = g.add_value("hidden_u8", u8);
    ValueId scale = graph::kNoValue;
    if (hidden) {
      g.add_node(graph::Quantize{}, "rounds", {h}, {q});
    } else {
      scale = g.add_value("scale", TensorType{DType::f32, Shape{5, 1}, {}, Layout::plain});
      g.add_node(graph::DynamicQuantize{}, "rounds", {h}, {q, scale});
    }
    const Shape shape{kClasses, kWidth};
    auto w = quantize_weight(
        w2, shape, 0,
        per_tensor_weights ? WeightGranularity::per_tensor : WeightGranularity::per_channel, 1);
    ASSERT_TRUE(w.ok()) << w.error().message;
    auto bytes = Buffer::allocate(w->codes.size());
    std::memcpy(bytes->mutable_data(), w->codes.data(), w->codes.size());
    const ValueId codes =
        g.add_constant("w2_s8", TensorType{DType::s8, shape, w->params, Layout::plain}, bytes);
    g.add_node(graph::Linear{}, "second", {q, codes, graph::kNoValue, graph::kNoValue, scale}, {y});
  }
};

QuantParams params(double scale, int zero_point = 0) {
  return QuantParams::per_tensor(static_cast<float>(scale), zero_point).value();
}

std::vector<Finding> findings_of(const Graph& reference, const Graph& other, SampleSource& samples,
                                 const ConcludeOptions& options = {}) {
  const auto a = model_of(reference), b = model_of(other);
  auto comparison = compare(a, b, samples);
  EXPECT_TRUE(comparison.ok()) << comparison.error().message;
  auto facts = measure_facts(a, b, samples);
  EXPECT_TRUE(facts.ok()) << facts.error().message;
  auto found = sensitivity(a, b, samples);
  EXPECT_TRUE(found.ok()) << found.error().message;
  if (!comparison.ok() || !facts.ok() || !found.ok()) return {};
  return conclude(*comparison, *facts, *found, options);
}

std::vector<Finding> findings_of(const Layers& layers, std::size_t count = 6,
                                 const ConcludeOptions& options = {}) {
  const Graph reference = layers.build(false);
  auto samples = normal_samples(reference, count);
  return findings_of(reference, layers.build(true), samples, options);
}

bool has_flag(const Finding& f, const std::string& flag) {
  return std::any_of(f.fixes.begin(), f.fixes.end(),
                     [&](const Fix& fix) { return fix.flag.find(flag) != std::string::npos; });
}

TEST(Causes, SoundModelsHaveNone) {
  Layers layers;
  layers.hidden = params(4.0 / 255);
  EXPECT_TRUE(findings_of(layers).empty());
  layers.hidden.reset();  // per token
  EXPECT_TRUE(findings_of(layers).empty());
}

TEST(Causes, AScaleFarTooSmall) {
  Layers layers;
  layers.hidden = params(4.0 / 255 / 16);
  ConcludeOptions options;
  options.calibration_flag = "--recalib 'data'";
  const auto found = findings_of(layers, 6, options);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].cause.kind, CauseKind::scale_too_small);
  EXPECT_EQ(found[0].layer, "y");
  EXPECT_EQ(found[0].tensor, "hidden");
  EXPECT_THAT(found[0].cause.text, HasSubstr("too small"));
  EXPECT_FALSE(found[0].cause.samples.empty());
  EXPECT_TRUE(has_flag(found[0], "--keep-float 'y'"));
  EXPECT_TRUE(has_flag(found[0], "--recalib 'data'"));
  options.file_scales = {{"hidden", "its pair"}};
  const auto own = findings_of(layers, 6, options);
  EXPECT_FALSE(has_flag(own[0], "--recalib"));
  EXPECT_EQ(own[0].fixes[0].flag, "--keep-float 'its pair'");
  options.file_scales = {{"hidden", "-its pair"}};  // no option of its own
  EXPECT_EQ(findings_of(layers, 6, options)[0].fixes[0].flag, "--keep-float='-its pair'");
}

// The pair's codes become floats again, and are rounded once more for the layer that reads them.
TEST(Causes, TheClippedScaleOfAPairOfTheFile) {
  ConcludeOptions options;
  options.file_scales = {{"hidden", "Q_pair"}};
  for (const bool per_token : {false, true}) {
    Layers layers;
    layers.pair = params(4.0 / 255 / 16);
    if (!per_token) layers.hidden = params(4.0 / 255 / 16);
    const auto found = findings_of(layers, 6, options);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].cause.kind, CauseKind::scale_too_small);
    EXPECT_EQ(found[0].layer, "y");
    EXPECT_EQ(found[0].tensor, "hidden");
    EXPECT_THAT(found[0].cause.text, HasSubstr("the scale is the file's own, of 'Q_pair'"));
    EXPECT_TRUE(has_flag(found[0], "--keep-float 'Q_pair'"));
    for (const Fix& f : found[0].fixes) EXPECT_NE(f.flag.find("--method"), 0u);
  }
}

TEST(Causes, AScaleFarTooLarge) {
  Layers layers;
  layers.hidden = params(4.0 / 255 * 40);
  const auto found = findings_of(layers);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].cause.kind, CauseKind::scale_too_large);
  EXPECT_THAT(found[0].cause.text, HasSubstr("of 256 codes are used"));
}

TEST(Causes, ClippedValues) {
  Layers layers;
  layers.hidden = params(1.2 / 255);
  const auto found = findings_of(layers);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].cause.kind, CauseKind::clipped);
  EXPECT_THAT(found[0].cause.text, HasSubstr("% of its values are clipped, most in sample"));
}

TEST(Causes, AnOutlierChannelIsNamed) {
  Layers layers;
  layers.scale_channel(5, 60);
  const auto found = findings_of(layers);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].cause.kind, CauseKind::outlier_channel);
  EXPECT_THAT(found[0].cause.channels, ElementsAre(5));
  EXPECT_EQ(found[0].layer, "y");
  ASSERT_FALSE(found[0].fixes.empty());
  EXPECT_EQ(found[0].fixes[0].flag, "--smooth 0.5");  // nothing left float
}

TEST(Causes, ADeadChannelIsNamed) {
  Layers layers;
  layers.hidden = params(4.0 / 255);
  layers.scale_channel(7, 0.005f);
  const auto found = findings_of(layers);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].cause.kind, CauseKind::dead_channel);
  EXPECT_EQ(found[0].cause.channels.front(), 7u);
  EXPECT_TRUE(has_flag(found[0], "--smooth 0.5"));
}

TEST(Causes, WeightsOfOneInputChannel) {
  Layers layers;
  layers.hidden = params(4.0 / 255);
  for (std::size_t n = 0; n < kClasses; ++n) layers.w2[n * kWidth + 3] *= 100;
  for (std::size_t k = 0; k < kWidth; ++k) layers.w1[3 * kWidth + k] *= 0.2f;  // no dead channel
  const auto found = findings_of(layers);
  for (const Finding& f : found) EXPECT_NE(f.cause.kind, CauseKind::dead_channel);
}

TEST(Causes, WeightsWithOneScaleForUnevenOutputs) {
  Layers layers;
  layers.hidden = params(4.0 / 255);
  layers.per_tensor_weights = true;
  for (std::size_t k = 0; k < kWidth; ++k) layers.w2[k] *= 300;
  const Graph reference = layers.build(false);
  auto samples = normal_samples(reference, 4);
  const auto facts = measure_facts(model_of(reference), model_of(layers.build(true)), samples);
  ASSERT_TRUE(facts.ok());
  const LayerFacts* y = facts->find("y");
  ASSERT_TRUE(y != nullptr && y->weights);
  EXPECT_TRUE(y->weights->per_tensor);
}

const UnfoldedNorm kNorm{"y", "bn", "'c' is also read by 'add'", "let nothing else read 'c'"};

TEST(Causes, AnUnfoldedBatchNormThatCostsNoAccuracy) {
  Layers layers;
  layers.hidden = params(4.0 / 255);
  ConcludeOptions options;
  options.unfolded = {kNorm, {"z", "bn2", "", "change z"}, {"u", "bn3", "", "change u"}};
  const auto found = findings_of(layers, 6, options);
  ASSERT_EQ(found.size(), 1u);  // one for all of them
  EXPECT_EQ(found[0].cause.kind, CauseKind::unfolded_batch_norm);
  EXPECT_EQ(found[0].layer, "y");
  EXPECT_THAT(found[0].also, ElementsAre("z", "u"));
  EXPECT_FALSE(found[0].share);
  EXPECT_THAT(found[0].cause.text,
              testing::AllOf(HasSubstr("'bn' was not folded ('c' is also read by 'add')"),
                             HasSubstr("2 others")));
  ASSERT_EQ(found[0].fixes.size(), 1u);
  EXPECT_EQ(found[0].fixes[0].flag, "");  // nothing to paste
  EXPECT_EQ(text(found[0].fixes[0]), "let nothing else read 'c'");
}

TEST(Causes, AnUnfoldedBatchNormThatReadsWhatIsRounded) {
  Layers layers;
  layers.hidden = params(4.0 / 255 / 16);
  ConcludeOptions options;
  options.unfolded = {kNorm};
  const auto found = findings_of(layers, 6, options), plain = findings_of(layers, 6);
  ASSERT_EQ(found.size(), plain.size());
  EXPECT_EQ(found[0].cause.kind, CauseKind::unfolded_batch_norm);
  EXPECT_EQ(found[0].share, plain[0].share);
  EXPECT_THAT(found[0].cause.text,
              testing::AllOf(HasSubstr("'bn' was not folded"), HasSubstr(plain[0].cause.text)));
  ASSERT_EQ(found[0].fixes.size(), plain[0].fixes.size() + 1);
  EXPECT_TRUE(has_flag(found[0], "--keep-float 'y'"));
  EXPECT_EQ(found[0].fixes.back().flag, "");
  EXPECT_EQ(found[0].fixes.back().why, kNorm.change);
}

Fix fix_of(const char* flag, std::optional<double> gained, double cost, bool measured = false) {
  Fix f;
  f.flag = flag;
  f.why = "does";
  f.gained_db = gained;
  f.cost = cost;
  f.measured = measured;
  return f;
}

TEST(Fixes, AreRankedByDecibelsForTheTimeTheyCost) {
  std::vector<Fix> fixes{fix_of("", std::nullopt, 0), fix_of("dear", 6, 0.5),
                         fix_of("cheap", 3, 0.01), fix_of("harms", -1, 0.01),
                         fix_of("unknown", std::nullopt, 0.01)};
  rank(fixes);
  std::vector<std::string> order;
  for (const Fix& f : fixes) order.push_back(f.flag);
  EXPECT_THAT(order, ElementsAre("cheap", "unknown", "dear", "harms", ""));
  fixes = {fix_of("estimated", 3, 0.01), fix_of("measured", 2, 0.01, true)};
  rank(fixes);
  EXPECT_EQ(fixes[0].flag, "measured");
  fixes = {fix_of("lost", -1, 0, true), fix_of("won", 1, 0.9, true)};
  rank(fixes);
  ASSERT_EQ(fixes.size(), 1u);
  EXPECT_EQ(fixes[0].flag, "won");
  fixes = {fix_of("lost", -1, 0, true)};  // nobody would paste it
  rank(fixes);
  EXPECT_TRUE(fixes.empty());
}

// A range that the samples exceed because the model was calibrated on others.
TEST(Fixes, AMethodAloneDoesNotMendTheRangeOfOtherData) {
  ConcludeOptions options;
  options.calibration_flag = "--recalib 'data'";
  Layers layers;
  for (const double top : {0.4, 1.2}) {
    layers.hidden = params(top / 255);
    const auto found = findings_of(layers, 6, options);
    ASSERT_FALSE(found.empty());
    EXPECT_TRUE(has_flag(found[0], "--recalib 'data'")) << top;
    for (const Fix& f : found[0].fixes) EXPECT_NE(f.flag.find("--method"), 0u) << top;
  }
}

TEST(Fixes, NoEstimateExceedsWhatTheLayerWinsInFloat) {
  ConcludeOptions options;
  options.calibration_flag = "--recalib 'data'";
  Layers layers;
  layers.hidden = params(1.2 / 255);
  const Graph reference = layers.build(false);
  auto samples = normal_samples(reference, 6);
  const auto a = model_of(reference), b = model_of(layers.build(true));
  const auto comparison = compare(a, b, samples);
  const auto facts = measure_facts(a, b, samples);
  auto found = sensitivity(a, b, samples);
  ASSERT_TRUE(comparison.ok() && facts.ok() && found.ok());
  for (const double gain : {3.0, 1.0, -1.0}) {
    for (LayerSensitivity& s : *found)
      if (s.name == "y") s.gain_outputs_db = {gain};
    const auto findings = conclude(*comparison, *facts, *found, options);
    ASSERT_FALSE(findings.empty());
    bool estimated = false;
    for (const Fix& f : findings[0].fixes) {
      if (f.measured || f.flag.find("--recalib") == 0) continue;  // the latter mends all tensors
      estimated = true;
      EXPECT_THAT(f.mends, ElementsAre("y")) << f.flag;
      ASSERT_TRUE(f.gained_db);
      EXPECT_LE(*f.gained_db, std::max(gain, 0.0)) << f.flag;
    }
    EXPECT_TRUE(estimated || gain < 0);
  }
}

TEST(Fixes, OnlyEstimatesAreBounded) {
  Fix f = fix_of("f", 5, 0);
  bound(f, 7);
  EXPECT_EQ(f.gained_db, 5);
  bound(f, 2);
  EXPECT_EQ(f.gained_db, 2);
  bound(f, -3);
  EXPECT_EQ(f.gained_db, 0);
  f = fix_of("f", 5, 0, true);
  bound(f, 2);
  EXPECT_EQ(f.gained_db, 5);
}

TEST(Fixes, SayWhatIsMeasuredAndWhatIsNot) {
  EXPECT_EQ(text(fix_of("f", 3.14, 0, true)), "does; wins 3.14 dB");
  EXPECT_EQ(text(fix_of("f", 3.14, 0)), "does; wins about 3.14 dB (estimated)");
  EXPECT_EQ(text(fix_of("f", -0.5, 0, true)), "does; loses 0.5 dB");
  EXPECT_EQ(text(fix_of("f", std::nullopt, 0)), "does");
  Fix kept = fix_of("f", 1, 0, true);
  kept.float_share = 0.0213;
  EXPECT_EQ(text(kept), "does; wins 1 dB, leaves 2.1 % of the multiply-adds float");
}

TEST(Fixes, LayersLeftFloatAreNamedSoThatTheyCanBeMeasured) {
  Layers layers;
  layers.hidden = params(4.0 / 255 / 16);
  const auto found = findings_of(layers);
  ASSERT_FALSE(found.empty());
  for (const Fix& f : found[0].fixes) {
    const bool keeps = f.flag == "--keep-float 'y'";
    EXPECT_EQ(f.layers, keeps ? std::vector<std::string>{"y"} : std::vector<std::string>{})
        << f.flag;
    EXPECT_TRUE(!keeps || f.cost > 0);
  }
}

TEST(Causes, NamesAndNumbers) {
  EXPECT_STREQ(name(CauseKind::unfolded_batch_norm), "unfolded_batch_norm");
  EXPECT_STREQ(name(CauseKind::scale_too_small), "scale_too_small");
  EXPECT_STREQ(name(CauseKind::wrong_preprocessing), "wrong_preprocessing");
  EXPECT_STREQ(name(CauseKind::rounding), "rounding");
  EXPECT_EQ(short_number(1234.4), "1234");
  EXPECT_EQ(short_number(0.012345), "0.0123");
  EXPECT_EQ(short_number(5), "5");
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(-2.5), "-2.5");
  EXPECT_EQ(plain_number(0.99999), "0.99999");
  EXPECT_EQ(percent(0.0213), "2.1 %");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
}

}  // namespace
}  // namespace fold8::quant
