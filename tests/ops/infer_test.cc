// Shapes with symbols, integers known without running, refusals that say what is wrong.
#include "tests/ops/run_graph.h"

namespace fold8::ops {
namespace {

using ::testing::HasSubstr;

TEST(Infer, SymbolsStay) {
  EXPECT_EQ(inferred("x: f32[batch,8]\n y = linear(x, random:f32[16,8])\n return y"),
            "f32[batch,16]");
  EXPECT_EQ(inferred("x: f32[n,3,h,w]\n y = conv(x, random:f32[4,3,3,3]) kernel=[3,3] "
                     "pads=[1,1,1,1]\n return y"),
            "f32[n,4,h,w]");
  EXPECT_EQ(inferred("x: f32[n,3,224,h]\n y = conv(x, random:f32[4,3,3,3]) kernel=[3,3] "
                     "pads=[1,1,1,1] strides=[2,2]\n return y"),
            "f32[n,4,112,?]");
  EXPECT_EQ(inferred("x: f32[b,t,4]\n y = reshape(x, s64{0,-1,2,2})\n return y"), "f32[b,t,2,2]");
  EXPECT_EQ(inferred("x: f32[b,12,7,7]\n y = flatten(x)\n return y"), "f32[b,588]");
  EXPECT_EQ(inferred("a: f32[b,4]\n c: f32[1,4]\n y = binary(a, c) kind=add\n return y"),
            "f32[b,4]");
  EXPECT_EQ(
      inferred("a: f32[b,h,t,d]\n c: f32[b,h,t,d]\n y = matmul(a, c) transpose_b=true\n return y"),
      "f32[b,h,t,t]");
}
TEST(Infer, ShapeArithmeticCostsNothing) {
  // batch from the shape, times heads, back into a reshape
  EXPECT_EQ(inferred("x: f32[batch,t,8]\n s = shape_of(x)\n b = gather(s, s64{0}) axis=0\n c = "
                     "concat(b, s64{-1,2,4}) axis=0\n y = reshape(x, c)\n return y, c"),
            "f32[batch,t,2,4] s64[4]=[batch,-1,2,4]");
  EXPECT_EQ(inferred("x: f32[2,6]\n s = shape_of(x)\n a, b = split(s) axis=0\n p = binary(a, b) "
                     "kind=mul\n q = binary(p, s64{5}) kind=div\n return p, q"),
            "s64[1]=[12] s64[1]=[2]");
  EXPECT_EQ(inferred("x: f32[b,6]\n s = shape_of(x)\n z = slice(s, s64{1}, s64{2})\n f = cast(z) "
                     "to=f32\n h = binary(f, f32[1]{2.5}) kind=mul\n g = unary(h) kind=floor\n i = "
                     "cast(g) to=s64\n return i"),
            "s64[1]=[15]");
  EXPECT_EQ(inferred("x: f32[b,6]\n s = shape_of(x)\n e = binary(s, s64{-1}) kind=equal\n o = "
                     "constant_of_shape(s64{2}) dtype=s64 bits=1\n w = where(e, o, s)\n return w"),
            "s64[2]=[b,6]");
  EXPECT_EQ(inferred("x: f32[3,4]\n s = shape_of(x)\n p = reduce(s) kind=prod axes=[0]\n u = "
                     "reduce(s) kind=prod keep_dims=false\n return p, u"),
            "s64[1]=[12] s64[]=[12]");
  EXPECT_EQ(inferred("x: f32[5,2]\n s = shape_of(x)\n n = gather(s, s64[]{0}) axis=0\n r = "
                     "range(s64[]{0}, n, s64[]{1})\n return r"),
            "s64[5]=[0,1,2,3,4]");
  EXPECT_EQ(inferred("x: f32[b,2]\n s = shape_of(x)\n n = gather(s, s64[]{0}) axis=0\n u = "
                     "unsqueeze(n) axes=[0]\n e = expand(u, s64{2})\n return e"),
            "s64[2]=[b,b]");
  EXPECT_EQ(inferred("x: f32[4,2]\n s = shape_of(x)\n n = unary(s) kind=neg\n d = binary(n, "
                     "s64{3}) kind=div\n return d"),
            "s64[2]=[-1,0]");  // toward zero
}
TEST(Infer, ResizeFromComputedScales) {
  EXPECT_EQ(inferred("x: f32[1,3,8,8]\n y = resize(x, f32[4]{1,1,2,0.5})\n return y"),
            "f32[1,3,16,4]");
  EXPECT_EQ(inferred("x: f32[b,3,8,8]\n y = resize(x, _, s64{5,6}) axes=[2,3]\n return y"),
            "f32[b,3,5,6]");
}
TEST(Infer, PoolsAndTransposedConvolutions) {
  EXPECT_EQ(
      inferred("x: f32[1,2,7,7]\n y = pool(x) kind=max kernel=[3,3] strides=[2,2]\n return y"),
      "f32[1,2,3,3]");
  EXPECT_EQ(inferred("x: f32[1,2,8,8]\n y = pool(x) kind=max kernel=[3,3] strides=[2,2] "
                     "ceil_mode=true\n return y"),
            "f32[1,2,4,4]");
  EXPECT_EQ(inferred("x: f32[1,2,7,7]\n y = pool(x) kind=average global=true\n return y"),
            "f32[1,2,1,1]");
  EXPECT_EQ(
      inferred("x: f32[1,2,3,3]\n y = conv(x, random:f32[2,4,3,3]) kernel=[3,3] strides=[2,2] "
               "pads=[1,1,1,1] output_padding=[1,1] transposed=true\n return y"),
      "f32[1,4,6,6]");
  EXPECT_EQ(inferred("x: f32[1,2,3]\n y = conv(x, random:f32[2,2,3]) strides=[2] output_shape=[6] "
                     "transposed=true group=2\n return y"),
            "f32[1,4,6]");
}
TEST(Infer, RefusalsSayWhat) {
  EXPECT_EQ(inferred("x: f32[2,7]\n y = linear(x, random:f32[16,8])\n return y"),
            "input 0 is f32[2,7], expected inner size 8, as the weight [16,8] has");
  EXPECT_EQ(inferred("a: f32[2,3]\n b: f32[2,4]\n y = binary(a, b) kind=add\n return y"),
            "input 1 is f32[2,4], expected a shape that broadcasts with input 0, [2,3]");
  EXPECT_EQ(inferred("a: f32[2]\n b: s32[2]\n y = binary(a, b) kind=add\n return y"),
            "input 1 is s32[2], expected elements of type f32 as input 0");
  EXPECT_THAT(inferred("x: f32[2,3]\n y = reshape(x, s64{4,2})\n return y"),
              HasSubstr("cannot reshape [2,3] to [4,2]"));
  EXPECT_THAT(inferred("x: f32[2,3]\n y = transpose(x) perm=[0,0]\n return y"),
              HasSubstr("perm names axis 0 twice"));
  EXPECT_THAT(inferred("x: f32[2,3]\n y = softmax(x) axis=2\n return y"),
              HasSubstr("axis 2 is outside a tensor of rank 2"));
  EXPECT_THAT(inferred("x: f32[1,3,2,2]\n y = conv(x, random:f32[4,3,3,3])\n return y"),
              HasSubstr("too small for a kernel of 3"));
  for (const char* strides : {"[65537,1]", "[257,257]", "[1,2147483647]"})
    EXPECT_THAT(inferred("x: f32[1,3,1,1]\n y = conv(x, random:f32[3,4,3,3]) strides=" +
                         std::string(strides) + " transposed=true\n return y"),
                HasSubstr("the product of its strides"));
  EXPECT_THAT(inferred("x: f32[1,4,8,8]\n y = conv(x, random:f32[4,3,3,3])\n return y"),
              HasSubstr("expected 3 channels"));
  EXPECT_THAT(inferred("x: f32[1,2,3]\n y = batch_norm(x, f32[2]{1,1}, f32[2]{0,0}, f32[2]{0,0}, "
                       "f32[3]{1,1,1})\n return y"),
              HasSubstr("input 4 is f32[3], expected [2]"));
  EXPECT_THAT(inferred("x: f32[2,3]\n y = concat(x, x) axis=-3\n return y"),
              HasSubstr("axis -3 is outside"));
  EXPECT_THAT(inferred("x: f32[4]\n y = top_k(x, s64{5})\n return y"), HasSubstr("k is 5"));
}
TEST(Infer, HostileShapesAreErrors) {
  EXPECT_THAT(inferred("x: f32[2,3]\n y = unsqueeze(x) axes=[0,1,2,3,4,5,6]\n return y"),
              HasSubstr("rank 9"));
  EXPECT_THAT(
      inferred("x: f32[1]\n y = expand(x, s64{4000000000,4000000000,4000000000})\n return y"),
      HasSubstr("more elements than fold8 can hold"));
  EXPECT_THAT(inferred("x: f32[2]\n y = constant_of_shape(s64{-4})\n return y"), HasSubstr("[-4]"));
  EXPECT_THAT(inferred("x: f32[2]\n y = tile(x, s64{9223372036854775807})\n return y"),
              ::testing::Not(HasSubstr("=[")));
  EXPECT_THAT(inferred("x: f32[1,1,4]\n y = pool(x) kind=max kernel=[0]\n return y"),
              HasSubstr("kernel holds 0"));
  EXPECT_THAT(inferred("x: f32[2]\n y = slice(x, s64{0}, s64{2}, s64{0}, s64{0})\n return y"),
              HasSubstr("step of axis 0 is 0"));
  EXPECT_EQ(inferred("x: f32[2]\n y = slice(x, s64{1}, s64{-9223372036854775807}, s64{0}, "
                     "s64{-9223372036854775807})\n return y"),
            "f32[1]");
  EXPECT_THAT(inferred("x: f32[2]\n y = range(f32[]{0}, f32[]{1}, f32[]{0})\n return y"),
              HasSubstr("a range from"));
}

TEST(Prepare, OutputsNobodyReads) {
  EXPECT_THAT(
      failure("x: f32[2,4]\n _, s = norm(x) kind=layer\n return s", {random_f32({2, 4}, 1)}),
      HasSubstr("whose first output nobody reads"));
  const auto r = run_text("x: f32[1,3]\n _, i = top_k(x, s64{1})\n return i",
                          {value<float>({1, 3}, {1, 3, 2})});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->at(0).as<std::int64_t>(), std::vector<std::int64_t>{1});
}

}  // namespace
}  // namespace fold8::ops
