// The fuse stage on float graphs.
#include "fusion/passes/passes.h"
#include "tests/fusion/graph_testing.h"

namespace fold8::fusion {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Ran fuse(std::string_view text) { return run_passes(stage("fuse").passes, text); }

#define CONV(x)                                                                      \
  "conv(" x                                                                          \
  ", random:f32[4,4,3,3], random:f32[4]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] " \
  "dilations=[1,1]"

TEST(FuseActivation, IntoEveryOperatorThatTakesOne) {
  for (const char* op :
       {"linear(x, random:f32[4,4], random:f32[4])", "binary(x, random:f32[4]) kind=mul",
        "affine(x, random:f32[4], random:f32[4])"})
    for (const char* act :
         {"relu(h)", "unary(h) kind=clip a=0 b=6", "unary(h) kind=leaky_relu a=0.1",
          "unary(h) kind=hard_sigmoid a=0.2 b=0.5", "unary(h) kind=hard_swish a=0.16666667 b=0.5",
          "unary(h) kind=sigmoid", "unary(h) kind=silu a=1", "unary(h) kind=tanh",
          "unary(h) kind=gelu_erf", "unary(h) kind=gelu_tanh", "unary(h) kind=elu a=1"}) {
      const Ran ran = fuse(std::string("x: f32[3,4]\nh = ") + op + "\ny = " + act + "\nreturn y");
      EXPECT_EQ(ran.graph.live_nodes(), 1u) << op << " " << act;
    }
}
TEST(FuseActivation, OneOnly) {
  const Ran ran = fuse(
      "x: f32[3,4]\nh = linear(x, random:f32[4,4])\nr = relu(h)\ny = unary(r) kind=tanh\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("linear", "tanh"));
}
TEST(FuseActivation, NotIfTheValueIsReadElsewhere) {
  EXPECT_THAT(
      op_names(fuse("x: f32[3,4]\nh = linear(x, random:f32[4,4])\nr = relu(h)\nreturn r, h").graph),
      ElementsAre("linear", "relu"));
}
TEST(FuseActivation, NotAcrossARounding) {
  const Ran ran = run_passes({&fuse_activation},
                             "x: u8[3,4] @(0.05,128)\nh: u8[3,4] @(0.1,100) = linear(x, "
                             "random:s8[4,4] @channel(0))\nr: u8[3,4] @(0.1,0) = relu(h)\nreturn r",
                             {}, false);
  EXPECT_EQ(ran.graph.live_nodes(), 2u);
}

TEST(FuseResidual, IntoTheLaterLayerThenTheActivation) {
  const Ran ran = fuse("x: f32[1,4,5,5]\na = " CONV("x") "\nb = " CONV(
      "a") "\ns = binary(b, x) kind=add\ny = relu(s)\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("conv", "conv"));
  EXPECT_EQ(ran.graph.node(1).inputs[3], ran.graph.find_value("x"));
  EXPECT_EQ(std::get<graph::Conv>(ran.graph.node(1).op).activation, Activation::clip);
}
TEST(FuseResidual, TwoBranchesTheLaterOneTakesTheOther) {
  for (const char* sum : {"binary(a, b) kind=add", "binary(b, a) kind=add"}) {
    const Ran ran = fuse(std::string("x: f32[1,4,5,5]\na = ") + CONV("x") + "\nb = " + CONV("x") +
                         "\ny = " + sum + "\nreturn y");
    EXPECT_THAT(op_names(ran.graph), ElementsAre("conv", "conv"));
    EXPECT_EQ(ran.graph.value(ran.graph.node(1).inputs[3]).name, "a");
  }
}
TEST(FuseResidual, TheOtherBranchTakesItWhenTheLaterOneCannot) {
  const Ran ran = fuse("x: f32[1,4,5,5]\na = " CONV("x") "\nb = " CONV(
      "x") "\nr = unary(b) kind=exp\ny = binary(a, r) kind=add\nz = relu(b)\nreturn y, z");
  EXPECT_THAT(op_names(ran.graph), testing::UnorderedElementsAre("conv", "exp", "relu", "conv"));
}
TEST(FuseResidual, AnActivationInBetweenStops) {
  const Ran ran = fuse(
      "x: f32[3,4]\nh = linear(x, random:f32[4,4])\nr = relu(h)\ny = binary(r, x) kind=add\nreturn "
      "y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("linear", "add"));
}
TEST(FuseResidual, NoBroadcast) {
  EXPECT_THAT(op_names(fuse("x: f32[3,4]\nr: f32[1,4]\nh = linear(x, random:f32[4,4])\ny = "
                            "binary(h, r) kind=add\nreturn y")
                           .graph),
              ElementsAre("linear", "add"));
  EXPECT_THAT(op_names(fuse("x: f32[1,4]\nr: f32[3,4]\nh = linear(x, random:f32[4,4])\ny = "
                            "binary(h, r) kind=add\nreturn y")
                           .graph),
              ElementsAre("linear", "add"));
}
TEST(FuseResidual, SymbolsThatAreTheSame) {
  EXPECT_THAT(
      op_names(
          fuse("x: f32[n,4]\nh = linear(x, random:f32[4,4])\ny = binary(h, x) kind=add\nreturn y")
              .graph),
      ElementsAre("linear"));
  EXPECT_THAT(op_names(run_passes({&fuse_residual},
                                  "x: f32[n,4]\nr: f32[m,4]\nh = linear(x, random:f32[4,4])\ny = "
                                  "binary(h, r) kind=add\nreturn y")
                           .graph),
              ElementsAre("linear", "add"));
}

TEST(FuseMatMul, AScaleBecomesAlpha) {
  for (const char* lines : {"p = matmul(a, b)\ny = binary(p, f32[]{0.125}) kind=mul",
                            "p = matmul(a, b)\ny = binary(p, f32[1]{8}) kind=div",
                            "s = binary(f32[]{0.125}, a) kind=mul\ny = matmul(s, b)",
                            "s = binary(b, f32[]{8}) kind=div\ny = matmul(a, s)"}) {
    const Ran ran = fuse(std::string("a: f32[2,3,4]\nb: f32[2,4,5]\n") + lines + "\nreturn y");
    EXPECT_EQ(std::get<graph::MatMul>(only_node(ran.graph).op).alpha, 0.125f) << lines;
  }
}
TEST(FuseMatMul, ASwapOfTheLastAxesBecomesAFlag) {
  const Ran ran = fuse(
      "a: f32[2,3,4]\nb: f32[2,5,4]\nt = transpose(b) perm=[0,2,1]\ny = matmul(a, t)\nreturn y");
  EXPECT_TRUE(std::get<graph::MatMul>(only_node(ran.graph).op).transpose_b);
  const Ran other = fuse(
      "a: f32[2,3,4]\nb: f32[4,2,5]\nt = transpose(b) perm=[1,0,2]\ny = matmul(a, t)\nreturn y");
  EXPECT_THAT(op_names(other.graph), ElementsAre("transpose", "matmul"));
}

TEST(Pipeline, ADownsamplingBlockBecomesThreeConvolutions) {
  Ran ran{parsed(R"(
x: f32[n,4,6,6]
a = conv(x, random:f32[4,4,3,3]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]
an = batch_norm(a, random:f32[4], random:f32[4], random:f32[4], random_positive:f32[4])
ar = relu(an)
b = conv(ar, random:f32[4,4,3,3]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]
bn = batch_norm(b, random:f32[4], random:f32[4], random:f32[4], random_positive:f32[4])
d = conv(x, random:f32[4,4,1,1]) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]
dn = batch_norm(d, random:f32[4], random:f32[4], random:f32[4], random_positive:f32[4])
s = binary(bn, dn) kind=add
y = relu(s)
return y
)"),
          {}};
  const graph::Graph before = ran.graph;
  Context context;
  context.after_pass = [](const graph::Graph& a, const graph::Graph& b, std::string_view) {
    expect_same(a, b, 1e-5);
    return ok_status();
  };
  const auto log = run_stages(float_pipeline(), ran.graph, context);
  ASSERT_TRUE(log.ok()) << log.error().message;
  EXPECT_THAT(op_names(ran.graph), ElementsAre("conv", "conv", "conv"));
  EXPECT_EQ(log->stages.size(), 4u);
  EXPECT_TRUE(log->declined.empty());
  expect_same(before, ran.graph, 1e-5);
}

}  // namespace
}  // namespace fold8::fusion
