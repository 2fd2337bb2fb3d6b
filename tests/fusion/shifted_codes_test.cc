// A factor and a number behind an activation: the factor moves into the layer, the number into the
// codes where it is a whole number of steps.
#include "fusion/passes/shifted_codes.h"

#include "fusion/pipeline.h"
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using testing::ElementsAre;

const std::string kConv = " kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]";

std::string layer_then_affine(const std::string& activation, const std::string& scale,
                              const std::string& shift) {
  return "x: f32[2,4,6,6]\nc = conv(x, random:f32[4,4,3,3], random:f32[4])" + kConv + activation +
         "\na = affine(c, f32[4]{" + scale + "}, f32[4]{" + shift + "})\nreturn a";
}

TEST(ScaleIntoActivation, MovesAUniformFactorIntoTheLayerWithTheSameNumbers) {
  for (const char* activation : {" activation=hard_swish a=0.16666667 b=0.5",
                                 " activation=silu a=1", " activation=clip a=-0.5 b=2",
                                 " activation=clip a=0 b=inf", " activation=leaky_relu a=0.1"}) {
    const Ran r = run_passes({&scale_into_activation},
                             layer_then_affine(activation, "0.3,0.3,0.3,0.3", "1,1,1,1"));
    EXPECT_EQ(r.tally.applied, 1) << activation;
    const auto one = floats(r.graph, node_named(r.graph, "a").inputs[1]);
    EXPECT_THAT(one, ElementsAre(1, 1, 1, 1));
  }
}

TEST(ScaleIntoActivation, NegativeFactorsWhereTheActivationAllowsIt) {
  const std::string minus = "-2,-2,-2,-2", none = "0,0,0,0";
  EXPECT_EQ(run_passes({&scale_into_activation},
                       layer_then_affine(" activation=hard_swish a=0.2 b=0.5", minus, none))
                .tally.applied,
            1);
  EXPECT_EQ(run_passes({&scale_into_activation},
                       layer_then_affine(" activation=clip a=0 b=inf", minus, none))
                .tally.applied,
            0);
}

TEST(ScaleIntoActivation, LeavesAloneWhatDiffersPerChannelOrHasOtherReaders) {
  for (const std::string& text :
       {layer_then_affine(" activation=hard_swish a=0.2 b=0.5", "1,2,3,4", "1,1,1,1"),
        layer_then_affine(" activation=hard_swish a=0.2 b=0.5", "0,0,0,0", "1,1,1,1"),
        layer_then_affine(" activation=gelu_erf", "2,2,2,2", "1,1,1,1"),
        layer_then_affine(" activation=silu a=1", "2,2,2,2", "1,1,1,1") + ", c"}) {
    EXPECT_EQ(run_passes({&scale_into_activation}, text).tally.applied, 0) << text;
  }
}

// y's step is 0.05: 1.5 is 30 of them.
std::string rounded(const std::string& shift, const std::string& activation,
                    bool depthwise = false) {
  return "x: u8[2,4,6,6] @(0.02,128)\nc = conv(x, random:s8[4," +
         std::string(depthwise ? "1" : "4") + ",3,3] @channel(0), random:f32[4])" + kConv +
         (depthwise ? " group=4" : "") + activation + "\na = affine(c, f32[4]{1,1,1,1}, f32[4]{" +
         shift + "})\nq: u8[2,4,6,6] @(0.05,100) = quantize(a)\nreturn q";
}

TEST(ShiftedCodes, AWholeNumberOfStepsIsWrittenByTheLayer) {
  for (const char* activation : {" activation=hard_swish a=0.16666667 b=0.5",
                                 " activation=clip a=0 b=4", " activation=silu a=1"})
    for (const auto& [shift, steps] :
         {std::pair{"1.5,1.5,1.5,1.5", 30}, std::pair{"-12,-12,-12,-12", -240}}) {
      for (const bool depthwise : {false, true}) {
        const Ran r = fused(rounded(shift, activation, depthwise), 1);
        EXPECT_THAT(op_names(r.graph), ElementsAre(depthwise ? "grouped_conv" : "conv"));
        EXPECT_EQ(std::get<graph::Conv>(only_node(r.graph).op).shift, steps);
      }
    }
}

TEST(ShiftedCodes, NothingElseIs) {
  for (const char* shift : {"1.52,1.52,1.52,1.52", "1.5,1.5,1.5,1.45", "0.01,0.01,0.01,0.01"})
    EXPECT_THAT(op_names(fused(rounded(shift, " activation=silu a=1"), 0).graph),
                ElementsAre("conv", "affine"));
}

TEST(ShiftedCodes, TheScaleGrowsToAWholeNumberOfStepsOrStays) {
  const auto params = *QuantParams::per_tensor(0.1f, 50);
  const QuantParams grown = params_for_shift(params, -2.57f);  // 25.7 steps -> 25
  EXPECT_FLOAT_EQ(grown.scale(), 2.57f / 25);
  EXPECT_EQ(whole_steps(-2.57f, grown.scale()), -25);
  EXPECT_LE(grown.scale() * (0 - grown.zero_point()), -5.0f + grown.scale() / 2);
  EXPECT_GE(grown.scale() * (255 - grown.zero_point()), 20.5f - grown.scale() / 2);
  EXPECT_EQ(params_for_shift(params, 0.19f), params) << "it would nearly double";
  EXPECT_EQ(params_for_shift(params, 0.05f), params);
  EXPECT_EQ(params_for_shift(params, 0.0f), params);
}

}  // namespace
}  // namespace fold8::fusion
