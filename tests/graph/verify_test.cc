#include "runtime/graph/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/text.h"

namespace fold8::graph {
namespace {

using ::testing::HasSubstr;

Graph good() {
  return parse("x: f32[2,4]\nw = const random:f32[3,4]\ny = linear(x, w)\nz = relu(y)\nreturn z\n")
      .value();
}

std::string why(const Graph& g) {
  const auto s = verify(g);
  return s.ok() ? "ok" : s.error().message;
}

TEST(Verify, AcceptsAGoodGraph) { EXPECT_EQ(why(good()), "ok"); }

TEST(Verify, NamesUndefinedAndDoubleDefinitions) {
  Graph g = good();
  g.node(0).inputs[0] = g.add_value("ghost", {});
  EXPECT_THAT(why(g), HasSubstr("'y' (linear): reads tensor 'ghost'"));
  g = good();
  g.node(1).outputs[0] = g.node(0).outputs[0];
  EXPECT_THAT(why(g), HasSubstr("made twice"));
  g = good();
  g.outputs = {g.add_value("ghost", {})};
  EXPECT_THAT(why(g), HasSubstr("graph output 'ghost' is made by no node"));
}

TEST(Verify, ChecksArityAndIds) {
  Graph g = good();
  g.node(1).inputs.clear();
  EXPECT_THAT(why(g), HasSubstr("has 0 inputs"));
  g = good();
  g.node(0).inputs[1] = kNoValue;
  EXPECT_THAT(why(g), HasSubstr("input 1 is absent"));
  g = good();
  g.node(0).inputs[1] = 999;
  EXPECT_THAT(why(g), HasSubstr("does not exist"));
}

TEST(Verify, ConstantsHoldWhatTheirTypeSays) {
  Graph g = good();
  g.value(g.find_value("w")).type.shape = Shape{3, 5};
  EXPECT_THAT(why(g), HasSubstr("'w': shape [3,5] needs 15 elements"));
}

TEST(Verify, QuantParamsFitTheirTensor) {
  Graph g = good();
  g.value(g.find_value("x")).type.quant = QuantParams::per_tensor(1.0f, 0).value();
  EXPECT_THAT(why(g), HasSubstr("'x': a f32 tensor carries quantization parameters"));
  g = parse("x: u8[2,4] @(0.5,256)\nreturn x\n").value();
  EXPECT_THAT(why(g), HasSubstr("zero point 256 does not fit u8"));
  g = parse("x: u8[2,4]\nw = const random:s8[3,4] @channel(0)\ny = linear(x, w)\nreturn y\n")
          .value();
  EXPECT_THAT(why(g), HasSubstr("operand 'x' is u8 without scale"));
}

TEST(Verify, RefusesTwoTensorsOfOneName) {
  Graph g = good();
  g.value(g.find_value("y")).name = "x";
  EXPECT_THAT(why(g), HasSubstr("two tensors are named 'x'"));
}

}  // namespace
}  // namespace fold8::graph
