// Norms and activations as exporters write them: the operator they stand for, the same numbers, and
// what is no such thing.
#include "fusion/passes/passes.h"
#include "tests/fusion/graph_testing.h"

namespace fold8::fusion {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

struct Case {
  const char* name;
  const char* text;  // the lines between "x" and "return y"; x is f32[n,3,16]
  const char* result;
};
std::string whole(const char* lines) {
  return std::string("x: f32[n,3,16]\n") + lines + "\nreturn y";
}

#define MEAN(y, x) y " = reduce(" x ") kind=mean axes=[2]\n"
#define BIN(y, k, a, b) y " = binary(" a ", " b ") kind=" k "\n"
#define UN(y, k, x) y " = unary(" x ") kind=" k "\n"
#define EPS "f32[]{1e-05}"
#define D16 "random:f32[16]"

const Case kCases[] = {
    {"LayerNormPowSqrtDiv",
     MEAN("m", "x") BIN("d", "sub", "x", "m") BIN("q", "pow", "d", "f32[]{2}") MEAN("v", "q")
         BIN("e", "add", "v", EPS) UN("s", "sqrt", "e") BIN("n", "div", "d", "s")
             BIN("g", "mul", "n", D16) BIN("y", "add", "g", D16),
     "layer_norm"},
    {"LayerNormMulReciprocal",
     MEAN("m", "x") BIN("d", "sub", "x", "m") BIN("q", "mul", "d", "d") MEAN("v", "q")
         BIN("e", "add", "f32[1]{1e-05}", "v") UN("s", "sqrt", "e") UN("r", "reciprocal", "s")
             BIN("n", "mul", "r", "d") BIN("g", "mul", D16, "n") BIN("y", "add", D16, "g"),
     "layer_norm"},
    {"LayerNormScaleAndShift",
     MEAN("m", "x") BIN("d", "sub", "x", "m") BIN("q", "mul", "d", "d") MEAN("v", "q")
         BIN("e", "add", "v", EPS) UN("s", "sqrt", "e") UN("r", "reciprocal", "s")
             BIN("g", "mul", "r", D16) BIN("a", "mul", "x", "g") BIN("b", "mul", "m", "g")
                 BIN("c", "sub", D16, "b") BIN("y", "add", "a", "c"),
     "layer_norm"},
    {"LayerNormTwoSubsPowHalf",
     MEAN("m", "x") BIN("d", "sub", "x", "m") BIN("q", "pow", "d", "f32[]{2}") MEAN("v", "q")
         BIN("d2", "sub", "x", "m") BIN("e", "add", "v", EPS) BIN("s", "pow", "e", "f32[]{0.5}")
             BIN("n", "div", "d2", "s") BIN("g", "mul", "n", D16) BIN("y", "add", "g", D16),
     "layer_norm"},
    {"LayerNormBare",
     MEAN("m", "x") BIN("d", "sub", "x", "m") BIN("q", "mul", "d", "d") MEAN("v", "q")
         BIN("e", "add", "v", EPS) UN("s", "sqrt", "e") BIN("y", "div", "d", "s"),
     "layer_norm"},
    {"LayerNormTwoAxesFromOperand",
     "m = reduce(x, s64{-2,-1}) kind=mean\n" BIN("d", "sub", "x", "m") BIN(
         "q", "mul", "d", "d") "v = reduce(q, s64{1,2}) kind=mean\n" BIN("e", "add", "v", EPS)
         UN("s", "sqrt", "e") BIN("n", "div", "d", "s") BIN("y", "mul", "n", "random:f32[3,16]"),
     "layer_norm"},
    {"RmsPowSqrtDiv",
     BIN("q", "pow", "x", "f32[]{2}") MEAN("v", "q") BIN("e", "add", "v", "f32[]{1e-06}")
         UN("s", "sqrt", "e") BIN("n", "div", "x", "s") BIN("y", "mul", "n", D16),
     "rms_norm"},
    {"RmsMulReciprocal",
     BIN("q", "mul", "x", "x") MEAN("v", "q") BIN("e", "add", "v", "f32[1]{1e-06}")
         UN("s", "sqrt", "e") UN("r", "reciprocal", "s") BIN("n", "mul", "x", "r")
             BIN("y", "mul", D16, "n"),
     "rms_norm"},
    {"RmsOneOverSqrtCasts",
     "c = cast(x) to=f32\n" BIN("q", "pow", "c", "f32[1]{2}") MEAN("v", "q")
         BIN("e", "add", "v", "f32[]{1e-06}") UN("s", "sqrt", "e") BIN("r", "div", "f32[]{1}", "s")
             BIN("n", "mul", "c", "r") "k = cast(n) to=f32\n" BIN("y", "mul", D16, "k"),
     "rms_norm"},
    {"RmsPowMinusHalf",
     BIN("q", "mul", "x", "x") MEAN("v", "q") BIN("e", "add", "v", "f32[]{1e-06}")
         BIN("r", "pow", "e", "f32[]{-0.5}") BIN("n", "mul", "x", "r") BIN("y", "mul", "n", D16),
     "rms_norm"},
    {"RmsScaleFirst",
     BIN("q", "mul", "x", "x") MEAN("v", "q") BIN("e", "add", "v", "f32[]{1e-06}")
         UN("s", "sqrt", "e") BIN("r", "div", D16, "s") BIN("y", "mul", "r", "x"),
     "rms_norm"},
    {"GeluDivErf",
     BIN("a", "div", "x", "f32[]{1.4142135}") UN("e", "erf", "a") BIN("p", "add", "e", "f32[]{1}")
         BIN("m", "mul", "x", "p") BIN("y", "mul", "m", "f32[]{0.5}"),
     "gelu_erf"},
    {"GeluMulErf",
     BIN("h", "mul", "f32[]{0.5}", "x") BIN("a", "mul", "x", "f32[]{0.70710677}")
         UN("e", "erf", "a") BIN("p", "add", "f32[]{1}", "e") BIN("y", "mul", "h", "p"),
     "gelu_erf"},
    {"GeluHalfInside",
     BIN("a", "mul", "f32[1]{0.70710677}", "x") UN("e", "erf", "a")
         BIN("p", "add", "e", "f32[1]{1}") BIN("h", "mul", "p", "f32[1]{0.5}")
             BIN("y", "mul", "x", "h"),
     "gelu_erf"},
    {"GeluHalfTwice",
     BIN("a", "mul", "f32[1]{0.70710677}", "x") UN("e", "erf", "a")
         BIN("h", "mul", "e", "f32[1]{0.5}") BIN("p", "add", "h", "f32[1]{0.5}")
             BIN("y", "mul", "x", "p"),
     "gelu_erf"},
    {"GeluTanhPow",
     BIN("c", "pow", "x", "f32[]{3}") BIN("k", "mul", "c", "f32[]{0.044715}")
         BIN("a", "add", "x", "k") BIN("i", "mul", "a", "f32[]{0.7978846}")
             BIN("h", "mul", "x", "f32[]{0.5}") UN("t", "tanh", "i")
                 BIN("p", "add", "t", "f32[]{1}") BIN("y", "mul", "h", "p"),
     "gelu_tanh"},
    {"GeluTanhThreeFactors",
     BIN("k", "mul", "f32[]{0.044715}", "x") BIN("q", "mul", "x", "k") BIN("c", "mul", "x", "q")
         BIN("a", "add", "x", "c") BIN("i", "mul", "f32[]{0.7978846}", "a") UN("t", "tanh", "i")
             BIN("p", "add", "f32[]{1}", "t") BIN("h", "mul", "f32[]{0.5}", "p")
                 BIN("y", "mul", "x", "h"),
     "gelu_tanh"},
    {"GeluTanhCube",
     BIN("a", "mul", "f32[]{0.7978846}", "x") BIN("q", "mul", "x", "x")
         BIN("k", "mul", "q", "f32[]{0.044715}") BIN("o", "add", "f32[]{1}", "k")
             BIN("i", "mul", "a", "o") UN("t", "tanh", "i") BIN("p", "add", "f32[]{1}", "t")
                 BIN("h", "mul", "f32[]{0.5}", "p") BIN("y", "mul", "h", "x"),
     "gelu_tanh"},
    {"HardSwishClipDiv",
     BIN("a", "add", "x", "f32[]{3}") "c = unary(a) kind=clip a=0 b=6\n" BIN("m", "mul", "x", "c")
         BIN("y", "div", "m", "f32[]{6}"),
     "hard_swish"},
    {"HardSwishClipMul",
     BIN("a", "add", "f32[1]{3}", "x") "c = unary(a) kind=clip a=0 b=6\n" BIN(
         "s", "mul", "c", "f32[]{0.16666667}") BIN("y", "mul", "x", "s"),
     "hard_swish"},
    {"HardSwishMinMax",
     BIN("a", "add", "x", "f32[]{3}") BIN("l", "max", "a", "f32[]{0}") BIN(
         "c", "min", "l", "f32[]{6}") BIN("s", "div", "c", "f32[]{6}") BIN("y", "mul", "x", "s"),
     "hard_swish"},
    {"HardSwishHardSigmoid",
     "s = unary(x) kind=hard_sigmoid a=0.16666667 b=0.5\n" BIN("y", "mul", "s", "x"), "hard_swish"},
    {"HardSwishXOverSix",
     BIN("a", "add", "x", "f32[]{3}") "c = unary(a) kind=clip a=0 b=6\n" BIN(
         "s", "div", "x", "f32[]{6}") BIN("y", "mul", "s", "c"),
     "hard_swish"},
    {"HardSigmoidClipDiv",
     BIN("a", "add", "x", "f32[]{3}") "c = unary(a) kind=clip a=0 b=6\n" BIN("y", "div", "c",
                                                                             "f32[]{6}"),
     "hard_sigmoid"},
    {"HardSigmoidClip01",
     BIN("a", "mul", "x", "f32[]{0.2}")
         BIN("b", "add", "a", "f32[]{0.5}") "y = unary(b) kind=clip a=0 b=1\n",
     "hard_sigmoid"},
    {"SiluSigmoid", UN("s", "sigmoid", "x") BIN("y", "mul", "x", "s"), "silu"},
    {"SiluExp",
     UN("g", "neg", "x") UN("e", "exp", "g") BIN("o", "add", "f32[]{1}", "e")
         BIN("y", "div", "x", "o"),
     "silu"},
    {"SiluTanh",
     BIN("h", "mul", "x", "f32[]{0.5}") UN("t", "tanh", "h") BIN("k", "mul", "t", "f32[]{0.5}")
         BIN("s", "add", "k", "f32[]{0.5}") BIN("y", "mul", "s", "x"),
     "silu"},
    {"QuickGelu",
     BIN("a", "mul", "x", "f32[]{1.702}") UN("s", "sigmoid", "a") BIN("y", "mul", "x", "s"),
     "silu"},
    {"SigmoidExp",
     UN("g", "neg", "x") UN("e", "exp", "g") BIN("o", "add", "e", "f32[]{1}")
         BIN("y", "div", "f32[]{1}", "o"),
     "sigmoid"},
    {"Mish",
     UN("e", "exp", "x") BIN("o", "add", "e", "f32[]{1}") UN("l", "log", "o") UN("t", "tanh", "l")
         BIN("y", "mul", "x", "t"),
     "mish"},
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
class Recognizes : public testing::TestWithParam<Case> {};
TEST_P(Recognizes, OneOperator) {
  const Case& c = GetParam();
  const Ran ran = run_passes(stage("canonicalize").passes, whole(c.text));
  EXPECT_THAT(op_names(ran.graph), ElementsAre(c.result)) << graph::to_text(ran.graph);
  EXPECT_EQ(ran.graph.value(ran.graph.outputs[0]).name, "y");
}
INSTANTIATE_TEST_SUITE_P(Every, Recognizes, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(RecognizeNorm, KeepsEpsilonAndAxis) {
  const Ran ran = run_passes(stage("canonicalize").passes, whole(kCases[5].text));
  const auto& norm = std::get<graph::Norm>(only_node(ran.graph).op);
  EXPECT_EQ(norm.axis, 1);
  EXPECT_EQ(norm.epsilon, 1e-5f);
}

// A mean over the middle axis is no LayerNorm.
TEST(RecognizeNorm, RefusesOtherAxes) {
  const Ran ran = run_passes(
      stage("canonicalize").passes,
      whole("m = reduce(x) kind=mean axes=[1]\n" BIN("d", "sub", "x", "m") BIN(
          "q", "mul", "d", "d") "v = reduce(q) kind=mean axes=[1]\n" BIN("e", "add", "v", EPS)
                UN("s", "sqrt", "e") BIN("y", "div", "d", "s")));
  EXPECT_THAT(reasons(ran.tally.declined), Contains(HasSubstr("does not reduce the last axes")));
}
TEST(RecognizeNorm, RefusesMeanAndVarianceOverDifferentAxes) {
  const char* kText = "m = reduce(x) kind=mean axes=[2]\n" BIN("d", "sub", "x", "m")
      BIN("q", "mul", "d", "d") "v = reduce(q) kind=mean axes=[1,2]\n" BIN("e", "add", "v", EPS)
          UN("s", "sqrt", "e") BIN("y", "div", "d", "s");
  const Ran ran = run_passes({&recognize_layer_norm}, whole(kText));
  EXPECT_THAT(reasons(ran.tally.declined), Contains(HasSubstr("different axes")));
  // What remains is an RMSNorm of the difference.
  EXPECT_THAT(op_names(run_passes(stage("canonicalize").passes, whole(kText)).graph),
              ElementsAre("reduce_mean", "sub", "rms_norm"));
}
TEST(RecognizeNorm, RefusesWhenTheDifferenceIsReadElsewhere) {
  const Ran ran =
      run_passes({&recognize_layer_norm},
                 whole(MEAN("m", "x") BIN("d", "sub", "x", "m") BIN("q", "mul", "d", "d")
                           MEAN("v", "q") BIN("e", "add", "v", EPS) UN("s", "sqrt", "e")
                               BIN("n", "div", "d", "s") BIN("y", "add", "n", "d")));
  EXPECT_THAT(reasons(ran.tally.declined), Contains("'d' is also read by 'y'"));
}
TEST(RecognizeNorm, ABatchedScaleIsNoGamma) {
  const Ran ran =
      run_passes({&absorb_norm_scale},
                 "x: f32[2,3,16]\nn = norm(x)\ny = binary(n, random:f32[3,16]) kind=mul\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("layer_norm", "mul"));
}

TEST(RecognizeGroupNorm, FromInstanceNorm) {
  const Ran ran = run_passes(stage("canonicalize").passes, R"(
x: f32[n,4,3,3]
r = reshape(x, s64{0,2,-1})
i = norm(r, f32[2]{1,1}, f32[2]{0,0}) kind=instance
b = reshape(i, s64{-1,4,3,3})
m = binary(b, random:f32[4,1,1]) kind=mul
y = binary(m, random:f32[4,1,1]) kind=add
return y
)");
  const auto& norm = std::get<graph::Norm>(only_node(ran.graph).op);
  EXPECT_EQ(norm.kind, graph::NormKind::group);
  EXPECT_EQ(norm.groups, 2);
  EXPECT_FALSE(norm.affine_per_group);
}
TEST(RecognizeGroupNorm, KeepsAnAffineOfTheGroups) {
  const Ran ran =
      run_passes(stage("canonicalize").passes,
                 "x: f32[n,4,3,3]\nr = reshape(x, s64{0,2,-1})\ni = norm(r, random:f32[2], "
                 "random:f32[2]) kind=instance\ny = reshape(i, s64{-1,4,3,3})\nreturn y");
  EXPECT_TRUE(std::get<graph::Norm>(only_node(ran.graph).op).affine_per_group);
}
TEST(RecognizeGroupNorm, RefusesAnotherShapeBehindIt) {
  const Ran ran =
      run_passes(stage("canonicalize").passes,
                 "x: f32[2,4,3,3]\nr = reshape(x, s64{0,2,-1})\ni = norm(r, random:f32[2], "
                 "random:f32[2]) kind=instance\ny = reshape(i, s64{2,4,9,1})\nreturn y");
  EXPECT_THAT(reasons(ran.tally.declined), Contains(HasSubstr("does not have x's shape again")));
}

TEST(RecognizeActivations, OtherNumbersAreOtherFunctions) {
  const Ran ran = run_passes(
      stage("canonicalize").passes,
      whole(BIN("a", "div", "x", "f32[]{1.5}") UN("e", "erf", "a") BIN("p", "add", "e", "f32[]{1}")
                BIN("m", "mul", "x", "p") BIN("y", "mul", "m", "f32[]{0.5}")));
  EXPECT_THAT(op_names(ran.graph), Contains("erf"));
}
TEST(RecognizeActivations, AnInnerOutputStops) {
  const Ran ran =
      run_passes(stage("canonicalize").passes,
                 "x: f32[4]\ns = unary(x) kind=sigmoid\ny = binary(x, s) kind=mul\nreturn y, s");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("sigmoid", "mul"));
}

}  // namespace
}  // namespace fold8::fusion
