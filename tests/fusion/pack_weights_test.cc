// Weights in the order the kernels read: once per weight and geometry, and the same numbers.
#include "fusion/passes/pack_weights.h"

#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using testing::HasSubstr;

#define CONV(x, w, more) "conv(" x ", " w ") kernel=[3,3] dilations=[1,1]" more
#define PLAIN " strides=[1,1] pads=[1,1,1,1]"

Ran packed(graph::Graph g) {
  Ran ran{g, {}};
  auto tally = run(Pass{&pack_weights}, ran.graph);
  EXPECT_TRUE(tally.ok()) << tally.error().message;
  if (tally.ok()) ran.tally = std::move(*tally);
  expect_verified(ran.graph);
  EXPECT_EQ(steps_apart(g, ran.graph), 0) << graph::to_text(ran.graph);
  return ran;
}
Ran packed(const std::string& text) { return packed(parsed(text)); }

graph::ValueId weight_of(const graph::Graph& g, const char* node) {
  return node_named(g, node).inputs[1];
}

int constants(const graph::Graph& g) {
  int n = 0;
  for (graph::ValueId v = 0; v < g.value_count(); ++v) n += g.is_constant(v);
  return n;
}

TEST(PackWeights, EveryKindOfLayer) {
  const Ran ran = packed(
      "x: f32[1,4,6,6]\na = " CONV("x", "random:f32[8,4,3,3]", PLAIN) "\nb = " CONV("a", "random:f32[8,1,3,3]", PLAIN " group=8")
      "\nc = " CONV("b", "random:f32[8,2,3,3]", " strides=[2,2] pads=[1,1,1,1] transposed=true group=2")
      "\nf = reshape(c, s64{11,44})\ny = linear(f, random:f32[5,44])\nreturn y");
  EXPECT_EQ(ran.tally.applied, 4);
  EXPECT_EQ(ran.graph.type(weight_of(ran.graph, "a")).layout, Layout::packed_f32);
  EXPECT_EQ(ran.graph.type(weight_of(ran.graph, "b")).layout, Layout::depthwise_f32);
  EXPECT_EQ(ran.graph.type(weight_of(ran.graph, "y")).layout, Layout::packed_f32);
  EXPECT_EQ(std::get<graph::Conv>(node_named(ran.graph, "a").op).out_channels, 8);
  EXPECT_EQ(std::get<graph::Conv>(node_named(ran.graph, "c").op).out_channels, 4);
  const auto& linear = std::get<graph::Linear>(node_named(ran.graph, "y").op);
  EXPECT_EQ(linear.out_features, 5);
  EXPECT_EQ(linear.in_features, 44);
}

TEST(PackWeights, Int8) {
  const Ran ran = packed(
      "x: u8[1,4,6,6] @(0.03,128)\na: u8[1,8,6,6] @(0.5,120) = " CONV("x", "random:s8[8,4,3,3] @channel(0)", PLAIN)
      "\nb: u8[1,8,6,6] @(0.5,120) = " CONV("a", "random:s8[8,1,3,3] @channel(0)", PLAIN " group=8")
      "\nf: u8[1,288] @(0.5,120) = flatten(b)\ny = linear(f, random:s8[5,288] @channel(0))\nreturn y");
  EXPECT_EQ(ran.graph.type(weight_of(ran.graph, "a")).layout, Layout::packed_s8);
  EXPECT_EQ(ran.graph.type(weight_of(ran.graph, "b")).layout, Layout::depthwise_s8);
  EXPECT_EQ(ran.graph.type(weight_of(ran.graph, "y")).layout, Layout::packed_s8);
  EXPECT_EQ(ran.graph.type(weight_of(ran.graph, "a")).quant->scales().size(), 8u);
  EXPECT_EQ(*ran.graph.type(weight_of(ran.graph, "a")).shape.elements(),
            8 * 4 * 9);  // the shape stays logical
}

TEST(PackWeights, ASharedWeightIsStoredOnce) {
  const Ran ran = packed(
      "x: f32[3,4]\nw = const random:f32[4,4]\na = linear(x, w) activation=tanh\nb = linear(a, w, "
      "random:f32[4])\nreturn b");
  EXPECT_EQ(weight_of(ran.graph, "a"), weight_of(ran.graph, "b"));
  EXPECT_EQ(constants(ran.graph), 2);  // the packed weight and the bias; the plain one is gone
  // Strides, pads and activations of a convolution do not matter to its weights.
  const Ran convs = packed(
      "x: f32[1,4,6,6]\nw = const random:f32[4,4,3,3]\na = " CONV("x", "w", PLAIN) "\nb = " CONV(
          "a", "w", " strides=[2,2] pads=[0,0,0,0] activation=clip a=0 b=6") "\nreturn b");
  EXPECT_EQ(weight_of(convs.graph, "a"), weight_of(convs.graph, "b"));
}

TEST(PackWeights, NotSharedWhereTheOrderDiffers) {
  // Phases of a transposed convolution follow its strides; groups and orientation matter too.
  const Ran strides = packed("x: f32[1,4,6,6]\nw = const random:f32[4,4,3,3]\na = " CONV(
      "x", "w", PLAIN " transposed=true") "\nb = " CONV("x", "w",
                                                        " strides=[2,2] pads=[1,1,1,1] "
                                                        "transposed=true") "\nreturn a, b");
  EXPECT_NE(weight_of(strides.graph, "a"), weight_of(strides.graph, "b"));
  const Ran kinds = packed("x: f32[1,4,6,6]\nw = const random:f32[4,4,3,3]\na = " CONV(
      "x", "w", PLAIN) "\nb = " CONV("x", "w", PLAIN " transposed=true") "\nreturn a, b");
  EXPECT_NE(weight_of(kinds.graph, "a"), weight_of(kinds.graph, "b"));
}

TEST(PackWeights, OnceIsEnough) {
  for (const char* layer : {"conv(x, random:f32[4,4,3,3]) kernel=[3,3] dilations=[1,1]" PLAIN,
                            "conv(x, random:f32[4,4,3,3]) kernel=[3,3] dilations=[1,1] "
                            "strides=[2,2] transposed=true auto_pad=same_upper",
                            "conv(x, random:f32[4,4,3,3]) kernel=[3,3] dilations=[1,1] "
                            "strides=[2,2] transposed=true output_shape=[12,12]"}) {
    const Ran once = packed(std::string("x: f32[1,4,6,6]\ny = ") + layer + "\nreturn y");
    const Ran twice = packed(once.graph);
    EXPECT_EQ(twice.tally.applied, 0) << layer;
    EXPECT_EQ(graph::to_text(once.graph), graph::to_text(twice.graph));
  }
}

// The phases of such a weight depend on the size of the picture: it is left for the operator, once.
TEST(PackWeights, LeavesWhatDependsOnExtents) {
  const Ran ran = packed(
      "x: u8[1,4,6,6] @(0.03,128)\ny = conv(x, random:s8[4,4,3,3] @channel(1)) kernel=[3,3] "
      "dilations=[1,1] "
      "strides=[2,2] transposed=true output_shape=[12,12]\nreturn y");
  EXPECT_EQ(ran.tally.applied, 0);
  EXPECT_EQ(ran.graph.type(weight_of(ran.graph, "y")).layout, Layout::plain);
}

TEST(PackWeights, WeightOnlyMatricesStayBytes) {
  const Ran ran = packed("x: f32[3,4]\ny = linear(x, random:s8[5,4] @channel(0))\nreturn y");
  EXPECT_EQ(ran.tally.applied, 1);
  EXPECT_EQ(ran.graph.type(ran.graph.node(0).inputs[1]).dtype, DType::s8);
}
TEST(PackWeights, LeavesComputedAndExpandedWeights) {
  EXPECT_EQ(packed("x: f32[3,4]\ny = linear(x, random:u8[5,4] @(0.1,3))\nreturn y").tally.applied,
            0);
  EXPECT_EQ(packed("x: f32[3,4]\nw: f32[5,4]\ny = linear(x, w)\nreturn y").tally.applied, 0);
  EXPECT_EQ(packed("x: f32[3,4]\ny = linear(x, zeros:f32[0,4])\nreturn y").tally.applied, 0);
  EXPECT_EQ(packed("x: f32[3,4]\ny = matmul(x, random:f32[4,5])\nreturn y").tally.applied, 0);
}

}  // namespace
}  // namespace fold8::fusion
