// A run allocates nothing once a shape has been seen.
#include "tests/exec/exec_support.h"
#include "tests/support/count_allocations.h"

namespace fold8 {
namespace {

void expect_no_allocation(const char* text, const std::vector<Tensor>& inputs, int threads) {
  auto s = testing::session_of(testing::model_of(text), {.threads = threads});
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  ASSERT_TRUE(s->run(views).ok());
  bool ok = false;
  const int allocations =
      testing::allocator_calls([&] { ok = s->run(views).ok() && s->run(views).ok(); });
  EXPECT_TRUE(ok);
  EXPECT_EQ(allocations, 0);
}

TEST(Allocation, TheCounterCounts) {
  std::unique_ptr<int> p;
  EXPECT_GE(testing::allocator_calls([&] { p = std::make_unique<int>(1); }), 1);
}

TEST(Allocation, NoneInFloatRuns) {
  for (const int threads : {1, 2})
    expect_no_allocation(R"(
      x: f32[n,32]
      h = linear(x, random:f32[64,32], random:f32[64]) activation=gelu_erf
      m = layer_norm(h, random_positive:f32[64], random:f32[64])
      r = reshape(m, s64{-1,4,16})
      t = transpose(r) perm=[1,0,2]
      k = matmul(t, t) transpose_b=true
      p = softmax(k)
      y = reduce_mean(p) axes=[2]
      return y, x, h
    )",
                         {Tensor(DType::f32, Shape{6, 32})}, threads);
}

TEST(Allocation, NoneInConvolutions) {
  expect_no_allocation(R"(
    x: f32[n,3,16,16]
    a = conv(x, random:f32[8,3,3,3], random:f32[8]) kernel=[3,3] strides=[2,2] pads=[1,1,1,1] dilations=[1,1] activation=clip b=6
    b = max_pool(a) kernel=[2,2] strides=[2,2] pads=[0,0,0,0] dilations=[1,1]
    y = flatten(b)
    return y
  )",
                       {Tensor(DType::f32, Shape{2, 3, 16, 16})}, 2);
}

TEST(Allocation, NoneWhenDataDependentShapesRepeat) {
  expect_no_allocation("x: f32[n]\ni = non_zero(x)\nf = cast(i) to=f32\ny = neg(f)\nreturn y",
                       {testing::tensor<float>(Shape{4}, {0, 1, 2, 0})}, 1);
}

}  // namespace
}  // namespace fold8
