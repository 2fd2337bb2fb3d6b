#include "quant/compare.h"

#include <gmock/gmock.h>

#include <cmath>

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
using testing_support::tensor_of;

Comparison compared(const graph::Graph& a, const graph::Graph& b, SampleSource& samples) {
  auto c = compare(model_of(a), model_of(b), samples);
  EXPECT_TRUE(c.ok()) << c.error().message;
  return c.ok() ? std::move(*c) : Comparison{};
}
std::string error_of(const graph::Graph& a, const graph::Graph& b, SampleSource& samples) {
  const auto c = compare(model_of(a), model_of(b), samples);
  EXPECT_FALSE(c.ok());
  return c.ok() ? "" : c.error().message;
}
double db(double signal, double error) { return 10 * std::log10(signal / error); }
const LayerError& layer(const Comparison& c, const std::string& name) {
  for (const LayerError& l : c.layers)
    if (l.name == name) return l;
  ADD_FAILURE() << "no layer " << name;
  return c.layers.at(0);
}

// Weights of 1e30 twice over: what the float model itself makes of finite samples.
TEST(Compare, AnOverflowOfTheReferenceIsNotBlamedOnTheOtherModel) {
  const auto net = [](const char* w) {
    return parsed(
        "x: f32[1,2]\na = linear(x, f32[2,2]{1e30,2e30, 1e30,1e30})\ny = linear(a, f32[1,2]{" +
        std::string(w) + "})\nreturn y");
  };
  MemorySamples samples({{tensor_of({1, 2}, {1, 0.5f})}});
  const std::string e = error_of(net("1e30,1e30"), net("-1e30,-1e30"), samples);
  EXPECT_THAT(e, AllOf(HasSubstr("inf in the reference and -inf in the other model"),
                       HasSubstr("in the reference itself, tensor 'y' is the first that holds an "
                                 "infinity"),
                       HasSubstr("the model is at fault"), HasSubstr("repair the model")));
  // The other one overflows alone.
  const std::string other = error_of(net("1,1"), net("1e30,1e30"), samples);
  EXPECT_THAT(other, ::testing::Not(HasSubstr("reference itself")));
}

TEST(Compare, AModelAgainstItselfIsExact) {
  const graph::Graph g = parsed(
      "x: f32[n,4,6,6]\nc = conv(x, random:f32[4,4,3,3], random:f32[4]) kernel=[3,3] strides=[1,1] "
      "pads=[1,1,1,1] dilations=[1,1] "
      "activation=clip a=0 b=6\ns = binary(c, x) kind=add\np = average_pool(s) global=true\nf = "
      "flatten(p)\n"
      "l = linear(f, random:f32[5,4], random:f32[5])\ny = softmax(l)\nreturn y, c");
  auto samples = normal_samples(g, 3);
  const Comparison c = compared(g, g, samples);
  EXPECT_EQ(c.samples, 3u);
  ASSERT_EQ(c.layers.size(), 5u);  // flatten is no arithmetic
  for (const LayerError& l : c.layers) {
    EXPECT_TRUE(l.accumulated.exact) << l.name;
    ASSERT_TRUE(l.own) << l.name << ": " << l.own_missing;
    EXPECT_TRUE(l.own->exact) << l.name;
    EXPECT_GT(l.own->elements, 0u);
    EXPECT_FALSE(l.int8);
    EXPECT_FALSE(l.codes_used);
  }
  EXPECT_EQ(c.layers[0].op, "conv");
  ASSERT_EQ(c.outputs.size(), 2u);
  EXPECT_EQ(c.outputs[0].name, "y");
  EXPECT_TRUE(c.outputs[0].error.exact);
  EXPECT_EQ(c.outputs[0].top1, 1.0);
  EXPECT_FALSE(c.outputs[1].top1);
}

// Two layers by hand. Float: a = x * (1, 2)' twice over, y = a * (1, -1)'.
//   x = (1, 0.26): a = (1.52, 1.52 * 0.5), codes of x: 10 and 3 (0.26 / 0.1 = 2.6)
TEST(Compare, OwnAndAccumulatedByHand) {
  const graph::Graph a = parsed(
      "x: f32[1,2]\na = linear(x, f32[2,2]{1,2, 0.5,1})\ny = linear(a, f32[1,2]{1,-1})\nreturn y");
  graph::Graph b = parsed(
      "x: f32[1,2]\nxq: u8[1,2] @(0.1,0) = quantize(x)\nw = const s8[2,2] @(0.5,0) {2,4, 1,2}\na = "
      "linear(xq, w)\n"
      "aq: u8[1,2] @(0.5,0) = quantize(a)\nv = const s8[1,2] @(1,0) {1,-1}\ny = linear(aq, "
      "v)\nreturn y");
  MemorySamples samples({{tensor_of({1, 2}, {1, 0.26f})}});
  const Comparison c = compared(a, b, samples);
  const LayerError &la = layer(c, "a"), &ly = layer(c, "y");
  EXPECT_TRUE(la.int8);
  // a of INT8: (1.6, 0.8) for (1.52, 0.76)
  ASSERT_TRUE(la.own);
  EXPECT_NEAR(la.own->max_abs, 0.08, 1e-6);
  EXPECT_NEAR(*la.own->sqnr_db, db(1.52 * 1.52 + 0.76 * 0.76, 0.08 * 0.08 + 0.04 * 0.04), 1e-3);
  EXPECT_NEAR(*la.accumulated.sqnr_db, *la.own->sqnr_db, 1e-9);
  // y alone: (1.52, 0.76) rounds to (1.5, 1): 0.5 for 0.76. In the whole run (1.6, 0.8) rounds to
  // (1.5, 1), too.
  ASSERT_TRUE(ly.own);
  EXPECT_NEAR(ly.own->bias, 0.5 - 0.76, 1e-6);
  EXPECT_NEAR(*ly.own->sqnr_db, db(0.76 * 0.76, 0.26 * 0.26), 1e-3);
  EXPECT_NEAR(c.outputs[0].error.max_abs, 0.26, 1e-6);
  // With a coarser x the whole run is off where the layer alone is not: codes 1 and 0 of step 1, a
  // = (1, 0.5).
  b.value(b.find_value("xq")).type.quant = *QuantParams::per_tensor(1, 0);
  const Comparison coarse = compared(a, b, samples);
  EXPECT_NEAR(layer(coarse, "y").own->bias, 0.5 - 0.76, 1e-6);
  EXPECT_NEAR(layer(coarse, "y").accumulated.bias, (1 - 0.5) - 0.76, 1e-6);
  EXPECT_NEAR(layer(coarse, "a").own->max_abs, 0.52, 1e-6);
}

TEST(Compare, CodesUsedAndClipped) {
  const graph::Graph a =
      parsed("x: f32[1,4]\nr = relu(x)\ny = linear(r, f32[1,4]{1,1,1,1})\nreturn y");
  const graph::Graph b = parsed(
      "x: f32[1,4]\nr: u8[1,4] @(0.01,0) = relu(x)\ny = linear(r, s8[1,4] @(1,0) "
      "{1,1,1,1})\nreturn y");
  MemorySamples samples(
      {{tensor_of({1, 4}, {-1, 0.5f, 0.501f, 9})}, {tensor_of({1, 4}, {1, 1, 1, 2.551f})}});
  const Comparison c = compared(a, b, samples);
  const LayerError& r = layer(c, "r");
  EXPECT_EQ(r.codes_used, 4);     // 0, 50, 255; 100 and 255 again
  EXPECT_EQ(r.clipped, 1.0 / 8);  // 9; 2.551 is within half a step of 2.55
  EXPECT_TRUE(r.int8);
}

TEST(Compare, APerTokenNormAndItsReader) {
  const graph::Graph a = parsed(
      "x: f32[3,8]\ng = const random:f32[8]\nh = norm(x, g) kind=rms\nw = const random:f32[4,8]\ny "
      "= linear(h, w)\nreturn y");
  graph::Graph b = parsed(
      "x: f32[3,8]\ng = const random:f32[8]\nh: u8[3,8] @token, _, s: f32[3,1] = norm(x, g) "
      "kind=rms\n"
      "y = linear(h, random:s8[4,8] @(0.03,0), _, _, s)\nreturn y");
  // The reader's weights: those of the first model, rounded.
  const graph::ValueId w = b.node(b.node_count() - 1).inputs[1];
  const auto values = a.constant<float>(a.find_value("w"));
  auto codes = Buffer::allocate(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    reinterpret_cast<std::int8_t*>(codes->mutable_data())[i] =
        static_cast<std::int8_t>(std::rint(values[i] / 0.03f));
  b.value(w).constant = codes;
  auto samples = normal_samples(a, 4);
  const Comparison c = compared(a, b, samples);
  const LayerError &h = layer(c, "h"), &y = layer(c, "y");
  for (const LayerError* l : {&h, &y}) {
    ASSERT_TRUE(l->own) << l->own_missing;
    EXPECT_TRUE(l->int8);
    EXPECT_GT(*l->own->sqnr_db, 30) << l->name;
    EXPECT_GT(*l->accumulated.sqnr_db, 30) << l->name;
    EXPECT_EQ(l->own->elements, l->accumulated.elements);
  }
  // The norm reads floats: alone it does what it does in the whole run.
  EXPECT_EQ(*h.own->sqnr_db, *h.accumulated.sqnr_db);
  EXPECT_EQ(*y.own->sqnr_db, *y.accumulated.sqnr_db);
}

// The second model stores h / (2, 4) and its reader has the factors in its weights.
TEST(Compare, RescaledTensorsAreMultipliedBack) {
  const graph::Graph a = parsed(
      "x: f32[1,2]\nh = linear(x, f32[2,2]{1,2, 3,4})\nr = relu(h)\ny = linear(r, "
      "f32[1,2]{1,1})\nreturn y");
  graph::Graph b = parsed(
      "x: f32[1,2]\nh = linear(x, f32[2,2]{0.5,1, 0.75,1})\nr = relu(h)\ny = linear(r, "
      "f32[1,2]{2,4})\nreturn y");
  for (const char* name : {"h", "r"}) {
    b.value(b.find_value(name)).rescale = {2, 4};
    b.value(b.find_value(name)).rescale_axis = 1;
  }
  auto samples = normal_samples(a, 4);
  const Comparison c = compared(a, b, samples);
  for (const char* name : {"h", "r", "y"}) {
    EXPECT_TRUE(layer(c, name).accumulated.exact) << name;
    ASSERT_TRUE(layer(c, name).own) << layer(c, name).own_missing;
    EXPECT_TRUE(layer(c, name).own->exact) << name;
  }
}

// The INT8 model and the rescaled one as references: their tensors count as the numbers they stand
// for.
TEST(Compare, AnyOfTheTwoCanBeTheReference) {
  const graph::Graph a = parsed(
      "x: f32[1,4]\nr = relu(x)\nz = unary(r) kind=abs\ny = linear(z, f32[1,4]{1,1,1,1})\nreturn "
      "y");
  graph::Graph b = parsed(
      "x: f32[1,4]\nr: u8[1,4] @(0.5,0) = relu(x)\nz: u8[1,4] @(0.5,0) = unary(r) kind=abs\n"
      "y = linear(z, s8[1,4] @(1,0) {1,1,1,1})\nreturn y");
  MemorySamples samples({{tensor_of({1, 4}, {-1, 0.5f, 2, 9})}});
  const Comparison c = compared(b, a, samples);
  ASSERT_EQ(c.layers.size(), 3u);
  for (const LayerError& l : c.layers) EXPECT_TRUE(l.accumulated.exact) << l.name;
  const graph::Graph plain = parsed(
      "x: f32[1,2]\nh = linear(x, f32[2,2]{1,2, 3,4})\ny = linear(h, f32[1,2]{1,1})\nreturn y");
  graph::Graph rescaled = parsed(
      "x: f32[1,2]\nh = linear(x, f32[2,2]{0.5,1, 0.75,1})\ny = linear(h, "
      "f32[1,2]{2,4})\nreturn y");
  rescaled.value(rescaled.find_value("h")).rescale = {2, 4};
  rescaled.value(rescaled.find_value("h")).rescale_axis = 1;
  auto more = normal_samples(plain, 3);
  for (const Comparison& d : {compared(rescaled, plain, more), compared(rescaled, rescaled, more)})
    for (const LayerError& l : d.layers) {
      EXPECT_TRUE(l.accumulated.exact) << l.name;
      ASSERT_TRUE(l.own) << l.own_missing;
      EXPECT_TRUE(l.own->exact) << l.name;
    }
}

TEST(Compare, ClippedSharesOfRescaledTensors) {
  const graph::Graph a = parsed("x: f32[1,2]\nh = relu(x)\ny = linear(h, f32[1,2]{1,1})\nreturn y");
  graph::Graph b = parsed(
      "x: f32[1,2]\nh: u8[1,2] @(1,0) = binary(x, f32[2]{0.5,0.25}) kind=mul\ny = linear(h, "
      "s8[1,2] @(2,0) {1,2})\nreturn y");
  b.value(b.find_value("h")).rescale = {2, 4};
  b.value(b.find_value("h")).rescale_axis = 1;
  MemorySamples samples({{tensor_of({1, 2}, {400, 400})}});  // 200 and 100 of 255
  EXPECT_EQ(layer(compared(a, b, samples), "h").clipped, 0.0);
}

TEST(Compare, OutputsMatchByNameWhateverTheirOrder) {
  const graph::Graph a =
      parsed("x: f32[1,2]\nz: f32[1,2]\ny = relu(x)\nv = unary(z) kind=tanh\nreturn y, v");
  const graph::Graph b =
      parsed("z: f32[1,2]\nx: f32[1,2]\nv = unary(z) kind=tanh\ny = relu(x)\nreturn v, y");
  auto samples = normal_samples(a, 2);
  const Comparison c = compared(a, b, samples);
  ASSERT_EQ(c.outputs.size(), 2u);
  EXPECT_EQ(c.outputs[0].name, "y");
  EXPECT_TRUE(c.outputs[0].error.exact);
  EXPECT_TRUE(c.outputs[1].error.exact);
}

TEST(Compare, WithoutLayers) {
  const graph::Graph g = parsed("x: f32[1,2]\ny = relu(x)\nreturn y");
  auto samples = normal_samples(g, 2);
  CompareOptions options;
  options.layers = false;
  const auto c = compare(model_of(g), model_of(g), samples, options);
  ASSERT_TRUE(c.ok());
  EXPECT_TRUE(c->layers.empty());
  EXPECT_TRUE(c->outputs[0].error.exact);
}

TEST(Compare, ALayerThatCannotRunAloneSaysWhy) {
  const graph::Graph a = parsed("x: f32[1,2]\nh = relu(x)\ny = linear(h, f32[1,2]{1,1})\nreturn y");
  const graph::Graph b =
      parsed("x: f32[1,2]\nelse = unary(x) kind=abs\ny = linear(else, f32[1,2]{1,1})\nreturn y");
  auto samples = normal_samples(a, 2);
  const Comparison c = compared(a, b, samples);
  ASSERT_EQ(c.layers.size(), 1u);  // "else" has no counterpart at all
  EXPECT_FALSE(c.layers[0].own);
  EXPECT_THAT(c.layers[0].own_missing, HasSubstr("'else'"));
  EXPECT_FALSE(c.layers[0].accumulated.exact);
}

TEST(Compare, Refusals) {
  const graph::Graph a = parsed("x: f32[1,2]\ny = relu(x)\nreturn y");
  auto samples = normal_samples(a, 2);
  EXPECT_THAT(error_of(a, parsed("x: f32[1,2]\nz = relu(x)\nreturn z"), samples),
              HasSubstr("no output name"));
  EXPECT_THAT(error_of(a, parsed("x: f32[1,2]\nm: f32[1,2]\ny = add(x, m)\nreturn y"), samples),
              HasSubstr("'m'"));
  EXPECT_THAT(error_of(a, parsed("x: f32[1,2]\ny = concat(x, x) axis=1\nreturn y"), samples),
              AllOf(HasSubstr("shapes differ"), HasSubstr("[1,2]"), HasSubstr("[1,4]"),
                    HasSubstr("'y'"), HasSubstr("sample 0")));
  samples.all()[1][0].as<float>()[0] = std::nanf("");
  EXPECT_THAT(error_of(a, a, samples),
              AllOf(HasSubstr("'y'"), HasSubstr("sample 1"),
                    HasSubstr("input 'x' is NaN at element 0"), HasSubstr("leave it out")));
  // The file's name is what people look for.
  class Files : public MemorySamples {
   public:
    using MemorySamples::MemorySamples;
    std::string describe(std::size_t i) const override { return "s" + std::to_string(i) + ".npz"; }
  } files(samples.all());
  EXPECT_THAT(error_of(a, a, files), HasSubstr("sample 1 ('s1.npz')"));
}

}  // namespace
}  // namespace fold8::quant
