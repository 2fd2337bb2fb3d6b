// Gemm, MatMul, convolutions.
#include <gmock/gmock.h>

#include "tests/onnx/import_support.h"

namespace fold8::onnx_io {
namespace {

using namespace fold8::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Gemm, ConstantWeightBecomesALinearWithFactorsFoldedIn) {
  const auto g = imported(
      ModelWriter()
          .input("x", {"N", "2"})
          .initializer(floats("b", {2, 3}, {1, 2, 3, 4, 5, 6}))
          .initializer(floats("c", {3}, {1, 2, 3}))
          .node("Gemm", {"x", "b", "c"}, {"y"}, {attribute("alpha", 2.0f), attribute("beta", 0.5f)})
          .output("y"));
  EXPECT_THAT(operators(g), ElementsAre("linear"));
  const graph::Node& n = *first<graph::Linear>(g);
  EXPECT_THAT(g.constant<float>(n.inputs[1]), ElementsAre(2, 8, 4, 10, 6, 12));
  EXPECT_THAT(g.constant<float>(n.inputs[2]), ElementsAre(0.5f, 1, 1.5f));
}

TEST(Gemm, TransposedWeightIsSharedNotCopied) {
  const auto g = imported(ModelWriter()
                              .input("x", {"N", "2"})
                              .initializer(floats("b", {3, 2}, {1, 2, 3, 4, 5, 6}))
                              .node("Gemm", {"x", "b"}, {"y"}, {attribute("transB", 1)})
                              .output("y"));
  EXPECT_EQ(first<graph::Linear>(g)->inputs[1], g.find_value("b"));
}

TEST(Gemm, TransposedInputAndAMatrixBias) {
  const auto g = imported(ModelWriter()
                              .input("x", {"2", "4"})
                              .initializer(floats("b", {2, 1}, {1, 2}))
                              .initializer(floats("c", {4, 1}, {1, 2, 3, 4}))
                              .node("Gemm", {"x", "b", "c"}, {"y"}, {attribute("transA", 1)})
                              .output("y"));
  EXPECT_THAT(operators(g), ElementsAre("transpose", "linear", "add"));
}

TEST(Gemm, ComputedWeightIsAMatMul) {
  const auto g = imported(
      ModelWriter()
          .input("x", {"N", "2"})
          .input("b", {"3", "2"})
          .input("c", {"3"})
          .node("Gemm", {"x", "b", "c"}, {"y"}, {attribute("transB", 1), attribute("beta", 2.0f)})
          .output("y"));
  EXPECT_THAT(operators(g), ElementsAre("matmul", "mul", "add"));
  EXPECT_TRUE(std::get<graph::MatMul>(first<graph::MatMul>(g)->op).transpose_b);
}

TEST(Conv, DefaultsAreFilledIn) {
  const auto g = imported(ModelWriter()
                              .input("x", {"1", "2", "8", "8"})
                              .initializer(floats("w", {4, 2, 3, 3}, std::vector<float>(72)))
                              .node("Conv", {"x", "w"}, {"y"})
                              .output("y"));
  const auto& op = std::get<graph::Conv>(first<graph::Conv>(g)->op);
  EXPECT_THAT(op.kernel, ElementsAre(3, 3));
  EXPECT_THAT(op.strides, ElementsAre(1, 1));
  EXPECT_THAT(op.pads, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(shape_of(g, "y"), "[1,4,6,6]");
}

TEST(Conv, SamePaddingIsResolvedWhereItDoesNotDependOnTheSize) {
  const auto conv = [](const char* pad, int stride) {
    return imported(
        ModelWriter()
            .input("x", {"1", "2", "H", "W"})
            .initializer(floats("w", {4, 2, 4, 3}, std::vector<float>(96)))
            .node("Conv", {"x", "w"}, {"y"},
                  {attribute("auto_pad", pad), attribute("strides", Dims{stride, stride})})
            .output("y"));
  };
  const auto upper = conv("SAME_UPPER", 1), lower = conv("SAME_LOWER", 1),
             strided = conv("SAME_UPPER", 2);
  EXPECT_THAT(std::get<graph::Conv>(first<graph::Conv>(upper)->op).pads, ElementsAre(1, 1, 2, 1));
  EXPECT_THAT(std::get<graph::Conv>(first<graph::Conv>(lower)->op).pads, ElementsAre(2, 1, 1, 1));
  EXPECT_EQ(std::get<graph::Conv>(first<graph::Conv>(upper)->op).auto_pad, graph::AutoPad::none);
  EXPECT_EQ(std::get<graph::Conv>(first<graph::Conv>(strided)->op).auto_pad,
            graph::AutoPad::same_upper);
}

TEST(Conv, ImpossibleAttributesAreErrors) {
  const auto conv = [](Message a) {
    return import_error(ModelWriter()
                            .input("x", {"1", "2", "8", "8"})
                            .initializer(floats("w", {4, 2, 3, 3}, std::vector<float>(72)))
                            .node("Conv", {"x", "w"}, {"y"}, {std::move(a)}, "conv1")
                            .output("y"));
  };
  for (const Error& e :
       {conv(attribute("strides", Dims{0, 1})), conv(attribute("dilations", Dims{1, -1})),
        conv(attribute("pads", Dims{1, 1})), conv(attribute("group", 0)),
        conv(attribute("auto_pad", "SOMEHOW")), conv(attribute("kernel_shape", Dims{3}))}) {
    EXPECT_EQ(e.code, Code::invalid_model);
    EXPECT_THAT(e.message, HasSubstr("'conv1'"));
  }
}

TEST(MatMul, HalfPrecisionIsComputedInF32) {
  const auto g =
      imported(ModelWriter()
                   .input("x", {"N", "2"}, kFloat16)
                   .initializer(tensor<std::uint16_t>("w", kFloat16, {2, 1}, {0x3c00, 0x4000}))
                   .node("MatMul", {"x", "w"}, {"y"}, {}, "mm")
                   .output("y", {}, kFloat16));
  EXPECT_THAT(operators(g),
              ElementsAre("cast", "matmul", "cast"));  // weights are widened as they are read
  EXPECT_EQ(value_named(g, "y").type.dtype, DType::f16);
}

TEST(MatMul, WrongInnerSizeNamesTheNode) {
  const Error e = import_error(ModelWriter()
                                   .input("x", {"1", "2"})
                                   .initializer(floats("w", {3, 2}, std::vector<float>(6)))
                                   .node("MatMul", {"x", "w"}, {"y"}, {}, "mm")
                                   .output("y"));
  EXPECT_EQ(e.code, Code::invalid_model);
  EXPECT_THAT(e.message, HasSubstr("'mm'"));
}

}  // namespace
}  // namespace fold8::onnx_io
