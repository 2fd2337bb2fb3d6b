// Outputs that are kept as inputs: the same bytes as feeding them back by hand.
#include "tests/exec/states_support.h"

namespace fold8 {
namespace {

using testing::attend;
using ::testing::HasSubstr;
using testing::mask_of;
using testing::SeededRng;
using testing::Twins;

// Two heads of 8 over past and new tokens; the mask covers both.
constexpr const char* kAttention = R"(
    x: f32[b,s,16]
    mask: f32[b,1,s,t]
    past_k: f32[b,2,p,8]
    past_v: f32[b,2,p,8]
    q = linear(x, random:f32[16,16])
    k = linear(x, random:f32[16,16])
    v = linear(x, random:f32[16,16])
    qh = reshape(q, s64{0,0,2,8})
    kh = reshape(k, s64{0,0,2,8})
    vh = reshape(v, s64{0,0,2,8})
    qt = transpose(qh) perm=[0,2,1,3]
    kt = transpose(kh) perm=[0,2,1,3]
    vt = transpose(vh) perm=[0,2,1,3]
    all_k = concat(past_k, kt) axis=2
    all_v = concat(past_v, vt) axis=2
    scores = matmul(qt, all_k) transpose_b=true
    masked = add(scores, mask)
    p = softmax(masked)
    a = matmul(p, all_v)
    at = transpose(a) perm=[0,2,1,3]
    f = reshape(at, s64{0,0,16})
    y = linear(f, random:f32[16,16])
    return y, all_k, all_v
  )";

// Positions come from the length of the past, as exporters write it.
constexpr const char* kPositions = R"(
    x: f32[1,s,4]
    past: f32[1,p,4]
    ps = shape_of(past)
    from = gather(ps, s64{1}) axis=0
    xs = shape_of(x)
    n = gather(xs, s64{1}) axis=0
    to = add(from, n)
    a = squeeze(from) axes=[0]
    z = squeeze(to) axes=[0]
    r = range(a, z, s64[]{1})
    f = cast(r) to=f32
    u = unsqueeze(f) axes=[0,2]
    xp = add(x, u)
    all = concat(past, xp) axis=1
    m = reduce_sum(all) axes=[1] keep_dims=true
    y = add(xp, m)
    return y, all
  )";

TEST(States, AttentionOverAGrowingPastOnEveryTarget) {
  testing::on_every_target([] {
    SeededRng rng(1);
    Twins twins(kAttention, {{"all_k", "past_k"}, {"all_v", "past_v"}});
    for (const std::int64_t s : {5, 1, 1, 1, 3, 1, 1}) attend(twins, rng, 2, s);
    for (int i = 0; i < 70; ++i) attend(twins, rng, 2, 1);  // past the first capacity
    EXPECT_EQ(twins.kept().state_length(0), 83);
  });
}

TEST(States, FewPlansForManyLengths) {
  SeededRng rng(1);
  Twins twins(kAttention, {{"all_k", "past_k"}, {"all_v", "past_v"}});
  attend(twins, rng, 1, 4);
  for (int i = 0; i < 55; ++i) attend(twins, rng, 1, 1);
  EXPECT_EQ(twins.kept().plans_made(), 2u);  // for 4 tokens, for 1 token
  for (int i = 0; i < 20; ++i) attend(twins, rng, 1, 1);
  EXPECT_EQ(twins.kept().plans_made(), 3u);  // and for 1 token with twice the capacity
}

TEST(States, FirstRunOfOneToken) {
  SeededRng rng(1);
  Twins twins(kAttention, {{"all_k", "past_k"}, {"all_v", "past_v"}});
  for (int i = 0; i < 40; ++i) attend(twins, rng, 1, 1);
  EXPECT_EQ(twins.kept().plans_made(), 1u);
}

TEST(States, PositionsFromTheLengthOfThePast) {
  SeededRng rng(1);
  Twins twins(kPositions, {{"all", "past"}});
  std::int64_t length = 0;
  for (int i = 0; i < 90; ++i) {
    const std::int64_t s = i % 30 == 0 ? 3 : 1;
    twins.run({testing::random_tensor(DType::f32, Shape{1, s, 4}, rng),
               Tensor(DType::f32, Shape{1, 0, 4})});
    length += s;
    ASSERT_EQ(twins.kept().state_length(0), length);
  }
  EXPECT_LE(twins.kept().plans_made(), 4u);
}

TEST(States, OneThatDoesNotGrowIsReplaced) {
  SeededRng rng(1);
  Twins twins("x: f32[2,3]\nh: f32[2,3]\na = add(x, h)\nn = tanh(a)\ny = neg(n)\nreturn y, n",
              {{"n", "h"}});
  for (int i = 0; i < 5; ++i)
    twins.run({testing::random_tensor(DType::f32, Shape{2, 3}, rng), Tensor(DType::f32, {2, 3})});
  EXPECT_EQ(twins.kept().state_length(0), 0);
}

TEST(States, ResetAndTruncate) {
  const auto model = testing::model_of(kPositions);
  auto s = testing::session_of(model), fresh = testing::session_of(model);
  for (auto* session : {s.get(), fresh.get()}) ASSERT_TRUE(session->add_state("all", "past").ok());
  EXPECT_FALSE(s->state(0).ok());  // nothing there yet
  SeededRng rng(1);
  const Tensor a = testing::random_tensor(DType::f32, Shape{1, 4, 4}, rng),
               b = testing::random_tensor(DType::f32, Shape{1, 1, 4}, rng);
  const auto run = [](exec::Session& session, const Tensor& x) {
    const auto ok = session.run({x.view(), {}});
    ASSERT_TRUE(ok.ok()) << ok.error().message;
  };
  run(*s, a);
  run(*s, b);
  const auto want = testing::outputs_of(*s)[0];
  EXPECT_THAT(s->truncate_states(6).error().message, HasSubstr("length 5"));
  ASSERT_TRUE(s->truncate_states(4).ok());
  run(*s, b);
  testing::expect_same_bytes(testing::outputs_of(*s)[0], want);
  s->reset_states();
  run(*s, a);
  run(*fresh, a);
  testing::expect_same_bytes(*s->state(0), *fresh->state(0));
}

TEST(States, AFailedRunLeavesThemAsTheyWere) {
  const auto model = testing::model_of(
      "i: s64[s]\npast: f32[p,2]\nr = gather(f32[3,2]{1,2,3,4,5,6}, i)\nall = concat(past, r) "
      "axis=0\nreturn all");
  auto s = testing::session_of(model);
  ASSERT_TRUE(s->add_state("all", "past").ok());
  const Tensor good = testing::tensor<std::int64_t>(Shape{1}, {2}),
               bad = testing::tensor<std::int64_t>(Shape{1}, {3});
  ASSERT_TRUE(s->run({good.view(), {}}).ok());
  EXPECT_FALSE(s->run({bad.view(), {}}).ok());
  ASSERT_TRUE(s->run({good.view(), {}}).ok());
  EXPECT_EQ(testing::elements<float>(*s->state(0)), (std::vector<float>{5, 6, 5, 6}));
}

TEST(States, ShapesThatDependOnDataArePlannedAnew) {
  SeededRng rng(1);
  Twins twins(
      "x: f32[s]\npast: f32[p]\nall = concat(past, x) axis=0\ni = non_zero(all)\n"
      "f = cast(i) to=f32\ny = neg(f)\nreturn y, all",
      {{"all", "past"}});
  for (int i = 0; i < 80; ++i)
    twins.run({testing::tensor<float>(Shape{1}, {i % 3 == 0 ? 0.0f : 1.0f}),
               Tensor(DType::f32, Shape{0})});
}

TEST(States, PatternsNameThemAll) {
  const auto model = testing::model_of(
      "x: f32[s]\npast.0.k: f32[p]\npast.1.k: f32[p]\npresent.0.k = concat(past.0.k, x) axis=0\n"
      "n = neg(x)\npresent.1.k = concat(past.1.k, n) axis=0\nreturn present.0.k, present.1.k");
  auto s = testing::session_of(model);
  ASSERT_TRUE(s->add_state("present.*.k", "past.*.k", 16).ok());
  EXPECT_EQ(s->state_count(), 2u);
  const Tensor x = testing::tensor<float>(Shape{1}, {3});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(s->run({x.view(), {}, {}}).ok());
  EXPECT_EQ(testing::elements<float>(*s->state(1)), (std::vector<float>{-3, -3, -3}));
}

// At once where the declared shapes tell, else in the first run and not the second.
TEST(States, WhatCanNeverFitIsRefusedAtOnce) {
  auto fixed = testing::session_of(
      testing::model_of("x: f32[2,3]\nh: f32[2,2]\na = reduce_sum(h) axes=[1]\ny = add(x, a)\n"
                        "return y"));
  EXPECT_THAT(fixed->add_state("y", "h").error().message,
              HasSubstr("can never be the input [2,2]"));
  auto found = testing::session_of(
      testing::model_of("x: f32[n,3]\nh: f32[2,3]\na = reduce_sum(h) axes=[0]\ny = add(x, a)\n"
                        "return y"));
  ASSERT_TRUE(found->add_state("y", "h").ok());
  const Tensor two(DType::f32, Shape{2, 3}), three(DType::f32, Shape{3, 3});
  EXPECT_TRUE(found->run({two.view(), {}}).ok());
  EXPECT_THAT(found->run({three.view(), {}}).error().message,
              HasSubstr("the output is [3,3], which cannot be the input [2,3] of the next run"));
  EXPECT_TRUE(found->run({two.view(), {}}).ok());
  auto large = testing::session_of(testing::model_of(testing::one_attention(true)),
                                   {.memory_limit = 1 << 20});
  ASSERT_TRUE(large->add_state("all_*", "past_*", 1 << 20).ok());
  const Tensor x(DType::f32, Shape{1, 1, 16}), mask = mask_of(1, 1, 0);
  EXPECT_THAT(large->run({x.view(), mask.view(), {}, {}}).error().message,
              HasSubstr("give a smaller capacity"));
}

TEST(States, WhatCannotBeKeptIsRefused) {
  const auto model =
      testing::model_of("x: f32[s]\npast: f32[p,q]\ny = neg(x)\nz = abs(past)\nreturn y, z");
  auto s = testing::session_of(model);
  const auto why = [&](const char* out, const char* in) {
    const auto added = s->add_state(out, in);
    return added.ok() ? std::string() : added.error().message;
  };
  EXPECT_THAT(why("y", "past"), HasSubstr("the output is f32[s]"));
  EXPECT_THAT(why("none", "past"), HasSubstr("no output"));
  EXPECT_THAT(why("z", "none"), HasSubstr("no input 'none'"));
  EXPECT_THAT(why("*", "past"), HasSubstr("the same number of '*'"));
  EXPECT_FALSE(s->add_state("z", "past", -1).ok());
}

}  // namespace
}  // namespace fold8
