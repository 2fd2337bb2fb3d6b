// Data movement against values worked out by hand (ONNX's own examples where it has one).
#include "tests/ops/run_graph.h"

namespace fold8::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using I = std::int64_t;

Evaluated iota(const Shape& s) {
  std::vector<float> x(static_cast<std::size_t>(s.count()));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  return value(s, x);
}

TEST(Movement, Reshape) {
  const Evaluated y =
      run_one("x: f32[2,3,4]\n y = reshape(x, s64{0,-1,2})\n return y", {iota({2, 3, 4})});
  EXPECT_EQ(to_string(y.type.shape), "[2,6,2]");
  EXPECT_EQ(y.as<float>(), iota({2, 6, 2}).as<float>());
}
TEST(Movement, SqueezeUnsqueezeFlatten) {
  EXPECT_EQ(
      to_string(run_one("x: f32[1,3,1]\n y = squeeze(x) axes=[2]\n return y", {iota({1, 3, 1})})
                    .type.shape),
      "[1,3]");
  EXPECT_EQ(
      to_string(run_one("x: f32[1,3,1]\n y = squeeze(x)\n return y", {iota({1, 3, 1})}).type.shape),
      "[3]");
  EXPECT_EQ(
      to_string(
          run_one("x: f32[3]\n y = unsqueeze(x) axes=[0,2]\n return y", {iota({3})}).type.shape),
      "[1,3,1]");
  EXPECT_EQ(to_string(run_one("x: f32[2,3,4]\n y = flatten(x) axis=2\n return y", {iota({2, 3, 4})})
                          .type.shape),
            "[6,4]");
}
TEST(Movement, Transpose) {
  const Evaluated y = run_one("x: f32[2,3]\n y = transpose(x)\n return y", {iota({2, 3})});
  EXPECT_THAT(y.as<float>(), ElementsAre(0, 3, 1, 4, 2, 5));
  const Evaluated z =
      run_one("x: f32[2,2,3]\n y = transpose(x) perm=[1,0,2]\n return y", {iota({2, 2, 3})});
  EXPECT_THAT(z.as<float>(), ElementsAre(0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11));
}
TEST(Movement, ConcatAndSplit) {
  EXPECT_THAT(run_one("a: f32[2,1]\n b: f32[2,2]\n y = concat(a, b) axis=1\n return y",
                      {iota({2, 1}), iota({2, 2})})
                  .as<float>(),
              ElementsAre(0, 0, 1, 1, 2, 3));
  const auto r = run_text("x: f32[2,5]\n a, b = split(x) axis=1\n return a, b", {iota({2, 5})});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_THAT(r->at(0).as<float>(), ElementsAre(0, 1, 2, 5, 6, 7));
  EXPECT_THAT(r->at(1).as<float>(), ElementsAre(3, 4, 8, 9));
  const auto s =
      run_text("x: f32[6]\n a, b = split(x, s64{2,4}) axis=0\n return a, b", {iota({6})});
  ASSERT_TRUE(s.ok()) << s.error().message;
  EXPECT_THAT(s->at(1).as<float>(), ElementsAre(2, 3, 4, 5));
}
TEST(Movement, ConcatRequantizes) {
  const Evaluated y = run_one(
      "a: u8[2] @(0.5,0)\n b: u8[2] @(1,128)\n y: u8[4] @(0.5,10) = concat(a, b) axis=0\n return y",
      {value<std::uint8_t>({2}, {4, 255}), value<std::uint8_t>({2}, {128, 130})});
  EXPECT_THAT(y.as<std::uint8_t>(), ElementsAre(14, 255, 10, 14));
}
TEST(Movement, Slice) {
  const auto slice = [](const std::string& args) {
    return run_one("x: f32[10]\n y = slice(x, " + args + ")\n return y", {iota({10})}).as<float>();
  };
  EXPECT_THAT(slice("s64{2}, s64{5}"), ElementsAre(2, 3, 4));
  EXPECT_THAT(slice("s64{-3}, s64{2147483647}"), ElementsAre(7, 8, 9));
  EXPECT_THAT(slice("s64{8}, s64{-100}, s64{0}, s64{-3}"), ElementsAre(8, 5, 2));
  EXPECT_THAT(slice("s64{20}, s64{0}, s64{0}, s64{-4}"), ElementsAre(9, 5, 1));
  EXPECT_THAT(slice("s64{5}, s64{2}"), ElementsAre());
  const Evaluated y =
      run_one("x: f32[2,4]\n y = slice(x, s64{1}, s64{3}, s64{-1})\n return y", {iota({2, 4})});
  EXPECT_THAT(y.as<float>(), ElementsAre(1, 2, 5, 6));
}
TEST(Movement, Pad) {
  const auto pad = [](const std::string& args) {
    return run_one("x: f32[3]\n y = pad(x, " + args + "\n return y", {iota({3})}).as<float>();
  };
  EXPECT_THAT(pad("s64{2,1}, f32[]{7})"), ElementsAre(7, 7, 0, 1, 2, 7));
  EXPECT_THAT(pad("s64{2,2}) mode=reflect"), ElementsAre(2, 1, 0, 1, 2, 1, 0));
  EXPECT_THAT(pad("s64{1,2}) mode=edge"), ElementsAre(0, 0, 1, 2, 2, 2));
  EXPECT_THAT(pad("s64{1,2}) mode=wrap"), ElementsAre(2, 0, 1, 2, 0, 1));
  EXPECT_THAT(pad("s64{-1,1})"), ElementsAre(1, 2, 0));
}
TEST(Movement, ExpandAndTile) {
  EXPECT_THAT(
      run_one("x: f32[2,1]\n y = expand(x, s64{2,1,3})\n return y", {iota({2, 1})}).as<float>(),
      ElementsAre(0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1));
  EXPECT_THAT(run_one("x: f32[2,2]\n y = tile(x, s64{2,2})\n return y", {iota({2, 2})}).as<float>(),
              ElementsAre(0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3));
}
TEST(Movement, Gather) {
  const std::string g = "x: f32[3,2]\n i: s64[2]\n y = gather(x, i) axis=0\n return y";
  EXPECT_THAT(run_one(g, {iota({3, 2}), value<I>({2}, {-1, 0})}).as<float>(),
              ElementsAre(4, 5, 0, 1));
  EXPECT_THAT(failure(g, {iota({3, 2}), value<I>({2}, {0, 3})}),
              HasSubstr("index 3 at position 1 of input 1 is outside an axis of extent 3"));
  EXPECT_THAT(run_one("x: f32[3,2]\n i: s32[1]\n y = gather(x, i) axis=1\n return y",
                      {iota({3, 2}), value<std::int32_t>({1}, {1})})
                  .as<float>(),
              ElementsAre(1, 3, 5));
}
// Rows with a scale each give real numbers: the same bits everywhere.
TEST(Movement, GatherOfScaledRows) {
  const auto g = graph::parse(
      "i: s64[2,2]\n y = gather(random:s8[5,37]@channel(0), i)\n z = gather(random:s8[5,37], i)\n"
      "return y, z");
  ASSERT_TRUE(g.ok()) << g.error().message;
  const graph::ValueId table = g->node(0).inputs[0];
  const auto scales = g->type(table).quant->scales();
  const auto codes = g->constant<std::int8_t>(table);
  const std::int64_t rows[] = {4, 0, 3, 4};
  for (const kernels::Target* target : runnable_targets())
    for (const int threads : {1, 2}) {
      const auto r =
          run_graph(*g, {value<std::int64_t>({2, 2}, {4, -5, 3, -1})}, {target->kernels, threads});
      ASSERT_TRUE(r.ok()) << r.error().message;
      EXPECT_EQ(r->at(0).type.dtype, DType::f32);
      EXPECT_EQ(to_string(r->at(0).type.shape), "[2,2,37]");
      EXPECT_EQ(r->at(1).type.dtype, DType::s8);
      const auto y = r->at(0).as<float>();
      for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t d = 0; d < 37; ++d) {
          const auto v = static_cast<std::size_t>(rows[i]);
          EXPECT_EQ(y[i * 37 + d], static_cast<float>(codes[v * 37 + d]) * scales[v]);
        }
    }
  EXPECT_THAT(failure("i: s64[2]\n y = gather(random:s8[5,3]@channel(0), i) axis=1\n return y",
                      {value<std::int64_t>({2}, {0, 1})}),
              HasSubstr("axis 0"));
  EXPECT_THAT(failure("i: s64[1]\n y = gather(random:s8[5,3]@channel(0), i)\n return y",
                      {value<std::int64_t>({1}, {5})}),
              HasSubstr("index 5"));
}
TEST(Movement, GatherElementsAndND) {
  EXPECT_THAT(run_one("x: f32[2,2]\n i: s64[2,2]\n y = gather_elements(x, i) axis=1\n return y",
                      {iota({2, 2}), value<I>({2, 2}, {0, 0, 1, 0})})
                  .as<float>(),
              ElementsAre(0, 0, 3, 2));
  EXPECT_THAT(run_one("x: f32[2,2]\n i: s64[2,2]\n y = gather_nd(x, i)\n return y",
                      {iota({2, 2}), value<I>({2, 2}, {0, 0, 1, 1})})
                  .as<float>(),
              ElementsAre(0, 3));
  EXPECT_THAT(run_one("x: f32[2,2,2]\n i: s64[2,1]\n y = gather_nd(x, i) batch_dims=1\n return y",
                      {iota({2, 2, 2}), value<I>({2, 1}, {1, 0})})
                  .as<float>(),
              ElementsAre(2, 3, 4, 5));
}
TEST(Movement, Scatter) {
  EXPECT_THAT(run_one("x: f32[1,5]\n i: s64[1,2]\n u: f32[1,2]\n y = scatter_elements(x, i, u) "
                      "axis=1\n return y",
                      {value<float>({1, 5}, {1, 2, 3, 4, 5}), value<I>({1, 2}, {1, 3}),
                       value<float>({1, 2}, {1.1f, 2.1f})})
                  .as<float>(),
              ElementsAre(1, 1.1f, 3, 2.1f, 5));
  EXPECT_THAT(
      run_one(
          "x: f32[4]\n i: s64[2,1]\n u: f32[2]\n y = scatter_nd(x, i, u) reduction=add\n return y",
          {value<float>({4}, {1, 2, 3, 4}), value<I>({2, 1}, {-1, 3}), value<float>({2}, {10, 20})})
          .as<float>(),
      ElementsAre(1, 2, 3, 34));
}
TEST(Movement, DepthAndSpace) {
  const Evaluated x = iota({1, 8, 1, 2});
  EXPECT_THAT(
      run_one("x: f32[1,8,1,2]\n y = depth_to_space(x) block=2\n return y", {x}).as<float>(),
      ElementsAre(0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15));
  EXPECT_THAT(run_one("x: f32[1,8,1,2]\n y = depth_to_space(x) block=2 crd=true\n return y", {x})
                  .as<float>(),
              ElementsAre(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  EXPECT_EQ(run_one("x: f32[1,8,1,2]\n d = depth_to_space(x) block=2\n y = space_to_depth(d) "
                    "block=2\n return y",
                    {x})
                .as<float>(),
            x.as<float>());
}
TEST(Movement, TriluOneHotRangeNonZero) {
  EXPECT_THAT(
      run_one("x: f32[2,3]\n y = trilu(x, s64[]{1})\n return y", {iota({2, 3})}).as<float>(),
      ElementsAre(0, 1, 2, 0, 0, 5));
  EXPECT_THAT(
      run_one("x: f32[2,3]\n y = trilu(x) upper=false\n return y", {iota({2, 3})}).as<float>(),
      ElementsAre(0, 0, 0, 3, 4, 0));
  EXPECT_THAT(run_one("x: s64[3]\n y = one_hot(x, s64[]{3}, f32[2]{-1,1})\n return y",
                      {value<I>({3}, {0, -1, 5})})
                  .as<float>(),
              ElementsAre(1, -1, -1, -1, -1, 1, -1, -1, -1));
  EXPECT_THAT(run_one("y = range(s64[]{10}, s64[]{4}, s64[]{-2})\n return y", {}).as<I>(),
              ElementsAre(10, 8, 6));
  EXPECT_THAT(run_one("y = range(f32[]{1}, f32[]{2}, f32[]{0.25})\n return y", {}).as<float>(),
              ElementsAre(1, 1.25f, 1.5f, 1.75f));
  const Evaluated nz =
      run_one("x: f32[2,2]\n y = non_zero(x)\n return y", {value<float>({2, 2}, {1, 0, 0, 2})});
  EXPECT_EQ(to_string(nz.type.shape), "[2,2]");
  EXPECT_THAT(nz.as<I>(), ElementsAre(0, 1, 0, 1));
}
TEST(Movement, ShapesAndConstants) {
  EXPECT_THAT(
      run_one("x: f32[2,3,4]\n y = shape_of(x) start=-2\n return y", {iota({2, 3, 4})}).as<I>(),
      ElementsAre(3, 4));
  EXPECT_THAT(run_one("x: f32[2,3,4]\n y = size_of(x)\n return y", {iota({2, 3, 4})}).as<I>(),
              ElementsAre(24));
  EXPECT_THAT(
      run_one("y = constant_of_shape(s64{2}) dtype=s32 bits=7\n return y", {}).as<std::int32_t>(),
      ElementsAre(7, 7));
}
TEST(Movement, EmptyTensorsPass) {
  EXPECT_EQ(run_one("x: f32[0,3]\n y = transpose(x)\n return y", {iota({0, 3})}).type.shape.count(),
            0);
  EXPECT_THAT(run_one("a: f32[0,2]\n b: f32[1,2]\n y = concat(a, b) axis=0\n return y",
                      {iota({0, 2}), iota({1, 2})})
                  .as<float>(),
              ElementsAre(0, 1));
  EXPECT_EQ(run_one("x: f32[0,4]\n y = reshape(x, s64{-1,2})\n return y", {iota({0, 4})})
                .type.shape.count(),
            0);
}

}  // namespace
}  // namespace fold8::ops
