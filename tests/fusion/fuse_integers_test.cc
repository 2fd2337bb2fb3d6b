// What fuse_quantize makes of integer operands: sums, averages and layers read codes as they are,
// and norms write them.
#include "fusion/passes/fuse_quantize.h"
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kWindow = " kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]";

TEST(FuseIntegers, AddAndMulOfTwoDequantizedTensors) {
  for (const std::string kind : {"add", "mul", "sub"}) {
    const Ran ran = fused(
        "a: u8[3,8] @(0.02,120)\nb: u8[3,8] @(0.03,99)\nda = dequantize(a)\ndb = dequantize(b)\ns "
        "= "
        "binary(da, db) kind=" +
            kind + "\nq: u8[3,8] @(0.06,127) = quantize(s)\nreturn q",
        1);
    if (kind == "sub")
      EXPECT_EQ(count_ops(ran.graph, "dequantize"), 2);  // no kernel over integers
    else
      EXPECT_THAT(op_names(ran.graph), ElementsAre(kind));
  }
  const Ran mixed = fused(
      "a: u8[3,8] @(0.02,120)\nb: f32[3,8]\nda = dequantize(a)\ns = binary(da, b) kind=add\nq: "
      "u8[3,8] @(0.06,127) = quantize(s)\nreturn q",
      0);
  EXPECT_THAT(op_names(mixed.graph), ElementsAre("dequantize", "add"));
}

TEST(FuseIntegers, SumsWithAnActivationAndProductsThatBroadcast) {
  const Ran sum = fused(
      "a: u8[3,8] @(0.02,120)\nb: u8[3,8] @(0.03,99)\nda = dequantize(a)\ndb = dequantize(b)\ns = "
      "binary(da, db) kind=add activation=clip a=0 b=6\nq: u8[3,8] @(0.024,0) = "
      "quantize(s)\nreturn q",
      1);
  EXPECT_THAT(op_names(sum.graph), ElementsAre("add"));
  const Ran excited = fused(
      "a: u8[2,4,5,5] @(0.02,120)\nb: u8[2,4,1,1] @(0.004,0)\nda = dequantize(a)\ndb = "
      "dequantize(b)\ns = binary(da, db) kind=mul\nq: u8[2,4,5,5] @(0.02,110) = "
      "quantize(s)\nreturn q",
      1);
  EXPECT_THAT(op_names(excited.graph), ElementsAre("mul"));
  // The codes of a tensor that somebody else reads as floats are still read as codes.
  const Ran shared = fused(
      "a: u8[3,8] @(0.02,120)\nda = dequantize(a)\ns = binary(da, da) kind=add\nq: u8[3,8] "
      "@(0.04,120) = quantize(s)\nreturn q, da",
      0);
  EXPECT_THAT(op_names(shared.graph), testing::UnorderedElementsAre("dequantize", "add"));
}

TEST(FuseIntegers, AveragePoolingInIntegers) {
  for (const char* pool :
       {"average_pool(d) global=true",
        "average_pool(d) kernel=[6,6] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]"}) {
    const Ran ran = fused(std::string("x: u8[1,4,6,6] @(0.02,120)\nd = dequantize(x)\np = ") +
                              pool + "\nq: u8[1,4,1,1] @(0.01,127) = quantize(p)\nreturn q",
                          1);
    EXPECT_TRUE(std::holds_alternative<graph::Pool>(only_node(ran.graph).op));
    EXPECT_EQ(ran.graph.type(ran.graph.node(0).inputs[0]).dtype, DType::u8);
  }
}

TEST(FuseIntegers, LayersReadDequantizedIntegers) {
  for (const std::string in : {"u8[3,8] @(0.02,120)", "s8[3,8] @(0.02,-3)"})
    for (const std::string w :
         {"s8[4,8] @channel(0)", "s8[4,8] @(0.01,0)", "u8[4,8] @(0.01,130)"}) {
      const Ran ran = fused("x: " + in + "\nd = dequantize(x)\nw = const random:" + w +
                                "\ndw = dequantize(w)\ny = linear(d, dw)\nq: u8[3,4] @(0.5,128) = "
                                "quantize(y)\nreturn q",
                            1);
      EXPECT_THAT(op_names(ran.graph), ElementsAre("linear")) << in << " " << w;
    }
  const Ran conv = fused(
      std::string("x: u8[1,4,6,6] @(0.02,120)\nd = dequantize(x)\nw = const random:s8[5,4,3,3] "
                  "@channel(0)\ndw = dequantize(w)\ny = conv(d, dw)") +
          kWindow + "\nq: u8[1,5,6,6] @(0.5,128) = quantize(y)\nreturn q",
      1);
  EXPECT_THAT(op_names(conv.graph), ElementsAre("conv"));
}

TEST(FuseIntegers, WeightScalesOffTheOutputChannelsAreDeclined) {
  const Ran wrong = fused(
      "x: u8[3,8] @(0.02,120)\nd = dequantize(x)\nw = const random:s8[4,8] @channel(1)\ndw = "
      "dequantize(w)\ny = linear(d, dw)\nreturn y",
      0);
  EXPECT_THAT(reasons(wrong.tally.declined), ElementsAre(HasSubstr("axis 1")));
  EXPECT_EQ(wrong.tally.declined[0].node, "y");
  EXPECT_EQ(count_ops(wrong.graph, "dequantize"), 2);

  graph::Graph g = parsed(
      "x: u8[3,8] @(0.02,120)\nd = dequantize(x)\nw = const random:s8[4,8] @channel(0)\ndw = "
      "dequantize(w)\ny = linear(d, dw)\nreturn y");
  g.value(g.find_value("w")).type.quant =
      *QuantParams::per_group(1, 4, {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f});
  EXPECT_THAT(reasons(fused(g).tally.declined), ElementsAre(HasSubstr("groups")));

  const Ran transposed = fused(
      "x: u8[1,4,6,6] @(0.02,120)\nd = dequantize(x)\nw = const random:s8[4,5,1,1] @channel(0)\ndw "
      "= "
      "dequantize(w)\ny = conv(d, dw) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1] "
      "transposed=true\nreturn y",
      0);
  EXPECT_THAT(reasons(transposed.tally.declined), ElementsAre(HasSubstr("axis 0")));
}

TEST(FuseIntegers, NormsWritePerTokenCodesThemselves) {
  const auto text = [](const std::string& norm, const std::string& returned) {
    return "x: f32[2,3,8]\nh = " + norm +
           "\nq: u8[2,3,8] @token, s: f32[2,3,1] = dynamic_quantize(h)\ny = linear(q, "
           "random:s8[4,8] "
           "@channel(0), _, _, s)\nreturn " +
           returned;
  };
  for (const char* norm : {"norm(x, random:f32[8], random:f32[8]) kind=layer",
                           "norm(x, random:f32[8]) kind=rms", "norm(x) kind=rms axis=2"}) {
    const Ran ran = fused(text(norm, "y"), 0);
    ASSERT_EQ(ran.graph.live_nodes(), 2u) << graph::to_text(ran.graph);
    const graph::Node& n = ran.graph.node(0);
    ASSERT_EQ(n.outputs.size(), 3u);
    EXPECT_EQ(ran.graph.value(n.outputs[0]).name, "h");
    EXPECT_EQ(ran.graph.node(1).inputs[4], n.outputs[2]);
    const Ran both = fused(text(norm, "y, h"), 0);  // somebody wants the floats, too
    ASSERT_EQ(both.graph.live_nodes(), 2u) << graph::to_text(both.graph);
    EXPECT_EQ(both.graph.value(both.graph.node(0).outputs[3]).name, "q");
  }
  EXPECT_EQ(fused(text("norm(x, random:f32[3,8]) kind=rms axis=1", "y"), 0).tally.applied, 0);
  EXPECT_EQ(fused(text("relu(x)", "y"), 0).tally.applied, 0);
}

// The whole way: quantize() and then the pass; the same model within a step of its float self.
TEST(FuseIntegers, AfterOurOwnQuantizer) {
  const Quantized q = quantized(
      std::string("x: f32[1,4,8,8]\na = conv(x, random:f32[8,4,3,3], random:f32[8])") + kWindow +
      " activation=clip a=0 b=6\np = max_pool(a) kernel=[2,2] strides=[2,2] pads=[0,0,0,0] "
      "dilations=[1,1]\nb = conv(p, random:f32[8,8,3,3], random:f32[8])" +
      kWindow + "\nreturn b");
  const Ran ran = fused(q.graph);
  EXPECT_THAT(op_names(ran.graph), ElementsAre("quantize", "conv", "max_pool", "conv"));
  EXPECT_EQ(ran.graph.type(ran.graph.find_value("a")).dtype, DType::u8);
  EXPECT_EQ(ran.graph.type(ran.graph.find_value("p")).dtype, DType::u8);
  EXPECT_EQ(ran.graph.type(ran.graph.find_value("b")).dtype, DType::f32);
  EXPECT_THAT(ran.tally.declined, IsEmpty());
}

}  // namespace
}  // namespace fold8::fusion
