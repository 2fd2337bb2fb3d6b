// What must not change a bit: threads, batch mates, packed weights. And refusals of matrix
// operators.
#include <cmath>

#include "runtime/ops/pack_weights.h"
#include "tests/ops/matrix_values.h"

namespace fold8::ops {
namespace {

using ::testing::HasSubstr;

TEST(Invariance, BatchMatesAndThreadsChangeNothing) {
  const char* layers[] = {"y = linear(x, random:f32[33,40])",
                          "y = conv(x, random:f32[18,8,3,3]) pads=[1,1,1,1]",
                          "y = conv(x, random:f32[8,1,3,3]) group=8",
                          "y = norm(x) kind=layer",
                          "y = softmax(x)",
                          "y = reduce(x) kind=mean axes=[2,3]",
                          "y = pool(x) kind=average kernel=[2,2]"};
  for (const char* layer : layers) {
    const Evaluated batch = random_f32({8, 8, 5, 40}, 1);
    const std::string text = "x: f32[?,8,5,40]\n " + std::string(layer) + "\n return y";
    const auto all = run_one(text, {batch}, {nullptr, 3}).as<float>();
    EXPECT_EQ(all, run_one(text, {batch}, {nullptr, 1}).as<float>()) << layer;
    for (std::int64_t i : {0, 5}) {
      const auto x = batch.as<float>();
      const Evaluated one =
          value<float>({1, 8, 5, 40}, {x.begin() + i * 1600, x.begin() + (i + 1) * 1600});
      const auto y = run_one(text, {one}).as<float>();
      EXPECT_TRUE(
          std::equal(y.begin(), y.end(), all.begin() + i * static_cast<std::int64_t>(y.size())))
          << layer;
    }
  }
}

TEST(Packing, PackedWeightsGiveTheSameBits) {
  for (const char* text :
       {"x: f32[4,24]\n y = linear(x, random:f32[20,24])\n return y",
        "x: f32[1,8,6,6]\n y = conv(x, random:f32[8,1,3,3]) group=8\n return y",
        "x: f32[1,8,6,6]\n y = conv(x, random:f32[8,4,2,2]) strides=[2,2] transposed=true\n return "
        "y",
        "x: u8[1,8,6,6] @(0.1,3)\n y = conv(x, random:s8[8,4,3,3] @(0.5,0)) strides=[2,2] "
        "pads=[1,0,1,1] transposed=true\n return y",
        "x: u8[1,8,6,6] @(0.1,3)\n y = conv(x, random:s8[8,4,3,3] @(0.5,0)) strides=[2,2] "
        "output_shape=[12,13] transposed=true\n return y",
        "x: u8[4,24] @(0.1,3)\n y = linear(x, random:s8[20,24] @channel(0))\n return y",
        "x: u8[1,8,6,6] @(0.1,3)\n y = conv(x, random:s8[8,1,3,3] @channel(0)) group=8\n return y",
        "x: u8[1,8,6,6] @(0.1,3)\n y = conv(x, random:s8[4,8,3,3] @channel(0))\n return y"}) {
    graph::Graph g = *graph::parse(text);
    Shape s = g.type(g.inputs[0]).shape;
    const Evaluated x =
        g.type(g.inputs[0]).dtype == DType::f32 ? random_f32(s, 1) : random_u8(s, 1);
    const auto plain_weight = run_graph(g, {x});
    ASSERT_TRUE(plain_weight.ok()) << plain_weight.error().message;
    const graph::ValueId w = g.node(0).inputs[1];
    const auto packed = pack_weight(g.node(0).op, g.type(w), g.value(w).constant->data());
    ASSERT_TRUE(packed.ok()) << packed.error().message;
    EXPECT_EQ(*weight_bytes(g.node(0).op, packed->type), packed->data->size());
    g.value(w).type = packed->type;
    g.value(w).constant = packed->data;
    const auto packed_weight = run_graph(g, {x});
    ASSERT_TRUE(packed_weight.ok()) << packed_weight.error().message;
    EXPECT_EQ(plain_weight->at(0).as<float>(), packed_weight->at(0).as<float>()) << text;
  }
}

TEST(Refusals, SayWhat) {
  EXPECT_THAT(failure("x: u8[1,4] @(1,0)\n y = linear(x, random:f32[2,4])\n return y",
                      {random_u8({1, 4}, 1)}),
              HasSubstr("expected INT8 elements for an INT8 input 0"));
  EXPECT_THAT(
      failure("x: f32[1,4]\n y: u8[1,2] @channel(1) = linear(x, random:f32[2,4])\n return y",
              {random_f32({1, 4}, 1)}),
      HasSubstr("an output of type u8[1,2] @channel(1)"));
  EXPECT_THAT(failure("x: u8[1,4] @token\n y = linear(x, random:s8[2,4] @(1,0))\n return y",
                      {random_u8({1, 4}, 1)}),
              HasSubstr("the scales, is missing"));
}

}  // namespace
}  // namespace fold8::ops
