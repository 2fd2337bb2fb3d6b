// Channels last around convolutions, plain elsewhere; the numbers stay bit for bit.
#include "fusion/passes/assign_layout.h"

#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using testing::ElementsAre;

#define K3 " kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]"
#define CONV(x, act) "conv(" x ", random:f32[4,4,3,3], random:f32[4])" K3 act
// Channel 4 in, channel 4 out, codes in and out.
#define CONV8(x) \
  "u8[1,4,6,6] @(0.5,120) = conv(" x ", random:s8[4,4,3,3] @channel(0), random:f32[4])" K3

// The pass over a text graph: it must verify and give the same bytes, however many symbols there
// are.
graph::Graph arranged(const std::string& text) {
  const graph::Graph before = parsed(text);
  graph::Graph g = before;
  const auto tally = run(Pass{&assign_layout}, g);
  EXPECT_TRUE(tally.ok()) << tally.error().message;
  expect_verified(g);
  EXPECT_EQ(steps_apart(before, g), 0) << graph::to_text(g);
  for (std::size_t o = 0; o < before.outputs.size(); ++o)
    EXPECT_EQ(g.value(g.outputs[o]).name, before.value(before.outputs[o]).name);
  return g;
}

Layout layout_of(const graph::Graph& g, const char* name) {
  const graph::ValueId v = g.find_value(name);
  EXPECT_NE(v, graph::kNoValue) << name;
  return v == graph::kNoValue ? Layout::plain : g.type(v).layout;
}

TEST(AssignLayout, OneRelayoutInFrontOfAChainOfConvolutions) {
  const graph::Graph g = arranged("x: f32[n,4,6,6]\na = " CONV(
      "x", " activation=clip a=0 b=6") "\nb = " CONV("a", "") "\nc = " CONV("b", "") "\nreturn c");
  EXPECT_THAT(op_names(g), ElementsAre("relayout", "conv", "conv", "conv"));
  for (const char* name : {"a", "b"}) EXPECT_EQ(layout_of(g, name), Layout::channels_last) << name;
  EXPECT_EQ(layout_of(g, "x"), Layout::plain);
}

TEST(AssignLayout, AnInputIsRoundedWhileItIsRearranged) {
  const std::string rounded = "x: f32[2,4,6,6]\nq: u8[2,4,6,6] @(0.02,100) = quantize(x)\n";
  const graph::Graph g =
      arranged(rounded + "y: u8[2,4,6,6] @(0.5,120) = conv(q, random:s8[4,4,3,3] @channel(0))" K3
                         "\nreturn y");
  EXPECT_THAT(op_names(g), ElementsAre("relayout", "conv"));
  // Not where somebody reads the codes as they are.
  const graph::Graph both =
      arranged(rounded + "y: u8[2,4,6,6] @(0.5,120) = conv(q, random:s8[4,4,3,3] @channel(0))" K3
                         "\nreturn y, q");
  EXPECT_THAT(op_names(both), ElementsAre("quantize", "relayout", "conv"));
}

TEST(AssignLayout, OnePerValueAndDirection) {
  const graph::Graph g = arranged("x: f32[1,4,6,6]\na = " CONV("x", "") "\nb = " CONV(
      "x", "") "\nc = max_pool(x) kernel=[2,2] strides=[2,2] pads=[0,0,0,0] dilations=[1,1]\n"
               "r = reshape(a, s64{1,144})\nt = reshape(a, s64{2,72})\nreturn b, c, r, t");
  EXPECT_EQ(count_ops(g, "relayout"), 2);  // x for three readers, a for two
}

TEST(AssignLayout, ElementwiseOperatorsFollow) {
  const graph::Graph g = arranged("x: f32[1,4,6,6]\na = " CONV("x", "") "\nb = " CONV(
      "a", "") "\nr = unary(b) kind=mish\ns = binary(r, a) kind=mul\nt = binary(s, "
               "random:f32[4,1,1]) kind=add\n"
               "f = affine(t, random:f32[4], random:f32[4])\nc = " CONV("f", "") "\nreturn c");
  EXPECT_EQ(count_ops(g, "relayout"), 1);
  for (const char* name : {"r", "s", "t", "f"})
    EXPECT_EQ(layout_of(g, name), Layout::channels_last) << name;
}

TEST(AssignLayout, SqueezeAndExcitationStays) {
  const graph::Graph g = arranged("x: f32[1,4,6,6]\na = " CONV(
      "x", "") "\np = average_pool(a) global=true\n"
               "e = conv(p, random:f32[4,4,1,1]) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] "
               "dilations=[1,1]\n"
               "g = unary(e) kind=sigmoid\ns = binary(a, g) kind=mul\nc = " CONV("s",
                                                                                 "") "\nreturn c");
  EXPECT_EQ(count_ops(g, "relayout"), 1);
  EXPECT_EQ(layout_of(g, "s"), Layout::channels_last);
}

TEST(AssignLayout, ResidualsFollowTheirConvolution) {
  const graph::Graph g = arranged("x: f32[1,4,6,6]\na = " CONV(
      "x", "") "\nb = conv(a, random:f32[4,4,3,3], _, x)" K3 "\nreturn b");
  EXPECT_EQ(count_ops(g, "relayout"), 1);  // x, for both its uses
}

TEST(AssignLayout, PlainAroundReshapesAndMatrixProducts) {
  const graph::Graph g = arranged("x: f32[1,4,6,6]\na = " CONV(
      "x", "") "\nr = reshape(a, s64{1,4,36})\n"
               "m = matmul(r, r) transpose_b=true\nb = reshape(m, s64{1,4,2,2})\nc = " CONV(
                   "b", "") "\nreturn c");
  EXPECT_THAT(op_names(g), ElementsAre("relayout", "conv", "relayout", "reshape", "matmul",
                                       "reshape", "relayout", "conv"));
  for (const char* name : {"r", "m", "b"}) EXPECT_EQ(layout_of(g, name), Layout::plain) << name;
}

TEST(AssignLayout, ConcatenationOfMapsFollowsOfRowsDoesNot) {
  const graph::Graph g = arranged("x: f32[1,4,6,6]\na = " CONV("x", "") "\nb = " CONV(
      "x",
      "") "\nc = concat(a, b) axis=1\n"
          "p = average_pool(c) global=true\nf = flatten(p)\ny = concat(f, f) axis=1\nreturn y, c");
  EXPECT_EQ(layout_of(g, "c"), Layout::channels_last);
  EXPECT_EQ(layout_of(g, "y"), Layout::plain);
}

TEST(AssignLayout, OneAndThreeSpatialAxes) {
  EXPECT_EQ(count_ops(arranged("x: f32[2,4,9]\na = conv(x, random:f32[6,4,3]) kernel=[3] "
                               "strides=[1] pads=[1,1] dilations=[1]\n"
                               "b = conv(a, random:f32[4,6,3]) kernel=[3] strides=[2] pads=[1,1] "
                               "dilations=[1]\nreturn b"),
                      "relayout"),
            1);
  EXPECT_EQ(count_ops(arranged("x: f32[1,3,4,4,4]\na = conv(x, random:f32[4,3,3,3,3]) "
                               "kernel=[3,3,3] strides=[1,1,1] "
                               "pads=[1,1,1,1,1,1] dilations=[1,1,1]\nb = max_pool(a) "
                               "kernel=[2,2,2] strides=[2,2,2] "
                               "pads=[0,0,0,0,0,0] dilations=[1,1,1]\nreturn b"),
                      "relayout"),
            1);
}

TEST(AssignLayout, Int8Networks) {
  const graph::Graph g = arranged("x: f32[1,4,6,6]\nq: u8[1,4,6,6] @(0.03,128) = quantize(x)\na: " CONV8("q") "\nb: " CONV8("a") "\n"
      "s: u8[1,4,6,6] @(0.7,125) = binary(a, b) kind=add\np: u8[1,4,3,3] @(0.7,125) = max_pool(s) kernel=[2,2] strides=[2,2] "
      "pads=[0,0,0,0] dilations=[1,1]\nf: u8[1,36] @(0.7,125) = flatten(p)\ny = linear(f, random:s8[5,36] @channel(0))\nreturn y, b");
  EXPECT_EQ(count_ops(g, "relayout"), 2);  // in, and in front of flatten
  for (const char* name : {"a", "b", "s", "p"})
    EXPECT_EQ(layout_of(g, name), Layout::channels_last) << name;
  EXPECT_EQ(layout_of(g, "f"), Layout::plain);
}

TEST(AssignLayout, NothingWithoutSpace) {
  const std::string text = "x: f32[3,4]\na = linear(x, random:f32[4,4])\nb = relu(a)\nreturn b";
  EXPECT_EQ(graph::to_text(arranged(text)), graph::to_text(parsed(text)));
  EXPECT_EQ(count_ops(arranged("x: f32[2,3,4]\na = linear(x, random:f32[4,4])\nb = norm(a, "
                               "random:f32[4]) kind=rms\nreturn b"),
                      "relayout"),
            0);
}

TEST(AssignLayout, RescaleFactorsFollowTheTwin) {
  graph::Graph g =
      parsed("x: f32[1,4,6,6]\na = " CONV("x", "") "\nr = reshape(a, s64{1,144})\nreturn r");
  g.value(g.find_value("a")).rescale = {1, 2, 3, 4};
  g.value(g.find_value("a")).rescale_axis = 1;
  ASSERT_TRUE(run(Pass{&assign_layout}, g).ok());
  const graph::Value& twin = g.value(node_named(g, "r").inputs[0]);
  EXPECT_NE(twin.name, "a");
  EXPECT_THAT(twin.rescale, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(twin.rescale_axis, 1);
}

}  // namespace
}  // namespace fold8::fusion
