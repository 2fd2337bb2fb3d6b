// One meaning, several opsets: attributes that became inputs give the same operator.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/onnx/import_support.h"

namespace fold8::onnx_io {
namespace {

using namespace fold8::testing;
using ::testing::ElementsAre;

TEST(Opset, ClipBoundsAsAttributesAndInputs) {
  const auto old = imported(ModelWriter(6)
                                .input("x", {"2"})
                                .node("Clip", {"x"}, {"y"}, {attribute("max", 6.0f)})
                                .output("y"));
  const auto now = imported(ModelWriter(13)
                                .input("x", {"2"})
                                .initializer(floats("h", {}, {6}))
                                .node("Clip", {"x", "", "h"}, {"y"})
                                .output("y"));
  for (const auto* g : {&old, &now}) {
    const auto& op = std::get<graph::Unary>(first<graph::Unary>(*g)->op);
    EXPECT_EQ(op.kind, graph::UnaryKind::clip);
    EXPECT_EQ(op.a, -INFINITY);
    EXPECT_EQ(op.b, 6);
  }
  const auto live = imported(ModelWriter(13)
                                 .input("x", {"2"})
                                 .input("h", {})
                                 .node("Clip", {"x", "", "h"}, {"y"})
                                 .output("y"));
  EXPECT_THAT(operators(live), ElementsAre("min"));
}

TEST(Opset, SliceSplitSqueezeUnsqueezeReduce) {
  const auto old = imported(
      ModelWriter(9)
          .input("x", {"1", "6", "4"})
          .node("Slice", {"x"}, {"s"},
                {attribute("starts", Dims{1}), attribute("ends", Dims{5}),
                 attribute("axes", Dims{1})})
          .node("Split", {"s"}, {"a", "b"}, {attribute("axis", 1), attribute("split", Dims{1, 3})})
          .node("ReduceSum", {"b"}, {"r"}, {attribute("axes", Dims{-1}), attribute("keepdims", 0)})
          .node("Squeeze", {"r"}, {"q"}, {attribute("axes", Dims{0})})
          .node("Unsqueeze", {"q"}, {"y"}, {attribute("axes", Dims{1})})
          .output("y"));
  const auto now = imported(ModelWriter(18)
                                .input("x", {"1", "6", "4"})
                                .initializer(ints("one", {1}, {1}))
                                .initializer(ints("five", {1}, {5}))
                                .initializer(ints("minus_two", {1}, {-2}))
                                .initializer(ints("sizes", {2}, {1, 3}))
                                .initializer(ints("last", {1}, {-1}))
                                .initializer(ints("zero", {1}, {0}))
                                .node("Slice", {"x", "one", "five", "minus_two"}, {"s"})
                                .node("Split", {"s", "sizes"}, {"a", "b"}, {attribute("axis", 1)})
                                .node("ReduceSum", {"b", "last"}, {"r"}, {attribute("keepdims", 0)})
                                .node("Squeeze", {"r", "zero"}, {"q"})
                                .node("Unsqueeze", {"q", "last"}, {"y"})
                                .output("y"));
  for (const auto* g : {&old, &now}) {
    EXPECT_THAT(operators(*g), ElementsAre("slice", "split", "reduce_sum", "squeeze", "unsqueeze"));
    EXPECT_EQ(shape_of(*g, "b"), "[1,3,4]");
    EXPECT_EQ(shape_of(*g, "y"), "[3,1]");
    EXPECT_THAT(std::get<graph::Unsqueeze>(first<graph::Unsqueeze>(*g)->op).axes, ElementsAre(1));
  }
}

TEST(Opset, SoftmaxRowsBefore13) {
  const auto old = imported(
      ModelWriter(11).input("x", {"2", "3", "4"}).node("Softmax", {"x"}, {"y"}).output("y"));
  EXPECT_EQ(std::get<graph::Softmax>(first<graph::Softmax>(old)->op).axis, 1);
  EXPECT_TRUE(std::get<graph::Softmax>(first<graph::Softmax>(old)->op).flatten);
  const auto now = imported(
      ModelWriter(13).input("x", {"2", "3", "4"}).node("Softmax", {"x"}, {"y"}).output("y"));
  EXPECT_EQ(std::get<graph::Softmax>(first<graph::Softmax>(now)->op).axis, 2);
  EXPECT_FALSE(std::get<graph::Softmax>(first<graph::Softmax>(now)->op).flatten);
}

TEST(Opset, UpsampleAndResize) {
  const auto upsample =
      imported(ModelWriter(9)
                   .input("x", {"1", "2", "3", "3"})
                   .initializer(floats("s", {4}, {1, 1, 2, 2}))
                   .node("Upsample", {"x", "s"}, {"y"}, {attribute("mode", "linear")})
                   .output("y"));
  const auto& op = std::get<graph::Resize>(first<graph::Resize>(upsample)->op);
  EXPECT_EQ(op.mode, graph::ResizeMode::linear);
  EXPECT_EQ(op.coordinates, graph::Coordinates::asymmetric);
  EXPECT_EQ(shape_of(upsample, "y"), "[1,2,6,6]");
  const auto resize = imported(ModelWriter(11)
                                   .input("x", {"1", "2", "3", "3"})
                                   .initializer(floats("none", {0}, {}))
                                   .initializer(ints("size", {4}, {1, 2, 5, 7}))
                                   .node("Resize", {"x", "none", "none", "size"}, {"y"})
                                   .output("y"));
  EXPECT_EQ(std::get<graph::Resize>(first<graph::Resize>(resize)->op).coordinates,
            graph::Coordinates::half_pixel);
  EXPECT_EQ(shape_of(resize, "y"), "[1,2,5,7]");
}

TEST(Opset, BroadcastingWithAnAxisIn6) {
  const auto g = imported(
      ModelWriter(6)
          .input("x", {"2", "3", "4"})
          .initializer(floats("b", {3}, {1, 2, 3}))
          .node("Add", {"x", "b"}, {"y"}, {attribute("broadcast", 1), attribute("axis", 1)})
          .output("y"));
  EXPECT_THAT(operators(g), ElementsAre("unsqueeze", "add"));
  EXPECT_EQ(shape_of(g, "y"), "[2,3,4]");
}

TEST(Opset, TopKAndPadOfOldFiles) {
  const auto g = imported(ModelWriter(9)
                              .input("x", {"2", "5"})
                              .node("Pad", {"x"}, {"p"},
                                    {attribute("pads", Dims{0, 1, 0, 1}), attribute("value", 2.0f)})
                              .node("TopK", {"p"}, {"y", "i"}, {attribute("k", 3)})
                              .output("y")
                              .output("i"));
  EXPECT_EQ(shape_of(g, "p"), "[2,7]");
  EXPECT_EQ(shape_of(g, "i"), "[2,3]");
}

TEST(Opset, ShapeArithmeticIsKnownAtImport) {
  const auto g = imported(ModelWriter()
                              .input("x", {"B", "4", "6"})
                              .initializer(ints("zero", {1}, {0}))
                              .initializer(ints("tail", {1}, {-1}))
                              .node("Shape", {"x"}, {"s"})
                              .node("Gather", {"s", "zero"}, {"b"})
                              .node("Concat", {"b", "tail"}, {"t"}, {attribute("axis", 0)})
                              .node("Reshape", {"x", "t"}, {"y"})
                              .output("y"));
  EXPECT_EQ(shape_of(g, "y"), "[B,24]");
}

}  // namespace
}  // namespace fold8::onnx_io
