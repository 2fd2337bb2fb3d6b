// Quantization in files becomes part of types.
#include <gmock/gmock.h>

#include "tests/onnx/import_support.h"

namespace fold8::onnx_io {
namespace {

using namespace fold8::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Message bytes_of(const std::string& name, OnnxType type, const Dims& dims,
                 const std::vector<std::int8_t>& v) {
  return tensor(name, type, dims, v);
}

TEST(Quant, ConstantPairsBecomeTypes) {
  const auto g = imported(ModelWriter()
                              .input("x", {"N", "2"})
                              .initializer(floats("s", {}, {0.5f}))
                              .initializer(bytes_of("z", kUint8, {}, {10}))
                              .node("QuantizeLinear", {"x", "s", "z"}, {"q"})
                              .node("DequantizeLinear", {"q", "s", "z"}, {"y"})
                              .output("y"));
  EXPECT_THAT(operators(g), ElementsAre("quantize", "dequantize"));
  const auto& q = value_named(g, "q");
  EXPECT_EQ(q.type.dtype, DType::u8);
  ASSERT_TRUE(q.type.quant);
  EXPECT_EQ(q.type.quant->scale(), 0.5f);
  EXPECT_EQ(q.type.quant->zero_point(), 10);
  EXPECT_EQ(first<graph::Dequantize>(g)->inputs.size(), 1u);
}

TEST(Quant, UnequalPairsKeepTheirOperands) {
  const auto g = imported(ModelWriter()
                              .input("x", {"N", "2"})
                              .initializer(floats("s", {}, {0.5f}))
                              .initializer(floats("t", {}, {0.25f}))
                              .initializer(bytes_of("z", kUint8, {}, {0}))
                              .node("QuantizeLinear", {"x", "s", "z"}, {"q"})
                              .node("DequantizeLinear", {"q", "t", "z"}, {"y"})
                              .output("y"));
  EXPECT_EQ(first<graph::Dequantize>(g)->inputs.size(), 3u);
  EXPECT_EQ(value_named(g, "q").type.quant->scale(), 0.5f);
}

TEST(Quant, WeightsPerChannelPerGroupAndFourBits) {
  const auto channel =
      imported(ModelWriter()
                   .input("x", {"N", "2"})
                   .initializer(bytes_of("w", kInt8, {2, 3}, {1, 2, 3, -128, 5, 6}))
                   .initializer(floats("s", {3}, {1, 2, 3}))
                   .node("DequantizeLinear", {"w", "s"}, {"r"}, {attribute("axis", -1)})
                   .node("MatMul", {"x", "r"}, {"y"})
                   .output("y"));
  const auto& w = value_named(channel, "w");
  EXPECT_EQ(w.type.quant->axis(), 1);
  EXPECT_THAT(w.type.quant->scales(), ElementsAre(1, 2, 3));
  const auto group =
      imported(ModelWriter(21)
                   .input("x", {"N", "4"})
                   .initializer(bytes_of("w", kInt4, {4, 2},
                                         {0x21, 0x43, static_cast<std::int8_t>(0x9f), 0x07}))
                   .initializer(floats("s", {2, 2}, {1, 2, 3, 4}))
                   .node("DequantizeLinear", {"w", "s"}, {"r"},
                         {attribute("axis", 0), attribute("block_size", 2)})
                   .node("MatMul", {"x", "r"}, {"y"})
                   .output("y"));
  const auto& four = value_named(group, "w");
  EXPECT_EQ(four.type.dtype, DType::s8);
  EXPECT_THAT(group.constant<std::int8_t>(group.find_value("w")),
              ElementsAre(1, 2, 3, 4, -1, -7, 7, 0));
  EXPECT_EQ(four.type.quant->granularity(), Granularity::per_group);
}

TEST(Quant, OneWeightWithTwoScalesIsTwoConstants) {
  const auto g = imported(ModelWriter()
                              .input("x", {"N", "2"})
                              .initializer(bytes_of("w", kInt8, {2}, {1, 2}))
                              .initializer(floats("s", {}, {1}))
                              .initializer(floats("t", {}, {2}))
                              .node("DequantizeLinear", {"w", "s"}, {"a"})
                              .node("DequantizeLinear", {"w", "t"}, {"b"})
                              .node("Add", {"a", "b"}, {"c"})
                              .node("Add", {"c", "x"}, {"y"})
                              .output("y"));
  std::vector<float> scales;
  for (graph::ValueId v = 0; v < g.value_count(); ++v)
    if (g.type(v).quant) scales.push_back(g.type(v).quant->scale());
  EXPECT_THAT(scales, ::testing::UnorderedElementsAre(1, 2));
}

TEST(Quant, ComputedScalesStayOperands) {
  const auto g = imported(ModelWriter()
                              .input("x", {"2"})
                              .input("s", {})
                              .initializer(bytes_of("z", kInt8, {}, {0}))
                              .node("QuantizeLinear", {"x", "s", "z"}, {"y"})
                              .output("y"));
  EXPECT_EQ(first<graph::Quantize>(g)->inputs.size(), 3u);
  EXPECT_EQ(value_named(g, "y").type.dtype, DType::s8);
}

TEST(Quant, BadScalesAndClashingTypesAreErrors) {
  for (float s : {0.0f, -1.0f, INFINITY, NAN}) {
    const Error e = import_error(ModelWriter()
                                     .input("x", {"2"})
                                     .initializer(floats("s", {}, {s}))
                                     .node("QuantizeLinear", {"x", "s"}, {"y"}, {}, "q")
                                     .output("y"));
    EXPECT_EQ(e.code, Code::invalid_model);
    EXPECT_THAT(e.message, HasSubstr("'q'"));
  }
  const Error clash = import_error(
      ModelWriter(21)
          .input("x", {"2"})
          .initializer(floats("s", {}, {1}))
          .initializer(bytes_of("z", kInt8, {}, {0}))
          .node("QuantizeLinear", {"x", "s", "z"}, {"y"}, {attribute("output_dtype", 2)}, "q")
          .output("y"));
  EXPECT_THAT(clash.message, HasSubstr("output_dtype"));
}

TEST(Quant, QLinearConvIsWrittenOutWithAnExactBias) {
  const auto g =
      imported(ModelWriter(10)
                   .input("x", {"1", "1", "2", "2"}, kUint8)
                   .initializer(floats("sx", {}, {0.1f}))
                   .initializer(bytes_of("zx", kUint8, {}, {7}))
                   .initializer(bytes_of("w", kInt8, {2, 1, 1, 1}, {3, -4}))
                   .initializer(floats("sw", {2}, {0.3f, 0.7f}))
                   .initializer(bytes_of("zw", kInt8, {2}, {0, 0}))
                   .initializer(floats("sy", {}, {0.2f}))
                   .initializer(bytes_of("zy", kUint8, {}, {1}))
                   .initializer(tensor<std::int32_t>("b", kInt32, {2}, {1000, -3}))
                   .node("QLinearConv", {"x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"}, {"y"})
                   .output("y"));
  EXPECT_THAT(operators(g), ElementsAre("dequantize", "dequantize", "conv", "quantize"));
  const auto bias = g.constant<float>(first<graph::Conv>(g)->inputs[2]);
  EXPECT_THAT(bias, ElementsAre(static_cast<float>(1000.0 * double{0.1f} * double{0.3f}),
                                static_cast<float>(-3.0 * double{0.1f} * double{0.7f})));
  EXPECT_EQ(value_named(g, "x").type.quant->zero_point(), 7);
}

TEST(Quant, IntegerOperatorsGiveInt32) {
  const auto matmul = imported(ModelWriter(10)
                                   .input("x", {"2", "3"}, kUint8)
                                   .initializer(bytes_of("w", kInt8, {3, 2}, {1, 2, 3, 4, 5, 6}))
                                   .initializer(bytes_of("z", kUint8, {}, {9}))
                                   .node("MatMulInteger", {"x", "w", "z"}, {"y"})
                                   .output("y"));
  EXPECT_EQ(value_named(matmul, "y").type.dtype, DType::s32);
  EXPECT_EQ(first<graph::MatMul>(matmul)->inputs.size(), 3u);
  const auto conv = imported(ModelWriter(10)
                                 .input("x", {"1", "1", "3", "3"}, kUint8)
                                 .initializer(bytes_of("w", kInt8, {1, 1, 2, 2}, {1, 2, 3, 4}))
                                 .initializer(bytes_of("z", kUint8, {}, {9}))
                                 .node("ConvInteger", {"x", "w", "z"}, {"y"})
                                 .output("y"));
  EXPECT_EQ(value_named(conv, "y").type.dtype, DType::s32);
  EXPECT_EQ(value_named(conv, "x").type.quant->zero_point(), 9);
}

TEST(Quant, LiveZeroPointOfAConvolutionStaysExact) {
  const auto g = imported(ModelWriter(11)
                              .input("x", {"1", "1", "3", "3"})
                              .initializer(bytes_of("w", kInt8, {1, 1, 2, 2}, {1, 2, 3, 4}))
                              .node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"})
                              .node("ConvInteger", {"q", "w", "z"}, {"y"})
                              .output("y")
                              .output("s"));
  EXPECT_THAT(operators(g), ::testing::Contains("conv").Times(2));
  EXPECT_EQ(value_named(g, "y").type.dtype, DType::s32);
}

}  // namespace
}  // namespace fold8::onnx_io
