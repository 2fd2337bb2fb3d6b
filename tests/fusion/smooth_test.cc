// SmoothQuant in a graph: where the factors go, what refuses them, and that no float result moves.
#include "fusion/passes/smooth.h"

#include <cmath>
#include <map>

#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// gamma of a norm that blows one channel up, as trained Transformers have.
constexpr const char* kGamma = "f32[8]{1,60,1,0.5,1,1,2,1}";
const std::string kNorm = "n = norm(x, " + std::string(kGamma) + ", random:f32[8]) epsilon=1e-05\n";

struct Smoothed {
  graph::Graph before, after;
  SmoothOutcome outcome;

  const SmoothedTensor& tensor(const std::string& name) const {
    for (const SmoothedTensor& t : outcome.smoothed)
      if (t.tensor == name) return t;
    ADD_FAILURE() << name << " was not smoothed";
    static const SmoothedTensor none;
    return none;
  }
  std::string why(const std::string& name) const {
    for (const Declined& d : outcome.declined)
      if (d.node == name) return d.why;
    return "";
  }
};

// Every tensor of a run by name, as the float network has it.
std::map<std::string, std::vector<double>> values_of(const graph::Graph& g,
                                                     const std::vector<Tensor>& sample) {
  std::map<std::string, std::vector<double>> values;
  auto session = exec::Session::create(model_of(g));
  EXPECT_TRUE(session.ok()) << session.error().message;
  if (!session.ok()) return values;
  (*session)->set_tap([&](graph::ValueId v, const TensorView& t) {
    const graph::Value& value = g.value(v);
    if (t.dtype != DType::f32) return ok_status();
    const auto data = t.as<const float>();
    std::vector<double> original(data.begin(), data.end());
    if (!value.rescale.empty()) {
      const auto inner =
          static_cast<std::size_t>(t.shape.count(value.rescale_axis + 1, t.shape.rank()));
      for (std::size_t i = 0; i < original.size(); ++i)
        original[i] *= value.rescale[i / inner % value.rescale.size()];
    }
    values[value.name] = std::move(original);
    return ok_status();
  });
  std::vector<TensorView> views;
  for (const Tensor& t : sample) views.push_back(t.view());
  EXPECT_TRUE((*session)->run(views).ok());
  return values;
}

// 100 dB on every tensor both networks have.
void expect_same_floats(const graph::Graph& before, const graph::Graph& after) {
  auto samples = normal_samples(before, 1, 5);
  const auto a = values_of(before, samples.all()[0]), b = values_of(after, samples.all()[0]);
  std::size_t shared = 0;
  for (const auto& [name, wanted] : a) {
    const auto got = b.find(name);
    if (got == b.end()) continue;
    ++shared;
    ASSERT_EQ(got->second.size(), wanted.size()) << name;
    double power = 0, error = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      power += wanted[i] * wanted[i];
      error += (wanted[i] - got->second[i]) * (wanted[i] - got->second[i]);
    }
    EXPECT_LE(error, power * 1e-10) << name << "\n" << graph::to_text(after);
  }
  EXPECT_GT(shared, 0u);
}

Smoothed smoothed(const std::string& text, std::optional<double> alpha = 0.5) {
  Smoothed s{parsed(text), {}, {}};
  EXPECT_TRUE(run(Stage{"constants", {&fold_constants}}, s.before).ok());
  s.after = s.before;
  auto samples = normal_samples(s.before, 6);
  quant::CalibrateOptions calibration;
  calibration.channel_axis = values_to_smooth(s.before);
  std::set<std::string> names;
  for (const auto& [name, axis] : calibration.channel_axis) names.insert(name);
  calibration.observe = names;
  auto table = quant::calibrate(model_of(s.before), samples, calibration);
  auto rows = quant::sample_rows(model_of(s.before), samples, names, 64, 1);
  EXPECT_TRUE(table.ok() && rows.ok());
  SmoothOptions options;
  options.alpha = alpha;
  options.calibration = &*table;
  options.rows = &*rows;
  auto outcome = smooth(s.after, options);
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  if (outcome.ok()) s.outcome = std::move(*outcome);
  expect_verified(s.after);
  expect_same_floats(s.before, s.after);
  return s;
}

double largest_weight(const graph::Graph& g, const char* node, std::size_t channel) {
  const graph::Node& n = node_named(g, node);
  const auto w = floats(g, n.inputs[1]);
  const auto width = static_cast<std::size_t>(g.type(n.inputs[1]).shape.extent(1));
  double most = 0;
  for (std::size_t i = channel; i < w.size(); i += width)
    most = std::max(most, std::fabs(double{w[i]}));
  return most;
}

TEST(Smooth, QueryKeyAndValueShareTheFactorsTheirNormTakes) {
  const Smoothed s = smoothed("x: f32[2,6,8]\n" + kNorm +
                              "q = linear(n, random:f32[4,8])\nk = linear(n, random:f32[4,8])\n"
                              "v = linear(n, random:f32[5,8], random:f32[5])\nreturn q, k, v");
  EXPECT_EQ(s.before.live_nodes(), s.after.live_nodes());  // nothing at run time
  const SmoothedTensor& t = s.tensor("n");
  EXPECT_EQ(t.into, "n");
  EXPECT_EQ(t.widest_channel, 1u);
  EXPECT_EQ(t.layers.size(), 3u);
  EXPECT_LT(t.range_after * 4, t.range_before);
  const auto was = floats(s.before, node_named(s.before, "n").inputs[1]),
             is = floats(s.after, node_named(s.after, "n").inputs[1]);
  const double factor = was[1] / is[1];
  for (const char* layer : {"q", "k", "v"})
    EXPECT_NEAR(largest_weight(s.after, layer, 1) / largest_weight(s.before, layer, 1), factor,
                1e-5 * factor);
}

TEST(Smooth, AnRmsNormHasNoBetaToScale) {
  const Smoothed s = smoothed("x: f32[2,6,8]\nn = norm(x, " + std::string(kGamma) +
                              ") kind=rms\ny = linear(n, random:f32[4,8])\nreturn y");
  EXPECT_EQ(s.tensor("n").into, "n");
  EXPECT_EQ(s.before.live_nodes(), s.after.live_nodes());
}

TEST(Smooth, RowsAndBiasOfALayerTakeThemThroughActivationsThatCommute) {
  for (const char* activation :
       {"", " activation=clip a=0 b=inf", " activation=leaky_relu a=0.1"}) {
    const Smoothed s =
        smoothed("x: f32[7,8]\na = linear(x, random:f32[6,8], random:f32[6])" +
                 std::string(activation) + "\ny = linear(a, random:f32[3,6])\nreturn y");
    EXPECT_EQ(s.tensor("a").into, "a") << activation;
  }
  // Before activations are fused, too.
  EXPECT_EQ(smoothed("x: f32[7,8]\na = linear(x, random:f32[6,8], random:f32[6])\n"
                     "r = unary(a) kind=relu\ny = linear(r, random:f32[3,6])\nreturn y")
                .tensor("r")
                .into,
            "a");
}

TEST(Smooth, NothingPassesBackThroughGelu) {
  const Smoothed s = smoothed(
      "x: f32[7,8]\na = linear(x, random:f32[6,8], random:f32[6]) activation=gelu_erf\n"
      "y = linear(a, random:f32[3,6])\nreturn y");
  EXPECT_EQ(s.tensor("a").into, "");
  EXPECT_THAT(s.why("a"), HasSubstr("does not commute with scaling; an explicit multiply"));
  EXPECT_EQ(count_ops(s.after, "affine"), 2);  // and x's
}

TEST(Smooth, WhatASkipReadsToKeepsItsValues) {
  const Smoothed s = smoothed("x: f32[2,6,8]\n" + kNorm +
                              "a = linear(n, random:f32[8,8])\ny = binary(a, n)\nreturn y");
  EXPECT_EQ(s.tensor("n").into, "");
  EXPECT_THAT(s.why("n"), HasSubstr("'y' (add) reads 'n' too"));
  EXPECT_EQ(floats(s.after, node_named(s.after, "n").inputs[1]),
            floats(s.before, node_named(s.before, "n").inputs[1]));
}

// The skip as a residual of the very layer that is smoothed, or of another.
TEST(Smooth, AResidualIsAnotherReader) {
  for (const char* layer : {"y = linear(n, random:f32[8,8], _, n)\nreturn y",
                            "a = linear(n, random:f32[5,8])\n"
                            "y = linear(a, random:f32[8,5], _, n)\nreturn y"}) {
    const Smoothed s = smoothed("x: f32[2,6,8]\n" + kNorm + layer);
    for (const SmoothedTensor& t : s.outcome.smoothed)
      EXPECT_FALSE(t.tensor == "n" && t.into != "");
  }
}

TEST(Smooth, WhatTheGraphReturnsKeepsItsValues) {
  const Smoothed s =
      smoothed("x: f32[2,6,8]\n" + kNorm + "y = linear(n, random:f32[8,8])\nreturn y, n");
  EXPECT_EQ(s.tensor("n").into, "");
  EXPECT_THAT(s.why("n"), HasSubstr("the graph returns 'n'"));
}

TEST(Smooth, AGateLeavesThemToTheOtherFactor) {
  const Smoothed s = smoothed(
      "x: f32[5,8]\ng = linear(x, random:f32[6,8]) activation=silu a=1\n"
      "u = linear(x, random:f32[6,8])\nm = binary(g, u) kind=mul\n"
      "y = linear(m, random:f32[8,6])\nreturn y");
  EXPECT_EQ(s.tensor("m").into, "u");
  EXPECT_EQ(floats(s.after, node_named(s.after, "g").inputs[1]).size(), 48u);
}

const std::string kHeads =
    "q: f32[2,4,3,5]\nx: f32[2,5,8]\n"
    "v = linear(x, random:f32[8,8], random:f32[8])\n";
const std::string kMerge =
    "t = transpose(o) perm=[0,2,1,3]\nm = reshape(t, s64[3]{0,3,8})\n"
    "y = linear(m, random:f32[6,8])\nreturn y";

TEST(Smooth, ChannelsOfAttentionGoIntoV) {
  const Smoothed s = smoothed(kHeads +
                              "r = reshape(v, s64[4]{2,5,4,2})\nh = transpose(r) perm=[0,2,1,3]\n"
                              "p = softmax(q)\no = matmul(p, h)\n" +
                              kMerge);
  EXPECT_EQ(s.tensor("m").into, "v");
  EXPECT_EQ(s.tensor("m").layers, std::vector<std::string>{"y"});
}

TEST(Smooth, VMayBeTransposedInThePlaceOfItsMatMul) {
  const Smoothed s = smoothed(kHeads +
                              "r = reshape(v, s64[4]{2,5,4,2})\nh = transpose(r) perm=[0,2,3,1]\n"
                              "p = softmax(q)\no = matmul(p, h) transpose_b=true\n" +
                              kMerge);
  EXPECT_EQ(s.tensor("m").into, "v");
}

// One layer makes Q, K and V: only V's rows change.
TEST(Smooth, OfASharedProjectionOnlyVsRowsChange) {
  const Smoothed s = smoothed(
      "q: f32[2,4,3,5]\nx: f32[2,5,8]\nqkv = linear(x, random:f32[24,8], random:f32[24])\n"
      "r = reshape(qkv, s64[5]{2,5,3,4,2})\nall = transpose(r) perm=[2,0,3,1,4]\n"
      "k = gather(all, s64[]{1})\nh = gather(all, s64[]{2})\n"
      "p = softmax(q)\no = matmul(p, h)\nz = binary(k, k) kind=mul\n" +
      kMerge + ", z");
  EXPECT_EQ(s.tensor("m").into, "qkv");
  const auto was = floats(s.before, node_named(s.before, "qkv").inputs[2]),
             is = floats(s.after, node_named(s.after, "qkv").inputs[2]);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(was[i], is[i]);
  EXPECT_NE(was[17], is[17]);
}

// Two heads of V serve four of Q.
TEST(Smooth, HeadsThatShareVShareFactors) {
  const Smoothed s = smoothed(
      "q: f32[2,4,3,5]\nx: f32[2,5,8]\nv = linear(x, random:f32[4,8], random:f32[4])\n"
      "r = reshape(v, s64[4]{2,5,2,2})\nh = transpose(r) perm=[0,2,1,3]\n"
      "e = unsqueeze(h) axes=[2]\nx2 = expand(e, s64[5]{2,2,2,5,2})\nw = reshape(x2, "
      "s64[4]{2,4,5,2})\n"
      "p = softmax(q)\no = matmul(p, w)\n" +
      kMerge);
  EXPECT_EQ(s.tensor("m").into, "v");
}

// The operator that attention becomes, with Q, K and V as rows of one projection: two heads of V
// serve four of Q, and only V's rows change.
TEST(Smooth, ChannelsPassTheAttentionOperator) {
  const Smoothed s = smoothed(
      "x: f32[2,5,8]\nqkv = linear(x, random:f32[16,8], random:f32[16])\n"
      "m = attention(qkv, qkv, qkv) heads=4 kv_heads=2 depth=2 value_depth=2 q_rows=true "
      "k_rows=true v_rows=true y_rows=true q_offset=0 k_offset=8 v_offset=12\n"
      "y = linear(m, random:f32[6,8])\nreturn y");
  EXPECT_EQ(s.tensor("m").into, "qkv");
  const auto was = floats(s.before, node_named(s.before, "qkv").inputs[2]),
             is = floats(s.after, node_named(s.after, "qkv").inputs[2]);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(was[i], is[i]);
  for (std::size_t i = 12; i < 16; ++i) EXPECT_NE(was[i], is[i]);
}

TEST(Smooth, VOfTheAttentionOperatorMustNotBeItsKey) {
  const Smoothed s = smoothed(
      "x: f32[2,5,8]\nq = linear(x, random:f32[8,8])\nv = linear(x, random:f32[8,8])\n"
      "m = attention(q, v, v) heads=4 kv_heads=4 depth=2 value_depth=2 q_rows=true "
      "k_rows=true v_rows=true y_rows=true\n"
      "y = linear(m, random:f32[6,8])\nreturn y");
  EXPECT_EQ(s.tensor("m").into, "");
  EXPECT_THAT(s.why("m"), HasSubstr("for more than its values"));
}

TEST(Smooth, DeadChannelsKeepAFactorOfOne) {
  const Smoothed s = smoothed(
      "x: f32[2,6,4]\nn = norm(x, f32[4]{1,0,60,1}, f32[4]{0,0,0,0})\n"
      "y = linear(n, f32[2,4]{1,2,0,3,4,5,0,6})\nreturn y");
  const auto gamma = floats(s.after, node_named(s.after, "n").inputs[1]);
  EXPECT_EQ(gamma[1], 0);
  EXPECT_EQ(gamma[2], 60);
  for (const float g : gamma) EXPECT_TRUE(std::isfinite(g));
}

TEST(Smooth, OneWeightForTwoTensorsBecomesTwo) {
  const Smoothed s =
      smoothed("x: f32[2,6,8]\n" + kNorm +
               "w = binary(random:f32[4,8], f32[1]{1}) kind=mul\nm = norm(x) kind=rms\n"
               "a = linear(n, w)\nb = linear(m, w)\nreturn a, b");
  EXPECT_NE(node_named(s.after, "a").inputs[1], node_named(s.after, "b").inputs[1]);
}

// A searched alpha is for what gains.
TEST(Smooth, TheSearchLeavesEvenChannelsAlone) {
  EXPECT_THAT(
      smoothed("x: f32[2,6,8]\nn = norm(x)\ny = linear(n, random:f32[8,8])\nreturn y", std::nullopt)
          .outcome.smoothed,
      IsEmpty());
  const Smoothed s = smoothed(
      "x: f32[2,6,8]\n" + kNorm + "y = linear(n, random:f32[8,8])\nreturn y", std::nullopt);
  EXPECT_GE(s.tensor("n").alpha, 0.3);
}

}  // namespace
}  // namespace fold8::fusion
