// Constants, operators without effect, data movement, clips, products that are linear layers.
#include "fusion/passes/passes.h"
#include "tests/fusion/graph_testing.h"

namespace fold8::fusion {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ----------------------------------------------------------------------------------------------
// fold_constants

TEST(FoldConstants, EvaluatesWhatDependsOnConstantsOnly) {
  const Ran ran = run_passes({&fold_constants}, R"(
x: f32[2,3]
w = transpose(f32[2,3]{1,2,3,4,5,6}) perm=[1,0]
v = binary(w, f32[1]{2}) kind=mul
y = matmul(x, v)
return y
)");
  const graph::Node& product = only_node(ran.graph);
  EXPECT_THAT(floats(ran.graph, product.inputs[1]), ElementsAre(2, 8, 4, 10, 6, 12));
  EXPECT_EQ(ran.graph.value(product.inputs[1]).name, "v");
}

TEST(FoldConstants, KnowsShapesAndPartsOfThem) {
  const Ran ran = run_passes({&fold_constants}, R"(
x: f32[batch,3,8]
s = shape_of(x)
c = gather(s, s64[1]{2}) axis=0
d = slice(s, s64{1}, s64{3}, s64{0})
y = expand(f32[1]{1}, d)
z = reshape(x, c)
return y, c
)",
                             {}, false);
  EXPECT_THAT(op_names(ran.graph), IsEmpty());
  const auto c = ran.graph.constant<std::int64_t>(ran.graph.find_value("c"));
  EXPECT_THAT(std::vector<std::int64_t>(c.begin(), c.end()), ElementsAre(8));
  EXPECT_EQ(ran.graph.type(ran.graph.find_value("y")).shape, Shape({3, 8}));
}

TEST(FoldConstants, AnUnknownExtentStays) {
  const Ran ran = run_passes(
      {&fold_constants},
      "x: f32[batch,3]\ns = shape_of(x)\nc = gather(s, s64[1]{0}) axis=0\nreturn c", {}, false);
  EXPECT_THAT(op_names(ran.graph), ElementsAre("shape_of", "gather"));
}

TEST(FoldConstants, DoesNotFillTheMemory) {
  const Ran ran = run_passes({&fold_constants},
                             "x: f32[2]\nbig = expand(f32[1]{1}, s64{100000,100000})\nt = "
                             "tile(f32[1]{1}, s64{3000000})\nreturn x, big, t",
                             {}, false);
  EXPECT_THAT(op_names(ran.graph), ElementsAre("expand", "tile"));
  EXPECT_THAT(reasons(ran.tally.declined), Contains(HasSubstr("much larger than its inputs")));
}

TEST(FoldConstants, LeavesQuantizedConstantsAlone) {
  const Ran ran = run_passes({&fold_constants},
                             "x: f32[2]\nw = const s8[2]@(0.5,0){1,2}\nd: f32[2] = "
                             "dequantize(w)\ny = binary(x, d) kind=add\nreturn y",
                             {}, false);
  EXPECT_THAT(op_names(ran.graph), ElementsAre("dequantize", "add"));
}

TEST(FoldConstants, ExceptForFloatModelsOfQuantizedFiles) {
  const Ran ran = run_passes({&dequantize_constants},
                             "x: f32[2]\nw = const s8[2]@(0.5,0){1,2}\nd: f32[2] = "
                             "dequantize(w)\ny = binary(x, d) kind=add\nreturn y",
                             {}, false);
  EXPECT_THAT(floats(ran.graph, only_node(ran.graph).inputs[1]), ElementsAre(0.5f, 1.0f));
}

TEST(MergeConstants, KeepsEqualBytesOnce) {
  const Ran ran =
      run_passes({&merge_constants},
                 "x: f32[2]\na = binary(x, f32[2]{1,2}) kind=add\nb = binary(a, f32[2]{1,2}) "
                 "kind=mul\nc = binary(b, f32[1,2]{1,2}) kind=mul\nreturn c");
  EXPECT_EQ(ran.graph.node(0).inputs[1], ran.graph.node(1).inputs[1]);
  EXPECT_NE(ran.graph.node(1).inputs[1], ran.graph.node(2).inputs[1]);  // another shape
}

// ----------------------------------------------------------------------------------------------
// drop_noop, merge_movement

TEST(DropNoop, DropsWhatDoesNothing) {
  for (const char* line :
       {"identity(r)", "cast(r) to=f32", "reshape(r, s64{2,3,4})", "transpose(r) perm=[0,1,2]",
        "squeeze(r)", "binary(r, f32[]{1}) kind=mul", "binary(f32[4]{0,0,0,0}, r) kind=add",
        "binary(r, f32[1]{1}) kind=div", "binary(r, f32[]{1}) kind=pow"}) {
    const Ran ran = run_passes({&drop_noop}, std::string("x: f32[2,3,4]\nr = relu(x)\nn = ") +
                                                 line + "\ny = unary(n) kind=exp\nreturn y");
    EXPECT_THAT(op_names(ran.graph), ElementsAre("relu", "exp")) << line;
    EXPECT_NE(ran.graph.find_value("r"), graph::kNoValue);
    EXPECT_THAT(ran.graph.node(0).inside, Contains("n")) << line;
  }
  for (const char* line : {"slice(r, s64{0}, s64{1000000}, s64{1})", "pad(r, s64{0,0,0,0,0,0})",
                           "expand(r, s64{3,4})", "tile(r, s64{1,1,1})", "concat(r) axis=1"}) {
    const Ran ran = run_passes({&drop_noop},
                               std::string("x: f32[2,3,4]\nr = relu(x)\nn = ") + line +
                                   "\ny = unary(n) kind=exp\nreturn y",
                               {}, false);
    EXPECT_THAT(op_names(ran.graph), ElementsAre("relu", "exp")) << line;
  }
}

TEST(DropNoop, KeepsWhatDoesSomething) {
  for (const char* line :
       {"slice(r, s64{2}, s64{-1000000}, s64{1}, s64{-1})", "pad(r, s64{1,0,0,-1,0,0})",
        "expand(r, s64{2,2,3,4})", "cast(r) to=f64", "reshape(r, s64{3,2,4})"}) {
    const Ran ran = run_passes(
        {&drop_noop}, std::string("x: f32[2,3,4]\nr = relu(x)\nn = ") + line + "\nreturn n", {},
        false);
    EXPECT_EQ(ran.graph.live_nodes(), 2u) << line;
  }
  // The constant would broadcast x up.
  const Ran ran = run_passes(
      {&drop_noop}, "x: f32[4]\nr = relu(x)\nn = binary(r, f32[2,1]{0,0}) kind=add\nreturn n");
  EXPECT_EQ(ran.graph.live_nodes(), 2u);
}

TEST(DropNoop, KeepsTheNamesOfInputsAndOutputs) {
  const Ran through = run_passes({&drop_noop}, "x: f32[4]\ny = identity(x)\nreturn y");
  EXPECT_EQ(through.graph.live_nodes(), 1u);
  const Ran behind = run_passes({&drop_noop}, "x: f32[4]\nr = relu(x)\ny = identity(r)\nreturn y");
  EXPECT_THAT(op_names(behind.graph), ElementsAre("relu"));
  EXPECT_EQ(behind.graph.value(behind.graph.outputs[0]).name, "y");
  const Ran both = run_passes({&drop_noop}, "x: f32[4]\nr = relu(x)\ny = identity(r)\nreturn y, r");
  EXPECT_EQ(both.graph.live_nodes(), 2u);
}

TEST(MergeMovement, TransposesCompose) {
  const Ran ran = run_passes({&merge_movement, &drop_noop},
                             "x: f32[2,3,4]\na = transpose(x) perm=[1,2,0]\nb = transpose(a) "
                             "perm=[1,2,0]\ny = relu(b)\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("transpose", "relu"));
  const Ran cancelled =
      run_passes({&merge_movement, &drop_noop},
                 "x: f32[b,t,4]\nr = relu(x)\na = transpose(r) perm=[0,2,1]\nb = transpose(a) "
                 "perm=[0,2,1]\ny = unary(b) kind=exp\nz = relu(a)\nreturn y, z");
  EXPECT_THAT(op_names(cancelled.graph),
              testing::UnorderedElementsAre("relu", "exp", "transpose", "relu"));
}

TEST(MergeMovement, ViewsCancelOrBecomeOne) {
  const Ran back = run_passes({&merge_movement},
                              "x: f32[n,3]\nr = relu(x)\nu = unsqueeze(r) axes=[1]\ns = squeeze(u) "
                              "axes=[1]\ny = unary(s) kind=exp\nreturn y");
  EXPECT_THAT(op_names(back.graph), ElementsAre("relu", "exp"));
  const Ran one = run_passes({&merge_movement},
                             "x: f32[2,3,4]\nf = flatten(x)\ny = reshape(f, s64{4,6})\nreturn y");
  EXPECT_THAT(op_names(one.graph), ElementsAre("reshape"));
  // The 0 means the extent 2 of f, and would mean 2 of x by accident only.
  const Ran zero =
      run_passes({&merge_movement},
                 "x: f32[6,4]\nf = reshape(x, s64{2,12})\ny = reshape(f, s64{0,3,4})\nreturn y");
  EXPECT_EQ(zero.graph.live_nodes(), 2u);
}

// ----------------------------------------------------------------------------------------------
// clips

TEST(RecognizeClip, FromMinAndMax) {
  const Ran ran = run_passes({&recognize_clip},
                             "x: f32[9]\na = binary(x, f32[]{-1}) kind=max\ny = "
                             "binary(f32[1]{0.5}, a) kind=min\nreturn y");
  const auto& clip = std::get<graph::Unary>(only_node(ran.graph).op);
  EXPECT_EQ(clip.kind, graph::UnaryKind::clip);
  EXPECT_EQ(clip.a, -1);
  EXPECT_EQ(clip.b, 0.5f);
  EXPECT_THAT(op_names(run_passes({&recognize_clip},
                                  "x: f32[9]\ny = binary(f32[]{0}, x) kind=max\nreturn y")
                           .graph),
              ElementsAre("relu"));
}
TEST(RecognizeClip, InARow) {
  const Ran ran = run_passes({&recognize_clip},
                             "x: f32[9]\na = relu(x)\ny = unary(a) kind=clip a=-1 b=1\nreturn y");
  const auto& clip = std::get<graph::Unary>(only_node(ran.graph).op);
  EXPECT_EQ(clip.a, 0);
  EXPECT_EQ(clip.b, 1);
}
TEST(RecognizeClip, NotByATensor) {
  EXPECT_THAT(op_names(run_passes({&recognize_clip},
                                  "x: f32[2]\ny = binary(x, f32[2]{1,2}) kind=max\nreturn y")
                           .graph),
              ElementsAre("max"));
}

// ----------------------------------------------------------------------------------------------
// linear layers

TEST(MatMulToLinear, TransposesTheConstant) {
  const Ran ran = run_passes({&matmul_to_linear},
                             "x: f32[n,2]\ny = matmul(x, f32[2,3]{1,2,3,4,5,6}) alpha=2\nreturn y");
  const graph::Node& linear = only_node(ran.graph);
  EXPECT_EQ(ran.graph.type(linear.inputs[1]).shape, Shape({3, 2}));
  EXPECT_THAT(floats(ran.graph, linear.inputs[1]), ElementsAre(2, 8, 4, 10, 6, 12));
}
TEST(MatMulToLinear, TakesBatchesOfWeights) {
  const Ran ran = run_passes({&matmul_to_linear},
                             "x: f32[n,4,5,8]\ny = matmul(x, random:f32[4,8,16])\nreturn y");
  EXPECT_EQ(ran.graph.type(only_node(ran.graph).inputs[1]).shape, Shape({4, 16, 8}));
}
TEST(MatMulToLinear, DoesNotTakeAVectorOrNewAxes) {
  const Ran vector = run_passes({&matmul_to_linear},
                                "x: f32[n,8]\ny = matmul(x, random:f32[8])\nreturn y", {}, false);
  EXPECT_THAT(reasons(vector.tally.declined), ElementsAre(HasSubstr("is a vector")));
  const Ran axes = run_passes({&matmul_to_linear},
                              "x: f32[5,8]\ny = matmul(x, random:f32[4,8,3])\nreturn y", {}, false);
  EXPECT_THAT(reasons(axes.tally.declined), ElementsAre(HasSubstr("more axes")));
}

TEST(FoldBias, InEverySpelling) {
  for (const char* text : {"x: f32[n,6]\nh = linear(x, random:f32[4,6])\ny = binary(h, "
                           "random:f32[4]) kind=add\nreturn y",
                           "x: f32[n,6]\nh = linear(x, random:f32[4,6], random:f32[4])\ny = "
                           "binary(random:f32[1,4], h) kind=add\nreturn y",
                           "x: f32[n,6]\nh = linear(x, random:f32[4,6])\ny = binary(h, "
                           "random:f32[]) kind=add\nreturn y",
                           "x: f32[n,6]\nh = linear(x, random:f32[4,6])\ny = binary(h, "
                           "random:f32[4]) kind=sub\nreturn y"})
    EXPECT_THAT(op_names(run_passes({&fold_bias}, text).graph), ElementsAre("linear")) << text;
  for (const char* transposed : {"", " transposed=true"}) {
    const std::string text = std::string(
                                 "x: f32[1,4,5,5]\nh = conv(x, random:f32[4,4,1,1]) kernel=[1,1] "
                                 "strides=[1,1] pads=[0,0,0,0] dilations=[1,1]") +
                             transposed + "\ny = binary(h, random:f32[1,4,1,1]) kind=add\nreturn y";
    EXPECT_EQ(run_passes({&fold_bias}, text).graph.live_nodes(), 1u);
  }
}
TEST(FoldBias, NotWhatVariesOverRows) {
  const Ran ran = run_passes({&fold_bias},
                             "x: f32[3,6]\nh = linear(x, random:f32[4,6])\ny = binary(h, "
                             "random:f32[3,4]) kind=add\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("linear", "add"));
}

}  // namespace
}  // namespace fold8::fusion
