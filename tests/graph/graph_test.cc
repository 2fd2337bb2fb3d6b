#include "runtime/graph/graph.h"

#include <gtest/gtest.h>

#include "runtime/graph/text.h"
#include "runtime/graph/verify.h"

namespace fold8::graph {
namespace {

Graph must_parse(std::string_view text) {
  auto g = parse(text);
  EXPECT_TRUE(g.ok()) << g.error().message;
  return std::move(g).value();
}

TEST(Graph, CompactDropsWhatNobodyReads) {
  Graph g = must_parse(R"(
x: f32[2,4]
dead = exp(x)
deader = log(dead)
y = relu(x)
a, b = split(y) axis=1
return b
)");
  ASSERT_TRUE(g.compact().ok());
  EXPECT_EQ(g.live_nodes(), 2u);
  EXPECT_EQ(g.node_count(), 2);
  EXPECT_EQ(g.node(1).outputs[0], kNoValue);  // `a` is gone, `b` keeps its place
  EXPECT_EQ(g.value(g.outputs[0]).name, "b");
  EXPECT_EQ(g.find_value("dead"), kNoValue);
  EXPECT_TRUE(verify(g).ok());
}

TEST(Graph, CompactKeepsUnusedInputsAndConstantOutputs) {
  Graph g = must_parse("x: f32[2]\nu: f32[3]\nk = const f32[1]{5}\ny = relu(x)\nreturn k, y, x\n");
  ASSERT_TRUE(g.compact().ok());
  EXPECT_EQ(g.inputs.size(), 2u);
  EXPECT_EQ(g.constant<float>(g.outputs[0])[0], 5.0f);
  EXPECT_EQ(g.outputs[2], g.inputs[0]);
}

TEST(Graph, OrderIsStableAndFindsCycles) {
  Graph g = must_parse("x: f32[2]\na = relu(x)\nb = exp(a)\nreturn b\n");
  const ValueId b = g.find_value("b");
  g.node(0).inputs[0] = b;
  const auto order = g.topological_order();
  ASSERT_FALSE(order.ok());
  EXPECT_NE(order.error().message.find("'a', 'b'"), std::string::npos) << order.error().message;
}

TEST(Graph, FreshNamesDoNotClash) {
  Graph g = must_parse("x: f32[2]\nx_1: f32[2]\nreturn x\n");
  EXPECT_EQ(g.fresh_name("x"), "x_2");
  EXPECT_EQ(g.fresh_name("z"), "z");
}

TEST(Graph, ReplaceUsesReachesOutputs) {
  Graph g = must_parse("x: f32[2]\ny = relu(x)\nz = exp(y)\nreturn y, z\n");
  g.replace_uses(g.find_value("y"), g.find_value("x"));
  EXPECT_EQ(g.outputs[0], g.find_value("x"));
  EXPECT_EQ(g.node(1).inputs[0], g.find_value("x"));
}

}  // namespace
}  // namespace fold8::graph
