// SPEC §2: BatchNorm behind linear layers.
#include "fusion/batch_norms.h"
#include "fusion/passes/passes.h"
#include "tests/fusion/graph_testing.h"

namespace fold8::fusion {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Pass> canonical_and_fold() {
  std::vector<Pass> passes = stage("canonicalize").passes;
  for (const Pass& p : stage("fold").passes) passes.push_back(p);
  return passes;
}

struct Case {
  const char* name;
  const char* text;
  std::vector<std::string> left;  // operators after folding
};

#define BN(x, c)                                                          \
  "batch_norm(" x ", random:f32[" c "], random:f32[" c "], random:f32[" c \
  "], random_positive:f32[" c "])"

const Case kCases[] = {
    {"Conv1d",
     "x: f32[2,3,9]\nh = conv(x, random:f32[4,3,3], random:f32[4]) kernel=[3] strides=[1] "
     "pads=[1,1] dilations=[1]\ny = " BN("h", "4") "\nreturn y",
     {"conv"}},
    {"Conv2d",
     "x: f32[1,3,6,6]\nh = conv(x, random:f32[5,3,3,3], random:f32[5]) kernel=[3,3] strides=[2,1] "
     "pads=[1,1,1,1] dilations=[1,1]\ny = " BN("h", "5") "\nreturn y",
     {"conv"}},
    {"Conv3d",
     "x: f32[1,2,4,5,4]\nh = conv(x, random:f32[3,2,2,2,2], random:f32[3]) kernel=[2,2,2] "
     "strides=[1,2,1] pads=[0,0,0,0,0,0] dilations=[1,1,1]\ny = " BN("h", "3") "\nreturn y",
     {"conv"}},
    {"Grouped",
     "x: f32[1,6,5,5]\nh = conv(x, random:f32[4,3,3,3], random:f32[4]) kernel=[3,3] strides=[1,1] "
     "pads=[0,0,0,0] dilations=[1,1] group=2\ny = " BN("h", "4") "\nreturn y",
     {"grouped_conv"}},
    {"Depthwise",
     "x: f32[1,3,5,5]\nh = conv(x, random:f32[6,1,3,3]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] "
     "dilations=[1,1] group=3\ny = " BN("h", "6") "\nreturn y",
     {"grouped_conv"}},
    {"Dilated",
     "x: f32[1,2,7,8]\nh = conv(x, random:f32[3,2,3,3], random:f32[3]) kernel=[3,3] strides=[1,1] "
     "pads=[0,0,0,0] dilations=[2,2]\ny = " BN("h", "3") "\nreturn y",
     {"conv"}},
    {"NoBias",
     "x: f32[1,2,4,4]\nh = conv(x, random:f32[3,2,1,1]) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] "
     "dilations=[1,1]\ny = " BN("h", "3") "\nreturn y",
     {"conv"}},
    {"Transposed3To2",
     "x: f32[1,3,2,2]\nh = conv(x, random:f32[3,2,2,2]) kernel=[2,2] strides=[2,2] pads=[0,0,0,0] "
     "dilations=[1,1] transposed=true\ny = " BN("h", "2") "\nreturn y",
     {"conv_transpose"}},
    {"TransposedGrouped",
     "x: f32[2,4,2,2]\nh = conv(x, random:f32[4,3,2,2], random:f32[6]) kernel=[2,2] strides=[2,2] "
     "pads=[0,0,0,0] dilations=[1,1] transposed=true group=2\ny = " BN("h", "6") "\nreturn y",
     {"conv_transpose"}},
    {"Transposed1d",
     "x: f32[1,4,5]\nh = conv(x, random:f32[4,3,3], random:f32[3]) kernel=[3] strides=[2] "
     "pads=[1,0] dilations=[1] transposed=true\ny = " BN("h", "3") "\nreturn y",
     {"conv_transpose"}},
    {"Linear",
     "x: f32[n,6]\nh = linear(x, random:f32[4,6], random:f32[4])\ny = " BN("h", "4") "\nreturn y",
     {"linear"}},
    {"MatMul",
     "x: f32[3,6]\nh = matmul(x, random:f32[6,4])\ny = " BN("h", "4") "\nreturn y",
     {"linear"}},
    {"MatMulBiasOnTheLeft",
     "x: f32[n,6]\nm = matmul(x, random:f32[6,4])\nh = binary(random:f32[4], m) kind=add\ny = " BN(
         "h", "4") "\nreturn y",
     {"linear"}},
    {"GemmTransA",
     "x: f32[6,3]\nm = matmul(x, random:f32[6,4]) transpose_a=true\nh = binary(m, random:f32[4]) "
     "kind=add\ny = " BN("h", "4") "\nreturn y",
     {"transpose", "linear"}},
    {"GemmTransBAlphaBeta",
     "x: f32[3,6]\nm = matmul(x, random:f32[4,6]) transpose_b=true alpha=0.5\nc = "
     "binary(random:f32[4], f32[1]{-2}) kind=mul\nh = binary(m, c) kind=add\ny = " BN(
         "h", "4") "\nreturn y",
     {"linear"}},
    {"Twice",
     "x: f32[1,2,4,4]\nh = conv(x, random:f32[3,2,3,3]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] "
     "dilations=[1,1]\nb = " BN("h", "3") "\ny = " BN("b", "3") "\nreturn y",
     {"conv"}},
    {"AsMulAdd",
     "x: f32[1,2,4,4]\nh = conv(x, random:f32[3,2,3,3], random:f32[3]) kernel=[3,3] strides=[1,1] "
     "pads=[1,1,1,1] dilations=[1,1]\nm = binary(h, random:f32[3,1,1]) kind=mul\ny = binary(m, "
     "random:f32[1,3,1,1]) kind=add\nreturn y",
     {"conv"}},
    {"Chain",
     "x: f32[1,2,4,4]\nh = conv(x, random:f32[3,2,3,3]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] "
     "dilations=[1,1]\nb = " BN(
         "h", "3") "\nk = conv(b, random:f32[2,3,1,1], random:f32[2]) kernel=[1,1] strides=[1,1] "
                   "pads=[0,0,0,0] dilations=[1,1]\ny = " BN("k", "2") "\nreturn y",
     {"conv", "conv"}},
    {"ThroughTranspose",
     "x: f32[b,t,4]\nm = matmul(x, random:f32[4,3])\nh = binary(m, random:f32[3]) kind=add\nt1 = "
     "transpose(h) perm=[0,2,1]\nb1 = " BN("t1", "3") "\ny = transpose(b1) perm=[0,2,1]\nreturn y",
     {"linear"}},
    {"ThroughReshape",
     "x: f32[2,5,4]\nm = matmul(x, random:f32[4,3])\nr = reshape(m, s64{-1,3})\nb = " BN(
         "r", "3") "\ny = reshape(b, s64{2,5,3})\nreturn y",
     {"linear"}},
    {"ThroughFlatten",
     "x: f32[2,2,3,3]\nh = conv(x, random:f32[4,2,3,3], random:f32[4]) kernel=[3,3] strides=[1,1] "
     "pads=[0,0,0,0] dilations=[1,1]\nf = flatten(h)\ny = " BN("f", "4") "\nreturn y",
     {"conv", "flatten"}},
    {"ThroughSqueeze",
     "x: f32[2,3,1,8]\nh = conv(x, random:f32[4,3,1,3]) kernel=[1,3] strides=[1,1] pads=[0,1,0,1] "
     "dilations=[1,1]\ns = squeeze(h) axes=[2]\nb = " BN(
         "s", "4") "\ny = unsqueeze(b) axes=[3]\nreturn y",
     {"conv", "reshape_or_squeeze"}},
    {"ThroughSplitChannels",
     "x: f32[n,5]\nh = linear(x, random:f32[24,5], random:f32[24])\nr = reshape(h, "
     "s64{-1,6,2,2})\ny = " BN("r", "6") "\nreturn y",
     {"linear", "reshape"}},
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Folds : public testing::TestWithParam<Case> {};
TEST_P(Folds, WithoutATrace) {
  const Case& c = GetParam();
  const Ran ran = run_passes(canonical_and_fold(), c.text);
  EXPECT_EQ(batch_norms_left(ran.graph), 0);
  if (c.left.back() == "reshape_or_squeeze") {
    EXPECT_EQ(op_names(ran.graph).front(), c.left.front());
    EXPECT_THAT(op_names(ran.graph), testing::Not(Contains("batch_norm")));
    EXPECT_THAT(op_names(ran.graph), testing::Not(Contains("affine")));
  } else {
    EXPECT_EQ(op_names(ran.graph), c.left) << graph::to_text(ran.graph);
  }
  EXPECT_TRUE(ran.tally.declined.empty()) << ran.tally.declined[0].why;
}
INSTANTIATE_TEST_SUITE_P(Every, Folds, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FoldBatchNorm, WorkedExampleOfTheSpecification) {
  const Ran ran = run_passes({&fold_batch_norm}, R"(
x: f32[n,2]
h = linear(x, f32[2,2]{1,-2,0.5,3}, f32[2]{0.1,-0.2})
y = batch_norm(h, f32[2]{2,-1.5}, f32[2]{0.7,0.05}, f32[2]{0.3,-0.4}, f32[2]{0.25,4}) epsilon=1e-05
return y
)");
  const graph::Node& linear = only_node(ran.graph);
  const auto w = floats(ran.graph, linear.inputs[1]), b = floats(ran.graph, linear.inputs[2]);
  const float expected_w[] = {3.999920f, -7.999840f, -0.375000f, -2.249997f},
              expected_b[] = {-0.099984f, -0.100000f};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(w[static_cast<std::size_t>(i)], expected_w[i], 5e-7);
  for (int i = 0; i < 2; ++i) EXPECT_NEAR(b[static_cast<std::size_t>(i)], expected_b[i], 5e-7);
}

TEST(FoldBatchNorm, RunningStatisticsOfTheSpecification) {
  const graph::Graph g = parsed(R"(
x: f32[1,3]
y = batch_norm(x, f32[3]{1,1,1}, f32[3]{0,0,0}, f32[3]{1,2,3}, f32[3]{1.5,4.5,9.5}) epsilon=1e-05
return y
)");
  graph::Graph folded = g;
  ASSERT_TRUE(run(stage("fold"), folded).ok());
  const auto y = testing_support::evaluate(folded, {{"x", {{1, 3}, {10, 20, 30}}}});
  ASSERT_TRUE(y.ok());
  const double expected[] = {7.348445, 8.485272, 8.759952};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(y->at("y").data[i], expected[i], 1e-6);
}

TEST(FoldBatchNorm, RoundsOnceFromDouble) {
  // s*w in float would round s first.
  const Ran ran = run_passes({&fold_batch_norm}, R"(
x: f32[n,1]
h = linear(x, f32[1,1]{0.3})
y = batch_norm(h, f32[1]{0.7}, f32[1]{0.1}, f32[1]{0.2}, f32[1]{0.9}) epsilon=0.001
return y
)");
  const graph::Node& linear = only_node(ran.graph);
  const double s = double(0.7f) / std::sqrt(double(0.9f) + double(0.001f));
  EXPECT_EQ(floats(ran.graph, linear.inputs[1])[0], static_cast<float>(double(0.3f) * s));
  EXPECT_EQ(floats(ran.graph, linear.inputs[2])[0],
            static_cast<float>(double(0.1f) - s * double(0.2f)));
}

TEST(FoldBatchNorm, KeepsTheLastNameAndRemembersTheOthers) {
  const Ran ran = run_passes({&fold_batch_norm}, R"(
x: f32[n,6]
h = linear(x, random:f32[4,6])
y = batch_norm(h, random:f32[4], random:f32[4], random:f32[4], random_positive:f32[4])
z = relu(y)
return z
)");
  EXPECT_NE(ran.graph.find_value("y"), graph::kNoValue);
  EXPECT_EQ(ran.graph.find_value("h"), graph::kNoValue);
  const auto made = ran.graph.producers()[static_cast<std::size_t>(ran.graph.find_value("y"))];
  EXPECT_THAT(ran.graph.node(made).inside, Contains("h"));
}

TEST(FoldBatchNorm, ANewNameForTheValueInFrontOfATranspose) {
  const Ran ran = run_passes({&fold_batch_norm}, R"(
x: f32[2,5,6]
h = linear(x, random:f32[4,6])
t = transpose(h) perm=[0,2,1]
y = batch_norm(t, random:f32[4], random:f32[4], random:f32[4], random_positive:f32[4])
return y
)");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("linear", "transpose"));
  // h and t were values before the BatchNorm; what stands there now is another value.
  EXPECT_EQ(ran.graph.find_value("h"), graph::kNoValue);
  EXPECT_EQ(ran.graph.find_value("t"), graph::kNoValue);
}

TEST(FoldBatchNorm, SharedWeightsEachGetTheirOwnCopy) {
  const Ran ran = run_passes({&fold_batch_norm}, R"(
x: f32[1,1,2,2]
w = const f32[2,1,1,1]{1,-2}
a = conv(x, w) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]
y1 = batch_norm(a, f32[2]{2,-1}, f32[2]{0.5,1}, f32[2]{1,-4}, f32[2]{0.25,4})
b = conv(x, w) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]
y2 = batch_norm(b, f32[2]{10,3}, f32[2]{0,-1}, f32[2]{0,0}, f32[2]{1,9})
return y1, y2
)");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("conv", "conv"));
  EXPECT_NE(ran.graph.node(0).inputs[1], ran.graph.node(1).inputs[1]);
}

TEST(FoldBatchNorm, OddNumbersStayRight) {
  const char* kFormat =
      "x: f32[1,1,2,2]\nh = conv(x, f32[2,1,1,1]{1,-2}) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] "
      "dilations=[1,1]\n"
      "y = batch_norm(h, f32[2]{%s}, f32[2]{0.25,2}, f32[2]{0.5,-5}, f32[2]{%s}) "
      "epsilon=%s\nreturn y";
  const char* kNumbers[][3] = {{"-1.5,0", "1,4", "1e-05"},    // gamma negative and zero
                               {"1,-1", "0,0", "1e-05"},      // variance zero
                               {"2,-1", "0.25,4", "0"},       // epsilon zero
                               {"1e-20,1", "1e-40,1", "0"}};  // denormal variance: scale 1
  for (const auto& [gamma, variance, epsilon] : kNumbers) {
    char text[512];
    std::snprintf(text, sizeof text, kFormat, gamma, variance, epsilon);
    const Ran ran = run_passes({&fold_batch_norm}, text);
    EXPECT_THAT(op_names(ran.graph), ElementsAre("conv")) << text;
  }
}

TEST(FoldBatchNorm, ADivisionByZeroOfTheFloatModelIsAnErrorThatNamesTheNode) {
  graph::Graph g = parsed(R"(
x: f32[1,1,2,2]
h = conv(x, f32[2,1,1,1]{1,-2}) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]
y = batch_norm(h, f32[2]{1,1}, f32[2]{0,0}, f32[2]{0,0}, f32[2]{1,0}) epsilon=0
return y
)");
  const std::string node = g.node(1).name;
  const auto tally = run(stage("fold"), g);
  ASSERT_FALSE(tally.ok());
  EXPECT_EQ(tally.error().code, Code::invalid_model);
  EXPECT_THAT(tally.error().message, HasSubstr("'" + node + "'"));
  EXPECT_THAT(tally.error().message, HasSubstr("variance + epsilon is 0"));
  EXPECT_THAT(tally.error().message, HasSubstr("channel 1"));
}

struct Refusal {
  const char* name;
  const char* text;
  const char* why;  // part of the reason
  int left;
  bool numbers = true;  // the oracle knows the operators
};
#define CONV(x) \
  "conv(" x ", f32[2,1,1,1]{1,-2}) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]"
const Refusal kRefusals[] = {
    {"SecondReader",
     "x: f32[1,1,2,2]\nc = " CONV("x") "\ny1 = " BN("c", "2") "\ny2 = relu(c)\nreturn y1, y2",
     "'c' is also read by 'y2'", 1},
    {"GraphOutput", "x: f32[1,1,2,2]\nc = " CONV("x") "\ny1 = " BN("c", "2") "\nreturn y1, c",
     "'c' is also a graph output", 1},
    {"LiveStatistics",
     "x: f32[1,1,2,2]\nmean: f32[2]\nc = " CONV(
         "x") "\ny = batch_norm(c, random:f32[2], random:f32[2], mean, "
              "random_positive:f32[2])\nreturn y",
     "its mean 'mean' is not a constant", 1},
    {"Training",
     "x: f32[n,3]\nh = linear(x, random:f32[3,3])\ny, m, v = batch_norm(h, random:f32[3], "
     "random:f32[3], random:f32[3], random_positive:f32[3]) training=true\nreturn y, m, v",
     "training_mode=1", 1, false},
    {"OtherAxis", "x: f32[2,5,4]\nh = linear(x, random:f32[3,4])\ny = " BN("h", "5") "\nreturn y",
     "axis 1 of the output", 1},
    {"Relu", "x: f32[1,1,2,2]\nc = " CONV("x") "\nr = relu(c)\ny = " BN("r", "2") "\nreturn y",
     "'r' (relu) stands in front", 0},
    {"QuantizedWeight",
     "x: u8[4,8] @(0.05,128)\nh: f32[4,3] = linear(x, random:s8[3,8] @channel(0))\ny = " BN(
         "h", "3") "\nreturn y",
     "is already quantized", 1, false},
    {"MixedChannels",
     "x: f32[2,2,3,3]\nh = conv(x, random:f32[4,2,2,2]) kernel=[2,2] strides=[1,1] pads=[0,0,0,0] "
     "dilations=[1,1]\nf = flatten(h)\ny = " BN("f", "16") "\nreturn y",
     "do not stay on one axis", 1},
};
void PrintTo(const Refusal& c, std::ostream* out) { *out << c.name; }
class Refuses : public testing::TestWithParam<Refusal> {};
TEST_P(Refuses, WithAReason) {
  const Refusal& c = GetParam();
  const Ran ran = run_passes(stage("fold").passes, c.text, {}, c.numbers);
  EXPECT_THAT(reasons(ran.tally.declined), Contains(HasSubstr(c.why)));
  EXPECT_EQ(batch_norms_left(ran.graph), c.left) << graph::to_text(ran.graph);
}
INSTANTIATE_TEST_SUITE_P(Every, Refuses, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FoldBatchNorm, OneReasonIsEnough) {
  const Ran ran = run_passes(stage("fold").passes, kRefusals[0].text);
  EXPECT_THAT(reasons(ran.tally.declined), ElementsAre("'c' is also read by 'y2'"));
}

struct Unfolded {
  const char* name;
  const char* text;
  const char* why;
  const char* change;
};
const Unfolded kUnfolded[] = {
    {"AnotherReader", kRefusals[0].text, "'c' is also read by 'y2'",
     "let nothing but the BatchNorm read 'c'"},
    {"BehindAnActivation",
     "x: f32[1,4]\nc = linear(x, random:f32[4,4]) activation=clip a=0 b=inf\ny = " BN(
         "c", "4") "\nreturn y",
     "an activation is already part", "in front of the activation"},
    {"AnotherAxis", "x: f32[2,5,4]\nh = linear(x, random:f32[3,4])\ny = " BN("h", "5") "\nreturn y",
     "axis 1 of the output", "follow its layer directly"},
    {"InFrontOfPadding",
     "x: f32[1,2,4,4]\nr = relu(x)\nb = " BN(
         "r", "2") "\ny = conv(b, random:f32[3,2,3,3]) kernel=[3,3] "
                   "strides=[1,1] pads=[1,1,1,1] dilations=[1,1]\nreturn y",
     "pads with zeros", "behind the layer that reads it"},
    {"NoLayerAround", "x: f32[2,3,4,4]\nb = " BN("x", "3") "\ny = sigmoid(b)\nreturn y",
     "not computed by a linear layer", "directly behind a convolution"},
    {"Training",
     "x: f32[4,3]\nh = linear(x, random:f32[3,3])\ny = batch_norm(h, random:f32[3], random:f32[3], "
     "random:f32[3], "
     "random_positive:f32[3]) training=true\nreturn y",
     "training", "evaluation mode"},
};
TEST(UnfoldedBatchNorms, NameTheReasonAndWhatToChange) {
  for (const Unfolded& c : kUnfolded) {
    const bool runs = std::string_view(c.name) != "Training";
    const Ran ran = run_passes(stage("fold").passes, c.text, {}, runs);
    const auto left = unfolded_batch_norms(ran.graph, ran.tally.declined);
    ASSERT_EQ(left.size(), 1u) << c.name << "\n" << graph::to_text(ran.graph);
    EXPECT_THAT(left[0].why, HasSubstr(c.why)) << c.name;
    EXPECT_THAT(left[0].change, HasSubstr(c.change)) << c.name;
    EXPECT_EQ(left[0].node, left[0].tensor) << c.name;  // text graphs name nodes so
    EXPECT_NE(ran.graph.find_value(left[0].tensor), graph::kNoValue) << c.name;
  }
}

TEST(UnfoldedBatchNorms, ThereAreNoneWhereTheyFoldOrBecameAQuantizer) {
  const Ran ran = run_passes(stage("fold").passes, kCases[1].text);
  EXPECT_TRUE(unfolded_batch_norms(ran.graph, ran.tally.declined).empty());
  const graph::Graph quantizer = parsed(
      "x: f32[1,2,2,2]\ny: u8[1,2,2,2] @(0.1,128) = affine(x, f32[2]{1,2}, f32[2]{0,1}) axis=1 "
      "from_batch_norm=true\nreturn y");
  EXPECT_TRUE(unfolded_batch_norms(quantizer, {}).empty());
}

TEST(FoldBatchNorm, AloneBecomesAnAffine) {
  const Ran ran = run_passes(stage("fold").passes,
                             "x: f32[2,3,4,4]\nb = " BN("x", "3") "\ny = sigmoid(b)\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("affine", "sigmoid"));
  EXPECT_EQ(batch_norms_left(ran.graph), 0);
  EXPECT_TRUE(std::get<graph::Affine>(ran.graph.node(0).op).from_batch_norm);
}

TEST(FoldBatchNorm, BetweenTransposesWithoutALayerTheTransposesGo) {
  const Ran ran = run_passes(stage("fold").passes, "x: f32[b,t,5]\nr = relu(x)\nt1 = transpose(r) perm=[0,2,1]\na = " BN("t1", "5") "\nt2 = transpose(a) perm=[0,2,1]\ny = unary(t2) kind=tanh\nz = relu(t2)\nreturn y, z");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("relu", "affine", "tanh", "relu"));
  EXPECT_EQ(std::get<graph::Affine>(ran.graph.node(1).op).axis, 2);
}

TEST(FoldBatchNorm, TwoAloneBecomeOneAffine) {
  const Ran ran = run_passes(stage("fold").passes, "x: f32[n,5]\na = " BN("x", "5") "\nb = " BN(
                                                       "a", "5") "\ny = relu(b)\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("affine", "relu"));
}

}  // namespace
}  // namespace fold8::fusion
