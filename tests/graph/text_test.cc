#include "runtime/graph/text.h"

#include <gtest/gtest.h>

#include "runtime/graph/enum_names.h"
#include "runtime/graph/verify.h"

namespace fold8::graph {
namespace {

constexpr std::string_view kText = R"(
x: f32[batch,3,8,8]
w = const random:f32[4,3,3,3]
h = conv(x, w, _) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]
y: f32[batch,4,8,8] = relu(h)
a, b = split(y) axis=1
s = reshape(a, s64{-1,2})
return s, b
)";

TEST(Text, ParsesAndPrintsTheSameGraph) {
  const auto g = parse(kText);
  ASSERT_TRUE(g.ok()) << g.error().message;
  EXPECT_TRUE(verify(*g).ok());
  EXPECT_EQ(g->inputs.size(), 1u);
  EXPECT_EQ(g->outputs.size(), 2u);
  EXPECT_EQ(g->live_nodes(), 4u);
  const std::string text = to_text(*g);
  EXPECT_NE(text.find("y: f32[batch,4,8,8] = unary(h)"), std::string::npos)
      << text;  // relu is the default kind
  EXPECT_NE(text.find("conv(x, w, _) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("a, b = split(y) axis=1"), std::string::npos);
  EXPECT_NE(text.find("s64[2]{-1,2}"), std::string::npos);
}

TEST(Text, QuantizedTypes) {
  const auto g = parse(R"(
x: u8[2,8] @(0.05,128)
y: f32[2,4] = linear(x, random:s8[4,8] @channel(0), random:f32[4])
return y
)");
  ASSERT_TRUE(g.ok()) << g.error().message;
  ASSERT_TRUE(verify(*g).ok());
  EXPECT_EQ(g->type(g->inputs[0]).quant->zero_point(), 128);
  EXPECT_NE(to_text(*g).find("x: u8[2,8] @(0.05,128)"), std::string::npos);
}

TEST(Text, ErrorsNameLineAndReason) {
  EXPECT_NE(parse("x: f32[2]\ny = frobnicate(x)\n")
                .error()
                .message.find("line 2: unknown operator 'frobnicate'"),
            std::string::npos);
  EXPECT_NE(parse("y = relu(x)\n").error().message.find("'x' is not defined"), std::string::npos);
  EXPECT_NE(parse("x: f32[2]\nx: f32[2]\n").error().message.find("defined twice"),
            std::string::npos);
  EXPECT_NE(parse("x: f32[2]\ny = softmax(x) axes=1\n").error().message.find("no attribute 'axes'"),
            std::string::npos);
}

TEST(Ops, EveryOperatorIsFoundByItsName) {
  EXPECT_TRUE(op_from_name("linear").has_value());
  EXPECT_EQ(name(*op_from_name("gather_nd")), "gather_nd");
  EXPECT_FALSE(op_from_name("nothing").has_value());
}

TEST(Ops, EqualityComparesEveryAttribute) {
  Conv a{{3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}}, b = a;
  EXPECT_TRUE(equal(a, b));
  b.group = 2;
  EXPECT_FALSE(equal(a, b));
  EXPECT_FALSE(equal(a, Linear{}));
}

TEST(Enumerators, RoundTrip) {
  EXPECT_EQ(enumerator_from_name<BinaryKind>("shift_right"), BinaryKind::shift_right);
  EXPECT_EQ(enumerator_name(UnaryKind::square), "square");
  EXPECT_EQ(enumerator_from_name<UnaryKind>("cube"), std::nullopt);
  EXPECT_EQ(enumerators<UnaryKind>().size(), static_cast<std::size_t>(UnaryKind::square) + 1);
  EXPECT_EQ(enumerators<BinaryKind>().size(),
            static_cast<std::size_t>(BinaryKind::shift_right) + 1);
}

}  // namespace
}  // namespace fold8::graph
