// Symbolic types of whole graphs.
#include "tests/exec/exec_support.h"

namespace fold8 {
namespace {

using ::testing::HasSubstr;
using testing::parsed;

std::string type_of(const graph::Graph& g, const char* name) {
  const TensorType& t = g.type(g.find_value(name));
  return std::string(fold8::name(t.dtype)) + to_string(t.shape, g.symbols);
}

TEST(InferTypes, SymbolsPassThrough) {
  graph::Graph g = parsed(R"(
    x: f32[batch,seq,8]
    a = relu(x)
    s = shape_of(x)
    r = reshape(a, s)
    t = transpose(a) perm=[0,2,1]
    return t, r
  )");
  ASSERT_TRUE(exec::infer_types(g).ok());
  EXPECT_EQ(type_of(g, "a"), "f32[batch,seq,8]");
  EXPECT_EQ(type_of(g, "s"), "s64[3]");
  EXPECT_EQ(type_of(g, "r"), "f32[batch,seq,8]");
  EXPECT_EQ(type_of(g, "t"), "f32[batch,8,seq]");
}

TEST(InferTypes, IsIdempotent) {
  graph::Graph g = parsed("x: f32[n,4]\ny = concat(x, x) axis=1\nz = non_zero(y)\nreturn z");
  ASSERT_TRUE(exec::infer_types(g).ok());
  const std::string once = graph::to_text(g);
  ASSERT_TRUE(exec::infer_types(g).ok());
  EXPECT_EQ(graph::to_text(g), once);
}

TEST(InferTypes, DeclaredTypesKeepParamsAndFillUnknownExtents) {
  graph::Graph g = parsed(R"(
    x: f32[4]
    q: u8[4] @(0.5,3) = quantize(x)
    z: s64[1,m] = non_zero(x)
    return q, z
  )");
  ASSERT_TRUE(exec::infer_types(g).ok());
  EXPECT_EQ(g.type(g.find_value("q")).quant->zero_point(), 3);
}

TEST(InferTypes, ErrorsNameTheNode) {
  graph::Graph g = parsed("x: f32[2,3]\nw = add(x, f32[4]{1,2,3,4})\nreturn w");
  const auto s = exec::infer_types(g);
  ASSERT_FALSE(s.ok());
  EXPECT_THAT(s.error().message, HasSubstr("node 'w' (add)"));
}

TEST(InferTypes, ACopiedUnknownExtentIsNoSecondMinusOne) {
  graph::Graph good = parsed(R"(
    x: f32[N,T,8]
    a = reshape(x, s64{-1,8})
    y = reshape(a, s64{0,-1})
    return y
  )");
  const Status s = exec::infer_types(good);
  EXPECT_TRUE(s.ok()) << s.error().message;
  graph::Graph bad = parsed("x: f32[N,T,8]\ny = reshape(x, s64{-1,-1})\nreturn y\n");
  EXPECT_FALSE(exec::infer_types(bad).ok());
}

}  // namespace
}  // namespace fold8
