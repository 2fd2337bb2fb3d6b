#include "quant/sensitivity.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "quant/compare.h"
#include "quant/plain_f32.h"
#include "tests/support/memory_samples.h"
#include "tests/support/parsed_graph.h"

namespace fold8::quant {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::MemorySamples;
using testing_support::model_of;
using testing_support::normal_samples;
using testing_support::parsed;
using testing_support::run_once;
using testing_support::tensor_of;

std::vector<LayerSensitivity> probed(const graph::Graph& a, const graph::Graph& b,
                                     SampleSource& samples,
                                     const SensitivityOptions& options = {}) {
  auto s = sensitivity(model_of(a), model_of(b), samples, options);
  EXPECT_TRUE(s.ok()) << s.error().message;
  return s.ok() ? std::move(*s) : std::vector<LayerSensitivity>{};
}
std::string error_of(const graph::Graph& a, const graph::Graph& b, SampleSource& samples) {
  const auto s = sensitivity(model_of(a), model_of(b), samples);
  EXPECT_FALSE(s.ok());
  return s.ok() ? "" : s.error().message;
}
const LayerSensitivity& layer(const std::vector<LayerSensitivity>& all, const std::string& name) {
  for (const LayerSensitivity& l : all)
    if (l.name == name) return l;
  ADD_FAILURE() << "no layer " << name;
  return all.at(0);
}
double db(double signal, double error) { return 10 * std::log10(signal / error); }
constexpr double kDb = 1e-3;  // single precision against the numbers worked out by hand

// Float: a = (x0 + 2 x1, x0/2 + x1), y = a0 - a1. INT8: codes of x are steps of 0.1, of a 0.5;
// weights are exact. x = (1, 0.26):
//   reference    a = (1.52, 0.76)  y = 0.76
//   INT8         x -> (1, 0.3), a = (1.6, 0.8) -> (1.5, 1), y = 0.5
constexpr const char* kFloat =
    "x: f32[1,2]\na = linear(x, f32[2,2]{1,2, 0.5,1})\ny = linear(a, f32[1,2]{1,-1})\nreturn y";
constexpr const char* kInt8Apart =
    "x: f32[1,2]\nxq: u8[1,2] @(0.1,0) = quantize(x)\nw = const s8[2,2] @(0.5,0) {2,4, 1,2}\n"
    "a = linear(xq, w)\naq: u8[1,2] @(0.5,0) = quantize(a)\nv = const s8[1,2] @(1,0) {1,-1}\n"
    "y = linear(aq, v)\nreturn y";
// The same, a's rounding inside the first layer.
constexpr const char* kInt8Fused =
    "x: f32[1,2]\nxq: u8[1,2] @(0.1,0) = quantize(x)\nw = const s8[2,2] @(0.5,0) {2,4, 1,2}\n"
    "a: u8[1,2] @(0.5,0) = linear(xq, w)\nv = const s8[1,2] @(1,0) {1,-1}\n"
    "y = linear(a, v)\nreturn y";

TEST(Sensitivity, TwoLayersByHand) {
  for (const char* text : {kInt8Apart, kInt8Fused}) {
    MemorySamples samples({{tensor_of({1, 2}, {1, 0.26f})}});
    const auto s = probed(parsed(kFloat), parsed(text), samples);
    ASSERT_EQ(s.size(), 2u);
    const LayerSensitivity &a = layer(s, "a"), &y = layer(s, "y");
    // Only a in INT8: (1.6, 0.8), y = 0.8. Its rounding to codes is y's.
    EXPECT_NEAR(a.alone_db.value(), db(0.76 * 0.76, 0.04 * 0.04), kDb) << text;
    // Only y in INT8: (1.52, 0.76) -> (1.5, 1), y = 0.5.
    EXPECT_NEAR(y.alone_db.value(), db(0.76 * 0.76, 0.26 * 0.26), kDb) << text;
    // a float: (1.52, 0.76), rounded for y as before: nothing is won.
    EXPECT_NEAR(a.gain_db.value(), 0, kDb) << text;
    // y float reads (1.6, 0.8), not its codes: 0.8 for 0.76, where it was 0.5.
    EXPECT_NEAR(y.gain_db.value(), db(0.26 * 0.26, 0.04 * 0.04), kDb) << text;
    EXPECT_EQ(a.alone_outputs_db, std::vector{a.alone_db});
    EXPECT_EQ(y.gain_outputs_db, std::vector{y.gain_db});
    EXPECT_FALSE(a.alone_exact);
    EXPECT_EQ(a.why_missing, "");
  }
}

TEST(Sensitivity, TheWorstOutputAndEachOne) {
  const graph::Graph a = parsed(
      "x: f32[1,2]\nh = linear(x, f32[2,2]{1,0, 0,1})\nu = linear(h, f32[1,2]{1,0})\n"
      "v = linear(h, f32[1,2]{0,1})\nc = neg(x)\nreturn u, v, c");
  const graph::Graph b = parsed(
      "x: f32[1,2]\nxq: u8[1,2] @(0.1,0) = quantize(x)\nw = const s8[2,2] @(0.5,0) {2,0, 0,2}\n"
      "h = linear(xq, w)\nhq: u8[1,2] @(0.25,0) = quantize(h)\ns = const s8[1,2] @(1,0) {1,0}\n"
      "u = linear(hq, s)\nv = linear(h, f32[1,2]{0,1})\nc = neg(x)\nreturn u, v, c");
  MemorySamples samples({{tensor_of({1, 2}, {1.04f, 0.26f})}});  // codes 1.0 and 0.3
  const auto all = probed(a, b, samples);
  const LayerSensitivity &h = layer(all, "h"), &u = layer(all, "u"), &c = layer(all, "c");
  ASSERT_EQ(h.alone_outputs_db.size(), 3u);
  EXPECT_NEAR(h.alone_outputs_db[0].value(), db(1.04 * 1.04, 0.04 * 0.04), kDb);
  EXPECT_NEAR(h.alone_outputs_db[1].value(), db(0.26 * 0.26, 0.04 * 0.04), kDb);
  EXPECT_FALSE(h.alone_outputs_db[2]);  // no error
  EXPECT_EQ(h.alone_db, h.alone_outputs_db[1]);
  // u rounds 1.04 to 1 as it does 1.0: with h float v becomes exact, and the worst output is u.
  EXPECT_NEAR(h.gain_outputs_db[0].value(), 0, kDb);
  EXPECT_FALSE(h.gain_outputs_db[1]);
  EXPECT_NEAR(h.gain_db.value(), db(1.04 * 1.04, 0.04 * 0.04) - db(0.26 * 0.26, 0.04 * 0.04), kDb);
  EXPECT_FALSE(u.alone_outputs_db[1]);
  EXPECT_TRUE(c.alone_exact);
  EXPECT_EQ(c.gain_db, 0.0);
}

// The second model stores h / (2, 4).
TEST(Sensitivity, OfRescaledTensors) {
  const graph::Graph a = parsed(
      "x: f32[1,2]\nh = linear(x, f32[2,2]{1,2, 3,4})\ny = linear(h, f32[1,2]{1,1})\nreturn y");
  graph::Graph b = parsed(
      "x: f32[1,2]\nh: u8[1,2] @(0.25,0) = linear(x, f32[2,2]{0.5,1, 0.75,1})\n"
      "y = linear(h, s8[1,2] @(2,0) {1,2})\nreturn y");
  b.value(b.find_value("h")).rescale = {2, 4};
  b.value(b.find_value("h")).rescale_axis = 1;
  MemorySamples samples(
      {{tensor_of({1, 2}, {0.3f, 0.5f})}});  // h = (1.3, 2.9), stored (0.65, 0.725)
  const auto all = probed(a, b, samples);
  EXPECT_TRUE(layer(all, "h").alone_exact || *layer(all, "h").alone_db > 120);
  EXPECT_NEAR(layer(all, "h").gain_db.value(), 0, kDb);
  EXPECT_NEAR(layer(all, "y").alone_db.value(), db(4.2 * 4.2, 0.3 * 0.3), kDb);  // (1.5, 3)
  EXPECT_EQ(layer(all, "y").why_missing, "");
}

TEST(Sensitivity, OfPerTokenTensors) {
  const graph::Graph a = parsed(
      "x: f32[3,8]\nh = norm(x, random:f32[8]) kind=rms\ny = linear(h, random:f32[4,8])\n"
      "z = relu(y)\nreturn z");
  graph::Graph b = parsed(
      "x: f32[3,8]\nh: u8[3,8] @token, _, s: f32[3,1] = norm(x, random:f32[8]) kind=rms\n"
      "y = linear(h, random:s8[4,8] @(0.03,0), _, _, s)\nz = relu(y)\nreturn z");
  const auto norm_of = [](graph::Graph& g) { return g.node(0).inputs[1]; };
  const graph::Graph& reference = a;
  b.value(norm_of(b)).constant = reference.value(reference.node(0).inputs[1]).constant;
  const graph::ValueId from = reference.node(1).inputs[1], to = b.node(1).inputs[1];
  const auto values = a.constant<float>(from);
  auto codes = Buffer::allocate(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    reinterpret_cast<std::int8_t*>(codes->mutable_data())[i] =
        static_cast<std::int8_t>(std::rint(values[i] / 0.03f));
  b.value(to).constant = codes;
  auto samples = normal_samples(a, 4);
  const auto all = probed(a, b, samples);
  // The norm is float: what its codes cost is the layer's that reads them.
  EXPECT_TRUE(layer(all, "h").alone_exact);
  EXPECT_NEAR(layer(all, "h").gain_db.value(), 0, 1e-9);
  // The only INT8 layer: alone is the whole model, and float it leaves none.
  auto again = normal_samples(a, 4);
  const auto whole = compare(model_of(a), model_of(b), again);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(layer(all, "y").alone_db, whole->outputs[0].error.sqnr_db);
  EXPECT_FALSE(layer(all, "y").gain_db);
}

TEST(Sensitivity, AModelAgainstItself) {
  const graph::Graph g = parsed(
      "x: f32[n,4,6,6]\nc = conv(x, random:f32[4,4,3,3], random:f32[4]) kernel=[3,3] strides=[1,1] "
      "pads=[1,1,1,1] dilations=[1,1]\ns = binary(c, x) kind=add\np = average_pool(s) global=true\n"
      "f = flatten(p)\nl = linear(f, random:f32[5,4])\ny = softmax(l)\nreturn y");
  auto samples = normal_samples(g, 3);
  for (const LayerSensitivity& l : probed(g, g, samples)) {
    EXPECT_TRUE(l.alone_exact) << l.name << l.why_missing;
    EXPECT_FALSE(l.alone_db) << l.name;
    EXPECT_FALSE(l.gain_db) << l.name;  // over a model without an error
    EXPECT_EQ(l.why_missing, "") << l.name;
  }
}

TEST(Sensitivity, SamplesOfSeveralShapesAndProgress) {
  const graph::Graph a = parsed(
      "x: f32[n,2]\na = linear(x, f32[2,2]{1,2, 0.5,1})\ny = linear(a, f32[1,2]{1,-1})\nreturn y");
  const graph::Graph b = parsed(
      "x: f32[n,2]\nxq: u8[n,2] @(0.1,0) = quantize(x)\na: u8[n,2] @(0.5,0) = linear(xq, s8[2,2] "
      "@(0.5,0) {2,4, 1,2})\ny = linear(a, s8[1,2] @(1,0) {1,-1})\nreturn y");
  MemorySamples apart({{tensor_of({1, 2}, {1, 0.26f})},
                       {tensor_of({2, 2}, {0.7f, 0.31f, 0.17f, 0.9f})},
                       {tensor_of({1, 2}, {0.44f, 0.05f})}});
  MemorySamples together({{tensor_of({4, 2}, {1, 0.26f, 0.7f, 0.31f, 0.17f, 0.9f, 0.44f, 0.05f})}});
  std::vector<std::size_t> done;
  SensitivityOptions options;
  options.progress = [&](std::size_t d, std::size_t total) {
    EXPECT_EQ(total, 6u);
    done.push_back(d);
  };
  const auto one = probed(a, b, apart, options), other = probed(a, b, together);
  EXPECT_EQ(done, (std::vector<std::size_t>{1, 2, 3, 4, 5, 6}));
  for (const char* name : {"a", "y"}) {
    EXPECT_NEAR(*layer(one, name).alone_db, *layer(other, name).alone_db, 1e-9);
    EXPECT_NEAR(*layer(one, name).gain_db, *layer(other, name).gain_db, 1e-9);
  }
  options = {};
  options.most_samples = 1;
  options.gain = false;
  const auto first = probed(a, b, apart, options);
  EXPECT_NE(layer(first, "a").alone_db, layer(one, "a").alone_db);
  EXPECT_FALSE(layer(first, "a").gain_db);
  EXPECT_TRUE(layer(first, "a").gain_outputs_db.empty());
}

TEST(Sensitivity, TheFloatModelComesFirst) {
  const graph::Graph a = parsed(kFloat);
  MemorySamples samples({{tensor_of({1, 2}, {1, 0.26f})}});
  for (const char* int8 : {kInt8Apart, kInt8Fused})
    EXPECT_THAT(error_of(parsed(int8), a, samples), HasSubstr("give the float model first"));
}

TEST(Sensitivity, Refusals) {
  const graph::Graph a = parsed(kFloat), b = parsed(kInt8Fused);
  MemorySamples samples({{tensor_of({1, 2}, {1, 0.26f})}, {tensor_of({1, 2}, {1, 0.26f})}});
  EXPECT_THAT(error_of(a, parsed("x: f32[1,2]\nz = relu(x)\nreturn z"), samples),
              HasSubstr("no output name"));
  samples.all()[1][0].as<float>()[0] = std::nanf("");
  EXPECT_THAT(error_of(a, b, samples), AllOf(HasSubstr("'y'"), HasSubstr("sample 1")));
  // A layer whose operand the reference has not is listed, with the reason.
  const graph::Graph odd =
      parsed("x: f32[1,2]\nelse = unary(x) kind=abs\ny = linear(else, f32[1,2]{1,1})\nreturn y");
  samples.all()[1][0].as<float>()[0] = 1;
  const auto s = probed(a, odd, samples);
  ASSERT_EQ(s.size(), 1u);
  EXPECT_FALSE(s[0].alone_db);
  EXPECT_FALSE(s[0].alone_exact);
  EXPECT_THAT(s[0].why_missing, HasSubstr("'else'"));
}

// What plain_f32() reads, stored() writes.
TEST(Stored, IsTheWayBackFromRealNumbers) {
  const std::vector<float> reals{-1, 0, 0.24f, 0.26f, 300, -300};
  const Shape shape{2, 3};
  TensorType u8{DType::u8, shape, *QuantParams::per_tensor(0.5f, 2), Layout::plain};
  const auto codes = stored(reals, shape, u8);
  ASSERT_TRUE(codes);
  const auto bytes = codes->elements.as<const std::uint8_t>();
  EXPECT_EQ((std::vector<int>{bytes.begin(), bytes.end()}), (std::vector<int>{0, 2, 2, 3, 255, 0}));
  TensorType s8{DType::s8, shape, *QuantParams::per_channel(1, {1, 2, 100}), Layout::plain};
  const auto channels = stored(reals, shape, s8);
  ASSERT_TRUE(channels);
  const auto signs = channels->elements.as<const std::int8_t>();
  EXPECT_EQ((std::vector<int>{signs.begin(), signs.end()}),
            (std::vector<int>{-1, 0, 0, 0, 127, -3}));
  TensorType token{DType::u8, shape, QuantParams::per_token(), Layout::plain};
  const auto rows = stored(std::vector<float>{0, 1.5f, -2, 0, 0, 0}, shape, token);
  ASSERT_TRUE(rows && rows->row_scales);
  EXPECT_EQ(rows->row_scales->shape(), (Shape{2, 1}));
  EXPECT_EQ(rows->row_scales->as<const float>()[0], 2.0f / 127);
  EXPECT_EQ(rows->row_scales->as<const float>()[1], std::numeric_limits<float>::min());
  const auto c = rows->elements.as<const std::uint8_t>();
  EXPECT_EQ((std::vector<int>{c.begin(), c.end()}), (std::vector<int>{128, 223, 1, 128, 128, 128}));
  EXPECT_FALSE(stored(reals, shape, {DType::s32, shape, {}, Layout::plain}));
  EXPECT_FALSE(stored(reals, shape, {DType::u8, shape, {}, Layout::plain}));
}

}  // namespace
}  // namespace fold8::quant
