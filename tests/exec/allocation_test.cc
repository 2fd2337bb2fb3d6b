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

// Tokens of a decoder: the past is one longer each time, and nothing is planned or allocated.
constexpr const char* kPartsOfAttention = R"(
      x: f32[b,s,16]
      mask: f32[b,1,s,t]
      past: f32[b,2,p,8]
      k = linear(x, random:f32[16,16])
      r = reshape(k, s64{0,0,2,8})
      n = transpose(r) perm=[0,2,1,3]
      all = concat(past, n) axis=2
      scores = matmul(n, all) transpose_b=true
      masked = add(scores, mask)
      p = softmax(masked)
      a = matmul(p, all)
      o = transpose(a) perm=[0,2,1,3]
      f = reshape(o, s64{0,0,16})
      y = linear(f, random:f32[16,16])
      return y, all
    )";
constexpr const char* kAttention = R"(
      x: f32[b,s,16]
      mask: f32[b,1,s,t]
      past: f32[b,2,p,8]
      past_v: f32[b,2,p,8]
      k = linear(x, random:f32[16,16])
      a, all, all_v = attention(k, k, k, mask, past, past_v) heads=2 kv_heads=2 depth=8 value_depth=8 int8=true q_rows=true k_rows=true v_rows=true y_rows=true
      y = linear(a, random:f32[16,16])
      return y, all, all_v
    )";

void expect_no_allocation_while_growing(const char* text, bool values) {
  for (const int threads : {1, 2}) {
    auto s = testing::session_of(testing::model_of(text), {.threads = threads});
    ASSERT_TRUE(s->add_state("all", "past", 128).ok());
    if (values) {
      ASSERT_TRUE(s->add_state("all_v", "past_v", 128).ok());
    }
    const Tensor x(DType::f32, Shape{1, 1, 16});
    std::vector<Tensor> masks;
    for (std::int64_t t = 1; t <= 128; ++t) masks.emplace_back(DType::f32, Shape{1, 1, 1, t});
    std::vector<std::vector<TensorView>> inputs;
    for (const Tensor& m : masks) {
      inputs.push_back({x.view(), m.view(), {}});
      if (values) inputs.back().emplace_back();
    }
    std::size_t i = 0;
    while (i < 4) ASSERT_TRUE(s->run(inputs[i++]).ok());
    const std::size_t plans = s->plans_made();
    bool ok = true;
    const int calls = testing::allocator_calls([&] {
      while (i < 100) ok = s->run(inputs[i++]).ok() && ok;
    });
    EXPECT_TRUE(ok);
    // The reference is written to be read: its attention has vectors.
    if (s->model().target().name != "reference") {
      EXPECT_EQ(calls, 0);
    }
    EXPECT_EQ(s->plans_made(), plans);
    EXPECT_EQ(s->state_length(0), 100);
  }
}

TEST(Allocation, NoneWhileAStateGrows) {
  expect_no_allocation_while_growing(kPartsOfAttention, false);
}
TEST(Allocation, NoneWhileAttentionAppendsInPlace) {
  expect_no_allocation_while_growing(kAttention, true);
}

}  // namespace
}  // namespace fold8
