// SPEC §2: a constant affine in front of linear layers, z-scores of inputs, and the affines an
// input quantizer takes.
#include "fusion/batch_norms.h"
#include "fusion/passes/passes.h"
#include "fusion/pipeline.h"
#include "runtime/exec/model.h"
#include "runtime/graph/text.h"
#include "tests/fusion/graph_testing.h"

namespace fold8::fusion {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

#define BN(x, c)                                                          \
  "batch_norm(" x ", random:f32[" c "], random:f32[" c "], random:f32[" c \
  "], random_positive:f32[" c "])"
#define CONV1D(x, pads)                                                              \
  "conv(" x ", random:f32[2,2,3], random:f32[2]) kernel=[3] strides=[1] pads=[" pads \
  "] dilations=[1]"

Ran fold(std::string_view text, Context context = {}) {
  return run_passes(stage("fold").passes, text, context);
}

TEST(FoldForward, IntoAnUnpaddedConvolution) {
  EXPECT_THAT(
      op_names(
          fold("x: f32[1,2,5]\nb = " BN("x", "2") "\ny = " CONV1D("b", "0,0") "\nreturn y").graph),
      ElementsAre("conv"));
}
TEST(FoldForward, IntoAGroupedConvolution) {
  EXPECT_THAT(
      op_names(fold("x: f32[1,4,5,5]\nb = " BN(
                        "x", "4") "\ny = conv(b, random:f32[6,2,3,3]) kernel=[3,3] strides=[1,1] "
                                  "pads=[0,0,0,0] dilations=[1,1] group=2\nreturn y")
                   .graph),
      ElementsAre("grouped_conv"));
}
TEST(FoldForward, IntoALinear) {
  EXPECT_THAT(
      op_names(fold("x: f32[n,5]\nb = " BN(
                        "x", "5") "\ny = linear(b, random:f32[3,5], random:f32[3])\nreturn y")
                   .graph),
      ElementsAre("linear"));
}
TEST(FoldForward, ThroughAFlatten) {
  const Ran ran = fold("x: f32[2,3,2,2]\nb = " BN(
      "x", "3") "\nf = flatten(b)\ny = linear(f, random:f32[4,12])\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("flatten", "linear"));
}
TEST(FoldForward, IntoEveryLayerThatReadsIt) {
  const Ran ran = fold("x: f32[n,5]\nb = " BN(
      "x", "5") "\nq = linear(b, random:f32[3,5])\nk = linear(b, random:f32[4,5], "
                "random:f32[4])\nreturn q, k");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("linear", "linear"));
}
TEST(FoldForward, BehindAReluOfAnotherLayer) {
  const Ran ran = fold("x: f32[1,1,1,4]\nc = conv(x, f32[2,1,1,1]{1,-1}) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]\nr = relu(c)\nb = " BN("r", "2") "\ny = conv(b, random:f32[2,2,1,1]) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("conv", "relu", "conv"));
  EXPECT_EQ(batch_norms_left(ran.graph), 0);
}

TEST(FoldForward, ZeroPaddingKeepsAnAffineAndSaysWhy) {
  const Ran ran = fold("x: f32[1,2,5]\nb = " BN("x", "2") "\ny = " CONV1D("b", "1,1") "\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("affine", "conv"));
  EXPECT_EQ(batch_norms_left(ran.graph), 1);
  EXPECT_THAT(reasons(ran.tally.declined), Contains(HasSubstr("pads with zeros")));
}
TEST(FoldForward, AScaleAlonePassesZeroPadding) {
  const Ran ran = fold(
      "x: f32[1,2,5]\nb = batch_norm(x, random:f32[2], zeros:f32[2], zeros:f32[2], "
      "random_positive:f32[2])\ny = " CONV1D("b", "1,1") "\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("conv"));
}
TEST(FoldForward, ATransposedConvolutionTakesOnlyAScale) {
  const char* kConv =
      "conv(b, random:f32[2,3,3]) kernel=[3] strides=[2] pads=[0,0] dilations=[1] "
      "transposed=true\nreturn y";
  const Ran shifted = fold(std::string("x: f32[1,2,5]\nb = " BN("x", "2") "\ny = ") + kConv);
  EXPECT_THAT(op_names(shifted.graph), ElementsAre("affine", "conv_transpose"));
  EXPECT_THAT(reasons(shifted.tally.declined), Contains(HasSubstr("sees fewer taps")));
  const Ran scaled =
      fold(std::string("x: f32[1,2,5]\nb = binary(x, random:f32[2,1]) kind=mul\ny = ") + kConv);
  EXPECT_THAT(op_names(scaled.graph), ElementsAre("conv_transpose"));
}
TEST(FoldForward, AnotherKindOfReaderKeepsTheAffineForAll) {
  const Ran ran = fold("x: f32[n,5]\nb = " BN(
      "x", "5") "\ny = linear(b, random:f32[3,5])\nz = relu(b)\nreturn y, z");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("affine", "linear", "relu"));
  EXPECT_EQ(batch_norms_left(ran.graph), 1);
}

constexpr std::string_view kZScore = R"(
x: f32[n,2]
d = binary(x, f32[2]{200,3.6666667}) kind=sub
z = binary(d, f32[2]{138.92444,1.1055416}) kind=div
y = linear(z, f32[3,2]{1.5,0.75,-0.5,1,0.25,-1}, f32[3]{0.1,0.2,0.3})
return y
)";

TEST(ZScore, GoesIntoTheFirstFloatLayer) {
  EXPECT_THAT(op_names(fold(kZScore).graph), ElementsAre("linear"));
}

TEST(ZScore, IsLeftForTheInputQuantizerAsOneAffine) {
  const Ran ran = fold(kZScore, Context{true, {}});
  EXPECT_THAT(op_names(ran.graph), ElementsAre("affine", "linear"));
  EXPECT_EQ(batch_norms_left(ran.graph), 0);
  const auto found = input_affines(ran.graph);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].axis, 1);
  EXPECT_EQ(ran.graph.value(found[0].input).name, "x");
  EXPECT_EQ(ran.graph.value(found[0].output).name, "z");
  // The worked values of the specification: the first and the last row of areas and rooms.
  EXPECT_NEAR(50 * found[0].scale[0] + found[0].shift[0], -1.07972363, 1e-6);
  EXPECT_NEAR(2 * found[0].scale[1] + found[0].shift[1], -1.50755672, 1e-6);
  EXPECT_NEAR(450 * found[0].scale[0] + found[0].shift[0], 1.79953938, 1e-6);
  EXPECT_NEAR(5 * found[0].scale[1] + found[0].shift[1], 1.20604538, 1e-6);
}

TEST(ZScore, PlainNumbersAreOneAffineToo) {
  const Ran ran = fold(
      "x: f32[n,3,4,4]\na = binary(x, f32[]{127.5}) kind=div\nb = binary(a, f32[]{1}) kind=sub\ny "
      "= conv(b, random:f32[2,3,1,1]) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] "
      "dilations=[1,1]\nreturn y",
      Context{true, {}});
  EXPECT_THAT(op_names(ran.graph), ElementsAre("affine", "conv"));
}

TEST(ZScore, AnAffineWithOtherReadersOfTheInputIsNotTheQuantizers) {
  const graph::Graph g =
      parsed("x: f32[n,2]\nz = binary(x, random:f32[2]) kind=mul\ny = relu(x)\nreturn y, z");
  EXPECT_TRUE(input_affines(g).empty());
}

TEST(MergeAffines, StatisticsOverNoChannelsAreLeftAlone) {
  auto g = graph::parse(R"(
x: f32[3,0,8,2]
h = mul(x, f32[1]{0.5})
y = batch_norm(h, zeros:f32[0], zeros:f32[0], zeros:f32[0], zeros:f32[0])
return y
)");
  ASSERT_TRUE(g.ok()) << g.error().message;
  ASSERT_TRUE(exec::infer_types(*g).ok());
  EXPECT_TRUE(run_stages(float_pipeline(), *g).ok());
}

}  // namespace
}  // namespace fold8::fusion
