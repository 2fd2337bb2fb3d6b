// Which layers become INT8, what is shared, and why the others stay float.
#include "fusion/passes/quantize.h"

#include <cmath>
#include <limits>

#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using graph::kNoValue;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kConv = " kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]\n";

std::string conv_then_linear() {
  return std::string("x: f32[n,4,5,5]\nc = conv(x, random:f32[8,4,3,3], random:f32[8])") + kConv +
         "p = average_pool(c) global=true\nf = flatten(p)\ny = linear(f, random:f32[5,8], "
         "random:f32[5])\nreturn y";
}

TEST(Quantize, ConvAndLinearWithConstantWeights) {
  const Quantized q = quantized(conv_then_linear());
  EXPECT_THAT(q.outcome.quantized, ElementsAre("c", "y"));
  EXPECT_THAT(q.outcome.kept_float, IsEmpty());
  EXPECT_THAT(q.outcome.warnings, IsEmpty());
  for (const char* name : {"c", "y"}) {
    const graph::Node& n = node_named(q.graph, name);
    const TensorType &x = q.graph.type(n.inputs[0]), &w = q.graph.type(n.inputs[1]);
    EXPECT_EQ(x.dtype, DType::u8);
    ASSERT_TRUE(x.quant);
    EXPECT_TRUE(x.quant->is_per_tensor());
    EXPECT_EQ(w.dtype, DType::s8);
    ASSERT_TRUE(w.quant);
    EXPECT_EQ(w.quant->granularity(), Granularity::per_channel);
    EXPECT_EQ(w.quant->axis(), 0);
    EXPECT_FALSE(w.quant->has_zero_points());
    EXPECT_EQ(q.graph.type(n.outputs[0]).dtype, DType::f32);  // outputs stay as declared
  }
  // Of x, of what the second layer reads, and of what is flattened on the way there.
  EXPECT_EQ(count_ops(q.graph, "quantize"), 3);
}

// Each side of a product is off by at most half a step of its own (no sample is outside the range).
TEST(Quantize, TheErrorIsThatOfRoundingBothSides) {
  QuantizeOptions options;
  options.method = quant::Method::minmax;
  const Quantized q =
      quantized("x: f32[6,16]\ny = linear(x, random:f32[5,16], random:f32[5])\nreturn y", options);
  auto samples = normal_samples(q.before, 4);
  const auto& wv = node_named(q.before, "y").inputs[1];
  const auto w = floats(q.before, wv);
  const graph::Node& layer = node_named(q.graph, "y");
  const double sx = q.graph.type(layer.inputs[0]).quant->scale();
  const auto sw = q.graph.type(layer.inputs[1]).quant->scales();
  for (const auto& sample : samples.all()) {
    const auto exact = run_once(q.before, sample), got = run_once(q.graph, sample);
    const auto x = sample[0].as<float>();
    for (std::size_t r = 0; r < 6; ++r)
      for (std::size_t n = 0; n < 5; ++n) {
        double bound = 1e-5;
        for (std::size_t k = 0; k < 16; ++k)
          bound +=
              std::fabs(w[n * 16 + k]) * sx / 2 + (std::fabs(x[r * 16 + k]) + sx / 2) * sw[n] / 2;
        EXPECT_NEAR(got[0].as<float>()[r * 5 + n], exact[0].as<float>()[r * 5 + n], bound);
      }
  }
}

struct Refusal {
  const char* name;
  std::string text;
  const char* why;
  Activations activations = Activations::automatic;
  std::size_t samples = 2;
};
class QuantizeStaysFloat : public testing::TestWithParam<Refusal> {};
TEST_P(QuantizeStaysFloat, AndSaysWhy) {
  QuantizeOptions options;
  options.activations = GetParam().activations;
  const Quantized q = quantized(GetParam().text, options, GetParam().samples);
  EXPECT_THAT(q.outcome.quantized, IsEmpty());
  ASSERT_EQ(q.outcome.kept_float.size(), 1u);
  EXPECT_EQ(q.outcome.kept_float[0].node, "y");
  EXPECT_THAT(q.outcome.kept_float[0].why, HasSubstr(GetParam().why));
  EXPECT_EQ(graph::to_text(q.graph), graph::to_text(q.before));
}
const std::string kOneConv =
    std::string("x: f32[1,4,5,5]\ny = conv(x, random:f32[4,4,3,3])") + kConv + "return y";
INSTANTIATE_TEST_SUITE_P(
    Reasons, QuantizeStaysFloat,
    testing::Values(
        Refusal{"ComputedWeights", "x: f32[3,4]\nw: f32[5,4]\ny = linear(x, w)\nreturn y",
                "computed"},
        Refusal{"ConstantInput",
                "x: f32[3,5]\ny = linear(random:f32[3,4], random:f32[5,4])\nreturn y", "constant"},
        Refusal{"EmptyWeights", "x: f32[3,4]\ny = linear(x, zeros:f32[0,4])\nreturn y",
                "no weights"},
        Refusal{"WeightOnlyAlready",
                "x: f32[3,4]\ny = linear(x, random:s8[5,4] @channel(0))\nreturn y",
                "its weights are s8"},
        Refusal{"ConvWithoutData", kOneConv, "calibration data", Activations::automatic, 0},
        Refusal{"ConvWithoutDataDynamic", kOneConv, "calibration data", Activations::dynamic, 0},
        Refusal{"LinearWithoutData", "x: f32[3,4]\ny = linear(x, random:f32[5,4])\nreturn y",
                "calibration data", Activations::static_, 0},
        Refusal{"ConvWeightOnly", kOneConv, "matrix layers", Activations::float_}),
    [](const auto& p) { return p.param.name; });

TEST(Quantize, KeepFloatGlobsMeanNodesAndOutputs) {
  graph::Graph g = parsed(conv_then_linear());
  for (graph::NodeId n = 0; n < g.node_count(); ++n)
    if (g.node(n).name == "c") g.node(n).name = "/stem/Conv";
  QuantizeOptions options;
  options.keep_float = {"/stem/*"};
  EXPECT_THAT(quantized(g, options).outcome.quantized, ElementsAre("y"));
  options.keep_float = {"c"};  // the name of its output
  const Quantized by_output = quantized(g, options);
  EXPECT_THAT(by_output.outcome.quantized, ElementsAre("y"));
  EXPECT_THAT(by_output.outcome.kept_float[0].why, HasSubstr("'c'"));
  options.keep_float = {"?", "*"};  // both layers
  EXPECT_EQ(quantized(g, options).outcome.kept_float.size(), 2u);
  options.keep_float = {};
  options.also_float = {{"y", "it would be slower"}};
  const Quantized also = quantized(g, options);
  EXPECT_THAT(also.outcome.quantized, ElementsAre("/stem/Conv"));
  EXPECT_EQ(also.outcome.kept_float[0].why, "it would be slower");
}

TEST(Quantize, AGlobThatMatchesNothingIsSaid) {
  QuantizeOptions options;
  options.keep_float = {"y", "layer7*"};
  const Quantized q = quantized(conv_then_linear(), options);
  EXPECT_THAT(q.outcome.warnings, ElementsAre(HasSubstr("'layer7*' matches no layer")));
}

TEST(Quantize, OneTwinForSeveralReadersAndOneSharedWeight) {
  const char* text =
      "x: f32[3,4]\nw = const random:f32[4,4]\na = linear(x, w)\nb = linear(x, w)\nc = linear(x, "
      "random:f32[4,4])\ns = add(a, b)\ny = add(s, c)\nreturn y";
  for (const Activations how : {Activations::static_, Activations::dynamic}) {
    QuantizeOptions options;
    options.activations = how;
    const Quantized q = quantized(text, options);
    EXPECT_EQ(count_ops(q.graph, how == Activations::static_ ? "quantize" : "dynamic_quantize"), 1);
    const auto &a = node_named(q.graph, "a"), &b = node_named(q.graph, "b"),
               &c = node_named(q.graph, "c");
    EXPECT_EQ(a.inputs[0], b.inputs[0]);
    EXPECT_EQ(a.inputs[0], c.inputs[0]);
    EXPECT_EQ(a.inputs[1], b.inputs[1]);
    EXPECT_NE(a.inputs[1], c.inputs[1]);
    if (how == Activations::dynamic) {
      EXPECT_EQ(q.graph.type(a.inputs[0]).quant->granularity(), Granularity::per_token);
      EXPECT_EQ(a.inputs[4], c.inputs[4]);
      EXPECT_EQ(q.graph.type(a.inputs[4]).shape, (Shape{3, 1}));
    }
  }
}

TEST(Quantize, SharedWeightsOncePerOrientation) {
  const Quantized q = quantized(
      "x: f32[1,4,5,5]\nw = const random:f32[4,4,1,1]\n"
      "a = conv(x, w) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]\n"
      "b = conv(x, w) kernel=[1,1] strides=[2,2] pads=[0,0,0,0] dilations=[1,1]\n"
      "c = conv(x, w) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1] transposed=true\n"
      "return a, b, c");
  const auto &a = node_named(q.graph, "a"), &b = node_named(q.graph, "b"),
             &c = node_named(q.graph, "c");
  EXPECT_EQ(a.inputs[1], b.inputs[1]);
  EXPECT_NE(a.inputs[1], c.inputs[1]);
  EXPECT_EQ(q.graph.type(a.inputs[1]).quant->axis(), 0);
  EXPECT_EQ(q.graph.type(c.inputs[1]).quant->axis(), 1);
}

TEST(Quantize, PerTokenWhereTheNetworkHasTokenNorms) {
  const auto text = [](const char* norm) {
    return std::string("x: f32[2,4,6]\nh = ") + norm + "\ny = linear(h, random:f32[5,6])\nreturn y";
  };
  for (const char* norm :
       {"norm(x, random:f32[6], random:f32[6]) kind=layer", "norm(x, random:f32[6]) kind=rms"}) {
    const Quantized q = quantized(text(norm));
    EXPECT_EQ(count_ops(q.graph, "dynamic_quantize"), 1) << norm;
  }
  const Quantized group =
      quantized(text("norm(x, random:f32[4], random:f32[4]) kind=group groups=2"));
  EXPECT_EQ(count_ops(group.graph, "quantize"), 1);
  QuantizeOptions options;
  options.activations = Activations::static_;
  const Quantized forced = quantized(text("norm(x, random:f32[6]) kind=rms"), options);
  EXPECT_EQ(count_ops(forced.graph, "dynamic_quantize"), 0);
  // Matrix layers need no data then.
  EXPECT_THAT(quantized(text("norm(x, random:f32[6]) kind=rms"), {}, 0).outcome.quantized,
              ElementsAre("y"));
}

TEST(Quantize, ConvolutionsStayStaticBesideTokenNorms) {
  const Quantized q =
      quantized(std::string("x: f32[1,4,5,5]\nc = conv(x, random:f32[4,4,3,3])") + kConv +
                "h = norm(c, random:f32[5]) kind=rms\ny = linear(h, random:f32[3,5])\nreturn y");
  EXPECT_EQ(count_ops(q.graph, "quantize"), 1);
  EXPECT_EQ(count_ops(q.graph, "dynamic_quantize"), 1);
}

TEST(Quantize, WeightOnly) {
  QuantizeOptions options;
  options.activations = Activations::float_;
  const Quantized q =
      quantized("x: f32[3,4]\ny = linear(x, random:f32[5,4], random:f32[5])\nreturn y", options, 0);
  EXPECT_THAT(op_names(q.graph), ElementsAre("linear"));
  const graph::Node& n = only_node(q.graph);
  EXPECT_EQ(q.graph.type(n.inputs[0]).dtype, DType::f32);
  EXPECT_EQ(q.graph.type(n.inputs[1]).dtype, DType::s8);
  EXPECT_THAT(q.outcome.quantized, ElementsAre("y"));
}

TEST(Quantize, PerTensorWeightsShareOneScale) {
  QuantizeOptions options;
  options.weights = quant::WeightGranularity::per_tensor;
  const Quantized q = quantized("x: f32[3,4]\ny = linear(x, random:f32[5,4])\nreturn y", options);
  for (const float s : q.graph.type(node_named(q.graph, "y").inputs[1]).quant->scales())
    EXPECT_EQ(s, q.graph.type(node_named(q.graph, "y").inputs[1]).quant->scales()[0]);
}

TEST(Quantize, MatricesGetAScaleForEveryGroupOfInputs) {
  QuantizeOptions options;
  options.weight_group = 4;
  const Quantized q = quantized(
      "x: f32[1,10,3,3]\nc = conv(x, random:f32[10,10,1,1]) kernel=[1,1] strides=[1,1] "
      "pads=[0,0,0,0] dilations=[1,1]\nt = transpose(c) perm=[0,2,3,1]\ny = linear(t, "
      "random:f32[5,10])\nb = linear(x, random:f32[1,10,2,3])\nreturn y, b",
      options);
  const auto& matrix = *q.graph.type(node_named(q.graph, "y").inputs[1]).quant;
  EXPECT_EQ(matrix.granularity(), Granularity::per_group);
  EXPECT_EQ(matrix.group(), 4);
  EXPECT_EQ(matrix.scales().size(), 5u * 3);
  for (const char* other : {"c", "b"})
    EXPECT_EQ(q.graph.type(node_named(q.graph, other).inputs[1]).quant->granularity(),
              Granularity::per_channel);
}

// Inputs of very different size, whose weights make up for it: one scale for both halves leaves the
// small weights no codes. Through the whole pipeline: packed, written, run.
TEST(Quantize, GroupsErrLessWhereInputsDiffer) {
  const graph::Graph g = parsed(
      "x: f32[8,128]\nw = binary(random:f32[32,2,64], f32[1,2,1]{1,0.003}) kind=mul\n"
      "m = reshape(w, s64{32,128})\ny = linear(x, m)\nreturn y");
  auto samples = normal_samples(g, 8);
  for (auto& sample : samples.all())
    for (std::size_t i = 0; i < 8 * 128; ++i)
      if (i % 128 < 64) sample[0].as<float>()[i] *= 0.003f;
  for (const Activations activations :
       {Activations::static_, Activations::dynamic, Activations::float_}) {
    const auto sqnr = [&](std::int64_t group) {
      ConvertOptions o;
      o.search = false;
      o.smooth.off = true;
      o.quantize.activations = activations;
      o.quantize.weight_group = group;
      const auto c = convert(g, &samples, o);
      if (!c.ok()) {
        ADD_FAILURE() << c.error().message;
        return 0.0;
      }
      EXPECT_EQ(c->summary.int8_mac_share, activations == Activations::float_ ? 0.0 : 1.0);
      EXPECT_TRUE(format::to_bytes(c->graph).ok());
      return c->summary.outputs[0].error.sqnr_db.value_or(0);
    };
    // Half of the result rests on the small weights (3 dB), or on the small inputs.
    EXPECT_GT(sqnr(64), sqnr(0) + (activations == Activations::float_ ? 20 : 1))
        << static_cast<int>(activations);
  }
}

TEST(Quantize, ConstantAndUnfilledTensorsAreWarnedAbout) {
  for (const std::int64_t rows : {2, 0}) {
    graph::Graph g = parsed("x: f32[n,4]\ny = linear(x, random:f32[5,4])\nreturn y");
    MemorySamples samples({{Tensor(DType::f32, Shape{rows, 4})}});  // zeros, or none at all
    const auto table = calibrated(g, samples);
    QuantizeOptions options;
    options.calibration = &table;
    const auto outcome = quantize(g, options);
    ASSERT_TRUE(outcome.ok());
    EXPECT_THAT(outcome->warnings, ElementsAre(testing::AllOf(
                                       HasSubstr("tensor 'x'"),
                                       HasSubstr(rows > 0 ? "constant" : "filled by no sample"))));
    const auto& q = *g.type(node_named(g, "y").inputs[0]).quant;
    EXPECT_GT(q.scale(), 0);
    EXPECT_TRUE(std::isfinite(q.scale()));
  }
}

TEST(Quantize, NotFiniteWeightsAreRefusedByName) {
  for (const char* bad : {"nan", "-inf"}) {
    graph::Graph g = parsed(std::string("x: f32[3,2]\nweights = const f32[2,2]{1,2,3,") + bad +
                            "}\ny = linear(x, weights)\nreturn y");
    QuantizeOptions options;
    options.activations = Activations::dynamic;
    const auto outcome = quantize(g, options);
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().code, Code::invalid_model);
    EXPECT_THAT(outcome.error().message, HasSubstr("'weights'"));
    EXPECT_THAT(outcome.error().message, HasSubstr("element 3"));
    EXPECT_THAT(outcome.error().message, HasSubstr("'y'"));
  }
}

TEST(Quantize, ImportedInt8LayersAreListedAndLeftAlone) {
  const Quantized q = quantized(
      "x: u8[3,4] @(0.05,128)\ny = linear(x, random:s8[5,4] @channel(0))\nreturn y", {}, 0);
  EXPECT_THAT(q.outcome.quantized, ElementsAre("y"));
  EXPECT_EQ(graph::to_text(q.graph), graph::to_text(q.before));
}

TEST(Quantize, ATensorNobodyObservedIsOurMistake) {
  graph::Graph g = parsed("x: f32[3,4]\ny = linear(x, random:f32[5,4])\nreturn y");
  const quant::CalibrationTable empty;
  QuantizeOptions options;
  options.calibration = &empty;
  const auto outcome = quantize(g, options);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, Code::internal);
}

TEST(Quantize, WantsRangesOfWhatLayersReadAndLooksAtTheEdge) {
  EXPECT_THAT(values_to_observe(parsed(conv_then_linear())),
              testing::UnorderedElementsAre("x", "f", "p"));
  EXPECT_THAT(values_at_the_edge(parsed(conv_then_linear())),
              testing::UnorderedElementsAre("x", "y"));
}

}  // namespace
}  // namespace fold8::fusion
