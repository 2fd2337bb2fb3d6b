// Rounding moves into producers and through data movement; integer operands are read as they are.
#include "fusion/passes/fuse_quantize.h"

#include <cstring>

#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::string rounded(const std::string& op, const std::string& shape, const std::string& input) {
  return "x: " + input + "\nh = " + op + "\nq: u8" + shape + " @(0.05,120) = quantize(h)\nreturn q";
}

constexpr const char* kWindow = " kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]";

// Values are in f32 either way; the rounding divides either way.
TEST(FuseQuantize, IntoFloatKernelsWithTheSameBytes) {
  const std::string image = "[1,4,6,6]", rows = "[3,8]";
  const std::vector<std::vector<std::string>> cases = {
      {std::string("conv(x, random:f32[4,4,3,3], random:f32[4])") + kWindow, image, "conv"},
      {"linear(x, random:f32[8,8], random:f32[8])", rows, "linear"},
      {"binary(x, random:f32[8]) kind=add", rows, "add"},
      {"binary(x, random:f32[8]) kind=sub", rows, "sub"},
      {"binary(x, random:f32[8]) kind=mul", rows, "mul"},
      {"binary(x, random_positive:f32[8]) kind=div", rows, "div"},
      {"unary(x) kind=sigmoid", rows, "sigmoid"},
      {"unary(x) kind=gelu_erf", rows, "gelu_erf"},
      {"affine(x, random:f32[4], random:f32[4])", image, "affine"},
      {"norm(x, random:f32[8], random:f32[8]) kind=layer", rows, "layer_norm"},
      {"norm(x, random:f32[8]) kind=rms", rows, "rms_norm"},
  };
  for (const auto& c : cases) {
    const Ran ran = fused(rounded(c[0], c[1], "f32" + c[1]), 0);
    EXPECT_THAT(op_names(ran.graph), ElementsAre(c[2]));
    EXPECT_EQ(ran.tally.applied, 1);
  }
}

TEST(FuseQuantize, FactorsBelongToTheRoundingPerToken) {
  const std::string head = "x: f32[3,8]\nh = affine(x, random:f32[8], ",
                    tail = ") axis=1\nq, s = dynamic_quantize(h)\nreturn q, s";
  EXPECT_THAT(op_names(fused(head + "zeros:f32[8]" + tail, 0).graph),
              ElementsAre("dynamic_quantize"));
  EXPECT_THAT(op_names(fused(head + "random:f32[8]" + tail, 0).graph),
              ElementsAre("affine", "dynamic_quantize"));
  // Somebody else reads the product: it stays for them.
  EXPECT_THAT(op_names(fused("x: f32[3,8]\nh = affine(x, random:f32[8], zeros:f32[8]) axis=1\n"
                             "q, s = dynamic_quantize(h)\nr = relu(h)\nreturn q, s, r",
                             0)
                           .graph),
              UnorderedElementsAre("affine", "dynamic_quantize", "relu"));
}

TEST(FuseQuantize, IntoInt8LayersWithinOneStep) {
  for (const char* act : {"", " activation=clip a=0 b=6"}) {
    const Ran conv =
        fused(rounded(std::string("conv(x, random:s8[4,4,3,3] @channel(0), random:f32[4])") +
                          kWindow + act,
                      "[1,4,6,6]", "u8[1,4,6,6] @(0.02,100)"),
              1);
    EXPECT_THAT(op_names(conv.graph), ElementsAre("conv"));
    const Ran linear = fused(rounded(std::string("linear(x, random:s8[8,8] @channel(0))") + act,
                                     "[3,8]", "u8[3,8] @(0.02,100)"),
                             1);
    EXPECT_THAT(op_names(linear.graph), ElementsAre("linear"));
  }
}

TEST(FuseQuantize, MovesUpThroughOperatorsThatOnlyMoveOrSelect) {
  const std::vector<std::vector<std::string>> cases = {
      {"max_pool(x) kernel=[3,3] strides=[2,2] pads=[1,1,1,1] dilations=[1,1]", "[1,4,3,3]"},
      {"max_pool(x) global=true", "[1,4,1,1]"},
      {"reshape(x, s64{2,72})", "[2,72]"},
      {"flatten(x)", "[1,144]"},
      {"squeeze(x) axes=[0]", "[4,6,6]"},
      {"unsqueeze(x) axes=[0]", "[1,1,4,6,6]"},
      {"transpose(x) perm=[0,2,3,1]", "[1,6,6,4]"},
      {"slice(x, s64{1}, s64{3}, s64{2}, s64{1})", "[1,4,2,6]"},
      {"identity(x)", "[1,4,6,6]"},
      {"concat(x, x) axis=1", "[1,8,6,6]"},
      {"depth_to_space(x) block=2", "[1,1,12,12]"},
      {"space_to_depth(x) block=2", "[1,16,3,3]"},
      {"resize(x, f32[4]{1,1,2,2}) mode=nearest coordinates=asymmetric nearest=floor",
       "[1,4,12,12]"},
  };
  for (const auto& c : cases)
    for (const char* type : {"u8", "s8"}) {
      const Ran ran = fused("x: f32[1,4,6,6]\nh = " + c[0] + "\nq: " + type + c[1] +
                                " @(0.03,7) = quantize(h)\nreturn q",
                            0);
      const auto names = op_names(ran.graph);
      ASSERT_FALSE(names.empty());
      EXPECT_EQ(names.front(), "quantize") << c[0];
      EXPECT_NE(names.back(), "quantize") << c[0];
      const auto& q = ran.graph.type(ran.graph.outputs[0]);
      EXPECT_EQ(q.quant->zero_point(), 7);
      EXPECT_EQ(ran.graph.value(ran.graph.outputs[0]).name, "q");
    }
}

TEST(FuseQuantize, ThroughMovementIntoTheProducers) {
  const Ran ran = fused(
      std::string("x: f32[1,4,6,6]\na = conv(x, random:f32[4,4,3,3])") + kWindow +
          "\nb = conv(x, random:f32[4,4,3,3])" + kWindow +
          "\nc = concat(a, b) axis=1\np = max_pool(c) kernel=[2,2] strides=[2,2] pads=[0,0,0,0] "
          "dilations=[1,1]\nt = transpose(p) perm=[0,2,3,1]\nq: u8[1,3,3,8] @(0.1,99) = "
          "quantize(t)\nreturn q",
      0);
  EXPECT_THAT(op_names(ran.graph), ElementsAre("conv", "conv", "concat", "max_pool", "transpose"));
  for (const char* name : {"a", "b", "c", "p"}) {  // the float names are those of the codes now
    const graph::ValueId v = ran.graph.find_value(name);
    ASSERT_NE(v, graph::kNoValue) << name;
    EXPECT_EQ(ran.graph.type(v).dtype, DType::u8) << name;
  }
}

TEST(FuseQuantize, NotWhereItWouldChangeSomething) {
  const std::vector<std::vector<std::string>> cases = {
      // the float value has another reader, or is an output
      {"x: f32[3,8]\nh = relu(x)\nq: u8[3,8] @(0.05,0) = quantize(h)\ne = unary(h) "
       "kind=exp\nreturn "
       "q, e"},
      {"x: f32[3,8]\nh = relu(x)\nq: u8[3,8] @(0.05,0) = quantize(h)\nreturn q, h"},
      {"x: f32[3,8]\nh = flatten(x)\nq: u8[3,8] @(0.05,0) = quantize(h)\nreturn q, h"},
      // kernels without a rounding epilogue, or for u8 alone
      {"x: f32[3,8]\nh = softmax(x)\nq: u8[3,8] @(0.05,0) = quantize(h)\nreturn q"},
      {"x: f32[3,8]\nh = unary(x) kind=exp\nq: u8[3,8] @(0.05,0) = quantize(h)\nreturn q"},
      {"x: f32[3,8]\nh = linear(x, random:f32[8,8])\nq: s8[3,8] @(0.05,0) = quantize(h)\nreturn q"},
      {"x: f32[3,8]\nh = relu(x)\nq: u8[3,8] @channel(1) = quantize(h)\nreturn q"},
      {"x: f32[1,4,6,6]\nh = norm(x, random:f32[4], random:f32[4]) kind=group groups=2\nq: "
       "u8[1,4,6,6] @(0.05,0) = quantize(h)\nreturn q"},
      // averages and interpolations of floats are no codes
      {"x: f32[1,4,6,6]\nh = average_pool(x) global=true\nq: u8[1,4,1,1] @(0.05,0) = "
       "quantize(h)\nreturn q"},
      {"x: f32[1,4,6,6]\nh = resize(x, f32[4]{1,1,2,2}) mode=linear\nq: u8[1,4,12,12] @(0.05,0) = "
       "quantize(h)\nreturn q"},
      // positions of maxima may not move when values become equal
      {"x: f32[1,4,6,6]\nh, i = max_pool(x) kernel=[2,2] strides=[2,2] pads=[0,0,0,0] "
       "dilations=[1,1]\nq: u8[1,4,3,3] @(0.05,0) = quantize(h)\nreturn q, i"},
      // a constant part has no Quantize to move to
      {"x: f32[3,8]\nh = concat(x, random:f32[1,8]) axis=0\nq: u8[4,8] @(0.05,0) = "
       "quantize(h)\nreturn q"},
  };
  for (const auto& c : cases) {
    const Ran ran = fused(c[0], 0);
    EXPECT_EQ(ran.tally.applied, 0) << graph::to_text(ran.graph);
    EXPECT_EQ(graph::to_text(ran.graph), graph::to_text([&] {
                graph::Graph g = parsed(c[0]);
                EXPECT_TRUE(g.compact().ok());
                return g;
              }()));
  }
}

// A post-norm block: the norm's result is the residual, as f32, and what the next layer multiplies.
TEST(FuseQuantize, ANormWritesCodesBesideItsFloatResult) {
  const std::string norm = "x: f32[2,3,8]\nh = norm(x, random:f32[8], random:f32[8]) kind=",
                    layer = "y = linear(q, random:s8[8,8] @channel(0), _, h",
                    token = "q: u8[2,3,8] @token, s: f32[2,3,1] = dynamic_quantize(h)\n" + layer +
                            ", s)",
                    fixed = "q: u8[2,3,8] @(0.05,120) = quantize(h)\n" + layer + ")";
  for (const char* kind : {"layer\n", "rms\n"})
    for (const std::string& rounding : {token, fixed}) {
      const Ran ran = fused(norm + kind + rounding + "\nreturn y", 0);
      EXPECT_EQ(ran.tally.applied, 1);
      EXPECT_THAT(op_names(ran.graph),
                  ElementsAre(std::string(kind, std::strlen(kind) - 1) + "_norm", "linear"));
      const graph::ValueId h = ran.graph.find_value("h");
      ASSERT_NE(h, graph::kNoValue);
      EXPECT_EQ(ran.graph.type(h).dtype, DType::f32);
    }
  // Returned as well; and along more than the last axis, where a token is no row of the norm.
  EXPECT_EQ(fused(norm + "layer\n" + token + "\nreturn y, h", 0).tally.applied, 1);
  EXPECT_EQ(fused("x: f32[2,3,8]\nh = norm(x, random:f32[3,8]) kind=layer axis=1\n" + token +
                      "\nreturn y",
                  0)
                .tally.applied,
            0);
}

TEST(FuseQuantize, TheFloatNameGoesToTheCodes) {
  const Ran ran = fused(
      "x: f32[3,8]\nh = relu(x)\nq: u8[3,8] @(0.05,0) = quantize(h)\ny = linear(q, random:s8[4,8] "
      "@channel(0))\nreturn y",
      0);
  EXPECT_THAT(op_names(ran.graph), ElementsAre("relu", "linear"));
  const graph::ValueId h = ran.graph.find_value("h");
  ASSERT_NE(h, graph::kNoValue);
  EXPECT_EQ(ran.graph.type(h).dtype, DType::u8);
  EXPECT_EQ(ran.graph.find_value("q"), graph::kNoValue);
}

TEST(FuseQuantize, APairThatCancels) {
  const auto text = [](const char* params) {
    return std::string("x: u8[3,8] @(0.05,10)\nd = dequantize(x)\nq: u8[3,8] ") + params +
           " = quantize(d)\ny = linear(q, random:s8[4,8] @channel(0))\nreturn y";
  };
  EXPECT_THAT(op_names(fused(text("@(0.05,10)"), 0).graph), ElementsAre("linear"));
  for (const char* other : {"@(0.05,11)", "@(0.06,10)"}) {
    const Ran ran = fused(text(other), 0);
    EXPECT_THAT(op_names(ran.graph), ElementsAre("dequantize", "quantize", "linear"));
  }
  // The Dequantize stays for its other reader, and a graph output keeps its name.
  EXPECT_THAT(op_names(fused("x: u8[3,8] @(0.05,10)\nd = dequantize(x)\nq: u8[3,8] @(0.05,10) = "
                             "quantize(d)\ny = linear(q, random:s8[4,8] @channel(0))\nreturn y, d",
                             0)
                           .graph),
              UnorderedElementsAre("dequantize", "linear"));
  const Ran output = fused(
      "x: u8[3,8] @(0.05,10)\nd = dequantize(x)\nq: u8[3,8] @(0.05,10) = quantize(d)\nreturn q", 0);
  EXPECT_EQ(output.graph.value(output.graph.outputs[0]).name, "q");
  // A reader that reads the codes twice.
  EXPECT_THAT(op_names(fused("x: u8[3,8] @(0.05,10)\nd = dequantize(x)\nq: u8[3,8] @(0.05,10) = "
                             "quantize(d)\ny: u8[3,16] @(0.05,10) = concat(q, q) axis=1\nreturn y",
                             0)
                           .graph),
              ElementsAre("concat"));
}

}  // namespace
}  // namespace fold8::fusion
