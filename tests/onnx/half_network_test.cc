// Networks in 16-bit floats: computed in f32, with their own types at the edges only.
#include <gmock/gmock.h>

#include "tests/onnx/import_support.h"

namespace fold8::onnx_io {
namespace {

using namespace fold8::testing;
using ::testing::ElementsAre;

constexpr std::uint16_t kOne = 0x3c00, kMinusTwo = 0xc000, kThird = 0x3555;  // binary16

Message halves(const std::string& name, const Dims& dims, const std::vector<std::uint16_t>& v) {
  return tensor(name, kFloat16, dims, v);
}

ModelWriter affine_in_half() {
  return ModelWriter(13)
      .input("x", {"2"}, kFloat16)
      .initializer(halves("w", {2}, {kOne, kMinusTwo}))
      .node("Mul", {"x", "w"}, {"m"})
      .node("Relu", {"m"}, {"r"})
      .node("Cast", {"r"}, {"c"}, {attribute("to", 10)})
      .node("Neg", {"c"}, {"y"})
      .output("y", {"2"}, kFloat16);
}

TEST(HalfNetwork, IsComputedInFloatWithItsOwnTypesAtTheEdges) {
  const graph::Graph g = imported(affine_in_half());
  EXPECT_EQ(g.type(g.inputs[0]).dtype, DType::f16);
  EXPECT_EQ(g.type(g.outputs[0]).dtype, DType::f16);
  EXPECT_EQ(g.value(g.outputs[0]).name, "y");
  int casts = 0;
  for (graph::NodeId n = 0; n < g.node_count(); ++n) {
    const graph::Node& node = g.node(n);
    if (node.dead) continue;
    if (const auto* cast = std::get_if<graph::Cast>(&node.op)) {
      casts += cast->to != g.type(node.inputs[0]).dtype;
      continue;
    }
    for (graph::ValueId v : node.inputs) EXPECT_EQ(g.type(v).dtype, DType::f32) << node.name;
    for (graph::ValueId v : node.outputs) EXPECT_EQ(g.type(v).dtype, DType::f32) << node.name;
  }
  EXPECT_EQ(casts, 2);
}

TEST(HalfNetwork, ConstantsAreWidenedExactly) {
  const graph::Graph g = imported(affine_in_half());
  bool seen = false;
  for (graph::ValueId v = 0; v < g.value_count(); ++v)
    if (g.value(v).name == "w") {
      const auto* w = reinterpret_cast<const float*>(g.value(v).constant->data());
      EXPECT_EQ(w[0], 1.0f);
      EXPECT_EQ(w[1], -2.0f);
      seen = true;
    }
  EXPECT_TRUE(seen);
}

TEST(HalfNetwork, ANoteSaysSo) {
  const auto r = import_bytes(affine_in_half().bytes(), "");
  ASSERT_TRUE(r.ok()) << r.error().message;
  ASSERT_EQ(r->notes.size(), 1u);
  EXPECT_THAT(r->notes[0].message, ::testing::HasSubstr("float32"));
}

// Rounding to 16 bits that a float32 network asks for is part of its meaning.
TEST(HalfNetwork, ConversionsOfAFloatNetworkStay) {
  const graph::Graph g = imported(ModelWriter(13)
                                      .input("x", {"2"})
                                      .node("Cast", {"x"}, {"h"}, {attribute("to", 10)})
                                      .node("Cast", {"h"}, {"f"}, {attribute("to", 1)})
                                      .node("Relu", {"f"}, {"y"})
                                      .output("y"));
  EXPECT_THAT(operators(g), ElementsAre("cast", "cast", "relu"));
}

TEST(HalfNetwork, ConstantsInAttributesAndDamagedOnes) {
  const auto with = [](const Message& value) {
    return ModelWriter(13)
        .input("x", {"1"}, kFloat16)
        .node("Constant", {}, {"k"}, {attribute("value", value)})
        .node("Add", {"x", "k"}, {"y"})
        .output("y", {"2"}, kFloat16);
  };
  const graph::Graph g = imported(with(halves("", {1}, {kThird})));
  EXPECT_EQ(g.type(first<graph::Binary>(g)->inputs[1]).dtype, DType::f32);
  EXPECT_EQ(import_error(with(halves("", {3}, {kThird}))).code, Code::invalid_model);
}

}  // namespace
}  // namespace fold8::onnx_io
