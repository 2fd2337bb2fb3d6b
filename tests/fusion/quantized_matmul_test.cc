// A product with a stored INT8 matrix is a linear layer.
#include "fusion/passes/quantized_matmul.h"

#include "fusion/passes/fuse_quantize.h"
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Ran rewritten(graph::Graph g) {
  Ran ran{g, {}};
  auto tally = run(Pass{&quantized_matmul_to_linear}, ran.graph);
  EXPECT_TRUE(tally.ok()) << tally.error().message;
  if (tally.ok()) ran.tally = std::move(*tally);
  expect_verified(ran.graph);
  EXPECT_TRUE(exec::infer_types(ran.graph).ok());
  return ran;
}

// Both sides are chains of the same products; only where the bias is added differs (chain + bias in
// both).
Ran rewritten(const std::string& text) {
  const graph::Graph before = parsed(text);
  Ran ran = rewritten(before);
  EXPECT_EQ(steps_apart(before, ran.graph), 0) << graph::to_text(ran.graph);
  return ran;
}

std::string product(const char* weight, const char* attributes = "", const char* rest = "",
                    const char* returned = "p") {
  return std::string("x: f32[2,3,6]\nw = const random:s8") + weight +
         "\nd = dequantize(w)\np = matmul(x, d)" + attributes + "\n" + rest + "\nreturn " +
         returned;
}

TEST(QuantizedMatMul, BothOrientations) {
  for (const auto& text : {product("[6,4] @channel(1)"), product("[6,4] @(0.02,0)"),
                           product("[4,6] @channel(0)", " transpose_b=true")}) {
    const Ran ran = rewritten(text);
    EXPECT_THAT(op_names(ran.graph), ElementsAre("dequantize", "linear"));
    const graph::Node& dequantize = ran.graph.node(0);
    const TensorType& w = ran.graph.type(dequantize.inputs[0]);
    EXPECT_EQ(w.shape, (Shape{4, 6}));
    EXPECT_EQ(w.quant->is_per_tensor() ? 0 : w.quant->axis(), 0);
    EXPECT_EQ(ran.graph.value(ran.graph.outputs[0]).name, "p");
  }
}

TEST(QuantizedMatMul, ZeroPointsTravelWithTheirColumns) {
  graph::Graph g = parsed(product("[6,4] @channel(1)"));
  auto& type = g.value(g.find_value("w")).type;
  type.quant = *QuantParams::per_channel(1, {0.1f, 0.2f, 0.3f, 0.4f}, {1, -2, 3, -4});
  const Ran ran = rewritten(g);
  EXPECT_EQ(steps_apart(g, ran.graph), 0);
  EXPECT_THAT(ran.graph.type(ran.graph.node(0).inputs[0]).quant->zero_points(),
              ElementsAre(1, -2, 3, -4));
}

TEST(QuantizedMatMul, OneTransposedCopyForSeveralReaders) {
  const Ran ran =
      rewritten(std::string("x: f32[2,3,6]\nz: f32[5,6]\nw = const random:s8[6,4] @channel(1)\nd = "
                            "dequantize(w)\np = matmul(x, d)\ns = matmul(z, d)\nreturn p, s"));
  EXPECT_EQ(node_named(ran.graph, "p").inputs[1], node_named(ran.graph, "s").inputs[1]);
}

TEST(QuantizedMatMul, TakesTheBias) {
  for (const char* bias : {"random:f32[4]", "random:f32[1,4]", "random:f32[1,1,4]"})
    for (const char* form : {"y = add(p, %)", "y = add(%, p)"}) {
      std::string line = form;
      line.replace(line.find('%'), 1, bias);
      const Ran ran = rewritten(product("[6,4] @channel(1)", "", line.c_str(), "y"));
      EXPECT_THAT(op_names(ran.graph), ElementsAre("dequantize", "linear")) << line;
      const graph::Node& n = node_named(ran.graph, "p");
      ASSERT_EQ(n.inputs.size(), 3u);
      EXPECT_EQ(ran.graph.type(n.inputs[2]).shape, Shape{4});
      EXPECT_EQ(ran.graph.value(n.outputs[0]).name, "y");
      EXPECT_THAT(n.inside, testing::Contains("p"));
    }
}

TEST(QuantizedMatMul, LeavesSumsThatAreNoBias) {
  for (const auto& [rest, returned] : std::vector<std::pair<const char*, const char*>>{
           {"y = add(p, random:f32[4])\nz = relu(p)", "y, z"},  // another reader
           {"y = add(p, random:f32[4])", "y, p"},               // a graph output
           {"y = add(p, random:f32[3,4])", "y"},                // not per column
           {"y = add(p, random:f32[5,1,1,4])", "y"},            // enlarges the product
           {"y = add(p, f32[]{2})", "y"},
           {"y = add(p, p)", "y"},
           {"y = binary(p, random:f32[4]) kind=sub", "y"},
           {"y = binary(p, random:f32[4]) kind=add activation=clip a=0 b=1", "y"}}) {
    const Ran ran = rewritten(product("[6,4] @channel(1)", "", rest, returned));
    EXPECT_EQ(node_named(ran.graph, "p").inputs.size(), 2u) << rest;
    EXPECT_EQ(count_ops(ran.graph, "linear"), 1) << rest;
  }
}

TEST(QuantizedMatMul, DeclinesScalesThatAreNotPerColumn) {
  for (const auto& text :
       {product("[6,4] @channel(0)"), product("[4,6] @channel(1)", " transpose_b=true")}) {
    const Ran ran = rewritten(text);
    EXPECT_THAT(reasons(ran.tally.declined), ElementsAre(HasSubstr("output columns")));
    EXPECT_EQ(ran.tally.declined[0].node, "p");
    EXPECT_THAT(op_names(ran.graph), ElementsAre("dequantize", "matmul"));
  }
}

TEST(QuantizedMatMul, NotOfOtherProducts) {
  for (const std::string& text :
       {product("[6,4] @channel(1)", " alpha=2"), product("[2,6,4] @(0.1,0)"),
        std::string(
            "x: f32[3,6]\nw: s8[6,4] @(0.1,0)\nd = dequantize(w)\np = matmul(x, d)\nreturn p"),
        std::string(
            "x: f32[6]\nd = dequantize(random:s8[6,4] @channel(1))\np = matmul(x, d)\nreturn p"),
        std::string("x: f32[6,3]\nd = dequantize(random:s8[6,4] @channel(1))\np = matmul(x, d) "
                    "transpose_a=true\nreturn p"),
        std::string("x: f32[3,6]\np = matmul(x, random:f32[6,4])\nreturn p")}) {
    const Ran ran = rewritten(parsed(text));
    EXPECT_EQ(ran.tally.applied, 0) << text;
    EXPECT_THAT(ran.tally.declined, IsEmpty());
  }
}

TEST(QuantizedMatMul, ThenTheLayerReadsTheIntegers) {
  Ran ran = rewritten(
      "x: u8[3,6] @(0.05,128)\ndx = dequantize(x)\nw = const random:s8[6,4] @channel(1)\nd = "
      "dequantize(w)\np = matmul(dx, d)\n"
      "y = add(p, random:f32[4])\nreturn y");
  ASSERT_TRUE(run(Pass{&fuse_quantize}, ran.graph).ok());
  EXPECT_THAT(op_names(ran.graph), ElementsAre("linear"));
}

}  // namespace
}  // namespace fold8::fusion
