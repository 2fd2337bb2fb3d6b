// Skip connections, gated feature maps and what is pooled between INT8 layers: as u8, or float
// where asked for.
#include "fusion/passes/u8_streams.h"

#include <cmath>

#include "fusion/pipeline.h"

#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kConv = " kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]";
std::string conv(const std::string& x, const std::string& more = "") {
  return "conv(" + x + ", random:f32[4,4,1,1], random:f32[4]" + more + ")" + kConv + "\n";
}

Quantized lowered(const std::string& text, Streams streams = Streams::u8) {
  QuantizeOptions options;
  options.streams = streams;
  options.method = quant::Method::minmax;
  Quantized q = quantized(text, options);
  auto fused = run(stage("lower"), q.graph);
  EXPECT_TRUE(fused.ok()) << fused.error().message;
  expect_verified(q.graph);
  return q;
}

DType type_of(const Quantized& q, const std::string& node, std::size_t operand) {
  return q.graph.type(node_named(q.graph, node).inputs[operand]).dtype;
}

// Largest difference of the first output, as a share of its largest value.
double error_of(const Quantized& q) {
  auto samples = normal_samples(q.before, 4);  // those of the ranges: nothing is clipped
  double worst = 0, largest = 0;
  for (const auto& s : samples.all()) {
    const auto want = run_once(q.before, s), got = run_once(q.graph, s);
    const auto a = want[0].as<float>(), b = got[0].as<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      worst = std::max(worst, double{std::fabs(a[i] - b[i])});
      largest = std::max(largest, double{std::fabs(a[i])});
    }
  }
  return worst / largest;
}

const std::string kResidual = "x: f32[2,4,5,5]\na = " + conv("x") + "b = " + conv("a") +
                              "c = " + conv("b", ", a") + "y = " + conv("c") + "return y";
const std::string kGated = "x: f32[2,4,5,5]\na = " + conv("x") +
                           "p = average_pool(a) global=true\ng = " + conv("p") +
                           "m = binary(a, g) kind=mul\ny = " + conv("m") + "return y";
const std::string kPyramid =
    "x: f32[1,4,4,4]\na = " + conv("x") +
    "u = resize(a, f32[4]{1,1,2,2}) mode=nearest coordinates=asymmetric nearest=floor\n"
    "b = " +
    conv("u") +
    "s = binary(b, u) kind=add\nc = concat(s, b) axis=1\n"
    "y = conv(c, random:f32[3,8,1,1])" +
    kConv + "\nreturn y";

TEST(U8Streams, ASkipConnectionIsWrittenAndReadAsU8) {
  const Quantized q = lowered(kResidual);
  EXPECT_EQ(type_of(q, "c", 3), DType::u8);
  EXPECT_EQ(count_ops(q.graph, "quantize"), 1);  // of x
  EXPECT_EQ(count_ops(q.graph, "dequantize"), 0);
  EXPECT_EQ(q.outcome.u8_streams, 1u);
  EXPECT_LT(error_of(q), 0.05);
}

TEST(U8Streams, AGatedFeatureMapIsU8AndItsGatesAreNot) {
  const Quantized q = lowered(kGated);
  EXPECT_THAT(op_names(q.graph),
              ElementsAre("quantize", "conv", "global_average_pool", "conv", "mul", "conv"));
  EXPECT_EQ(type_of(q, "m", 0), DType::u8);
  EXPECT_EQ(type_of(q, "m", 1), DType::f32);
  EXPECT_LT(error_of(q), 0.05);
}

TEST(U8Streams, SumsResizedAndJoinedMapsStayU8WithOneRoundingEach) {
  const Quantized q = lowered(kPyramid);
  EXPECT_EQ(count_ops(q.graph, "quantize"), 1);
  EXPECT_EQ(count_ops(q.graph, "dequantize"), 0);
  for (std::size_t operand : {0u, 1u}) {
    EXPECT_EQ(type_of(q, "s", operand), DType::u8);
    EXPECT_EQ(type_of(q, "c", operand), DType::u8);
  }
  EXPECT_LT(error_of(q), 0.05);
}

TEST(U8Streams, FloatWhereAskedFor) {
  const Quantized residual = lowered(kResidual, Streams::f32);
  EXPECT_EQ(type_of(residual, "c", 3), DType::f32);
  EXPECT_EQ(residual.outcome.u8_streams, 0u);
  EXPECT_EQ(type_of(lowered(kGated, Streams::f32), "m", 0), DType::f32);
  EXPECT_EQ(type_of(lowered(kPyramid, Streams::f32), "s", 0), DType::f32);
}

// Per-token layers: what runs beside the norms of a Transformer stays float.
TEST(U8Streams, TheResidualStreamOfATransformerStaysFloat) {
  const Quantized q = lowered(
      "x: f32[6,8]\nn = norm(x, random:f32[8], random:f32[8]) kind=layer\n"
      "y = linear(n, random:f32[8,8], random:f32[8], x)\nreturn y");
  EXPECT_EQ(type_of(q, "y", 3), DType::f32);
}

TEST(U8Streams, ALayerKeptFloatReadsWhatItReadBefore) {
  QuantizeOptions options;
  options.keep_float = {"c"};
  const Quantized q = quantized(kResidual, options);
  EXPECT_EQ(type_of(q, "c", 3), DType::f32);
}

TEST(SkipIntoGate, OnePassOverTheMapInsteadOfTwo) {
  const Ran r = run_passes({&skip_into_gate},
                           "x: f32[n,4,5,5]\ng: f32[n,4,1,1]\nm = binary(x, g) kind=mul\n"
                           "y = binary(x, m) kind=add\nreturn y");
  EXPECT_THAT(op_names(r.graph), ElementsAre("add", "mul"));
}

TEST(SkipIntoGate, OnlyWhereTheOtherFactorIsAGate) {
  for (const char* g : {"f32[n,4,5,5]", "f32[n,4,1,5]", "f32[4,1,1]"}) {
    const Ran r = run_passes({&skip_into_gate}, "x: f32[n,4,5,5]\ng: " + std::string(g) +
                                                    "\nm = binary(x, g) kind=mul\n"
                                                    "y = binary(x, m) kind=add\nreturn y");
    EXPECT_THAT(op_names(r.graph), ElementsAre("mul", "add")) << g;
  }
}

}  // namespace
}  // namespace fold8::fusion
