// LayerNorms of pre-norm networks become RMSNorms without moving the outputs; others are refused.
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Embeddings and positions, one block of two branches, a final norm with its layer.
const std::string kStream =
    "ids: s64[2,3]\ne = gather(random:f32[9,8], ids)\ns0 = binary(e, random:f32[3,8])\n"
    "n1 = norm(s0, random:f32[8], random:f32[8]) epsilon=1e-05\n"
    "a = linear(n1, random:f32[8,8], random:f32[8])\ns1 = binary(s0, a)\n"
    "n2 = norm(s1, random:f32[8], random:f32[8]) epsilon=1e-05\n"
    "h = linear(n2, random:f32[6,8], random:f32[6]) activation=gelu_erf\n"
    "f = linear(h, random:f32[8,6])\n";

Ran converted(const std::string& text) {
  return run_passes({&fold_constants, &layer_norm_to_rms_norm}, text);
}

int rms_norms(const graph::Graph& g) { return count_ops(g, "rms_norm"); }

TEST(LayerNormToRmsNorm, APreNormNetworkHasNoLayerNormLeft) {
  const Ran ran = converted(kStream +
                            "s2 = binary(s1, f)\nn3 = norm(s2, random:f32[8], random:f32[8])\n"
                            "y = linear(n3, random:f32[4,8])\nreturn y");
  EXPECT_EQ(rms_norms(ran.graph), 3);
  EXPECT_EQ(count_ops(ran.graph, "layer_norm"), 0);
  EXPECT_THAT(ran.tally.declined, IsEmpty());
  // The rows that a layer adds to the stream have mean zero.
  const auto w = floats(ran.graph, node_named(ran.graph, "a").inputs[1]);
  for (std::size_t k = 0; k < 8; ++k) {
    double mean = 0;
    for (std::size_t n = 0; n < 8; ++n) mean += double{w[n * 8 + k]};
    EXPECT_NEAR(mean, 0, 1e-6);
  }
}

TEST(LayerNormToRmsNorm, ResidualsMayBeFusedAlready) {
  const Ran ran = converted(
      "x: s64[2,3]\ns0 = gather(random:f32[9,8], x)\nn1 = norm(s0)\n"
      "s1 = linear(n1, random:f32[8,8], random:f32[8], s0)\nn2 = norm(s1)\n"
      "y = linear(n2, random:f32[4,8])\nreturn y");
  EXPECT_EQ(rms_norms(ran.graph), 2);
}

TEST(LayerNormToRmsNorm, PatchesOfAPictureAreCentredInTheirConvolution) {
  const Ran ran = converted(
      "x: f32[1,3,8,8]\nc = conv(x, random:f32[8,3,4,4], random:f32[8]) kernel=[4,4] strides=[4,4] "
      "pads=[0,0,0,0] dilations=[1,1]\nr = reshape(c, s64[3]{1,8,4})\nt = transpose(r) "
      "perm=[0,2,1]\n"
      "cls = concat(random:f32[1,1,8], t) axis=1\ns = binary(cls, random:f32[1,5,8])\n"
      "n = norm(s, random:f32[8], random:f32[8])\ny = linear(n, random:f32[4,8])\nreturn y");
  EXPECT_EQ(rms_norms(ran.graph), 1);
}

// What a norm on a centred stream adds may be needed: the stream is centred all the same.
TEST(LayerNormToRmsNorm, ANormWhoseBetaIsNeededStays) {
  const Ran ran = converted(kStream +
                            "s2 = binary(s1, f)\n"
                            "y = norm(s2, random:f32[8], random:f32[8])\nreturn y");
  EXPECT_EQ(rms_norms(ran.graph), 2);
  EXPECT_EQ(count_ops(ran.graph, "layer_norm"), 1);
  EXPECT_THAT(reasons(ran.tally.declined), Contains(HasSubstr("needs its beta; it stays")));
}

TEST(LayerNormToRmsNorm, WhoReadsAShapeReadsNoValues) {
  const Ran ran = run_passes({&fold_constants, &layer_norm_to_rms_norm},
                             kStream +
                                 "s2 = binary(s1, f)\nn3 = norm(s2, random:f32[8], random:f32[8])\n"
                                 "y = linear(n3, random:f32[4,8])\n"
                                 "a1 = shape_of(n1)\na2 = shape_of(s1)\nreturn y, a1, a2",
                             {}, /*numbers=*/false);
  EXPECT_EQ(rms_norms(ran.graph), 3);
}

TEST(LayerNormToRmsNorm, RefusesAPostNormNetwork) {
  const Ran ran = converted(
      "x: f32[2,3,8]\na = linear(x, random:f32[8,8])\ns = binary(a, x)\nn = norm(s)\n"
      "b = linear(n, random:f32[8,8])\nt = binary(b, n)\nm = norm(t)\nreturn m");
  EXPECT_EQ(rms_norms(ran.graph), 0);
  EXPECT_THAT(reasons(ran.tally.declined), Contains(HasSubstr("a post-norm network")));
}

TEST(LayerNormToRmsNorm, RefusesAStreamThatSomethingElseReads) {
  const std::string rest = "n3 = norm(s2)\ny = linear(n3, random:f32[4,8])\n";
  EXPECT_THAT(reasons(converted(kStream + "s2 = binary(s1, f)\n" + rest +
                                "z = unary(s2) kind=tanh\nreturn y, z")
                          .tally.declined),
              Contains(HasSubstr("'z' (tanh) reads the residual stream itself")));
  EXPECT_THAT(
      reasons(converted(kStream + "s2 = binary(s1, f)\n" + rest + "return y, s2").tally.declined),
      Contains(HasSubstr("the graph returns the residual stream")));
  EXPECT_THAT(reasons(converted("x: f32[2,8]\nn = norm(x)\nreturn n").tally.declined),
              ElementsAre("'x' is an input of the graph"));
}

}  // namespace
}  // namespace fold8::fusion
