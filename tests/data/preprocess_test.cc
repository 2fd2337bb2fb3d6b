#include "tools/data/preprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/text.h"
#include "runtime/graph/verify.h"

namespace fold8::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

graph::Graph relu_of(const std::string& type) {
  return graph::parse("x: " + type + "\ny: " + type + " = unary(x) kind=relu\nreturn y\n").value();
}

std::vector<std::string> operators(const graph::Graph& g) {
  std::vector<std::string> names;
  const std::vector<graph::NodeId> order = g.topological_order().value();
  for (graph::NodeId n : order) names.emplace_back(graph::name(g.node(n).op));
  return names;
}

TEST(Preprocess, ParsesListsLayoutAndType) {
  const auto p = parse_preprocess("serve:in:mean=1,2.5,3,std=4,layout=nhwc,dtype=u8");
  ASSERT_TRUE(p.ok()) << p.error().message;
  EXPECT_EQ(p->input, "serve:in");
  EXPECT_THAT(p->mean, ElementsAre(1, 2.5f, 3));
  EXPECT_THAT(p->std, ElementsAre(4));
  EXPECT_TRUE(p->channels_last);
  EXPECT_EQ(p->dtype, DType::u8);
}

TEST(Preprocess, RefusesNonsense) {
  for (const char* text :
       {"", "x", "x:", ":mean=1", "x:mean=a", "x:std=0", "x:std=-1", "x:layout=nwhc", "x:dtype=s8",
        "x:color=red", "x:mean=1,,2", "x:mean=nan"}) {
    const auto p = parse_preprocess(text);
    ASSERT_FALSE(p.ok()) << text;
    EXPECT_EQ(p.error().code, Code::invalid_argument);
  }
}

TEST(Preprocess, BytesOfAPictureBecomeTheNetworksInput) {
  graph::Graph g = relu_of("f32[n,3,4,5]");
  const auto p = parse_preprocess("x:mean=10,20,30,std=2,4,8,layout=nhwc,dtype=u8");
  ASSERT_TRUE(add_preprocess(g, *p).ok());
  EXPECT_THAT(operators(g), ElementsAre("transpose", "cast", "affine", "unary"));
  const graph::Value& in = g.value(g.inputs[0]);
  EXPECT_EQ(in.name, "x");
  EXPECT_EQ(in.type.dtype, DType::u8);
  EXPECT_EQ(to_string(in.type.shape, g.symbols), "[n,4,5,3]");
  const auto status = graph::verify(g);
  EXPECT_TRUE(status.ok()) << status.error().message;
  const auto scale = g.find_value("x/scale"), shift = g.find_value("x/shift");
  EXPECT_THAT(g.constant<float>(scale), ElementsAre(0.5f, 0.25f, 0.125f));
  EXPECT_THAT(g.constant<float>(shift), ElementsAre(-5, -5, -3.75f));
}

TEST(Preprocess, OneNumberServesAllChannels) {
  graph::Graph g = relu_of("f32[n,3]");
  ASSERT_TRUE(add_preprocess(g, *parse_preprocess("x:mean=1,std=2")).ok());
  EXPECT_THAT(g.constant<float>(g.find_value("x/scale")), ElementsAre(0.5f, 0.5f, 0.5f));
}

TEST(Preprocess, NothingToDoChangesNothing) {
  graph::Graph g = relu_of("f32[n,3]");
  ASSERT_TRUE(add_preprocess(g, *parse_preprocess("x:layout=nchw")).ok());
  EXPECT_THAT(operators(g), ElementsAre("unary"));
}

TEST(Preprocess, RefusesUnknownInputsAndWrongCounts) {
  graph::Graph g = relu_of("f32[n,3]");
  const auto unknown = add_preprocess(g, *parse_preprocess("z:mean=1"));
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message, HasSubstr("'z'"));
  const auto count = add_preprocess(g, *parse_preprocess("x:mean=1,2"));
  ASSERT_FALSE(count.ok());
  EXPECT_THAT(count.error().message, HasSubstr("3 channels"));
  graph::Graph open = relu_of("f32[n,c]");
  EXPECT_FALSE(add_preprocess(open, *parse_preprocess("x:mean=1")).ok());
}

}  // namespace
}  // namespace fold8::data
