// Keys and values that attention appends to where they lie.
#include "runtime/exec/relayout.h"
#include "tests/exec/states_support.h"

namespace fold8 {
namespace {

using testing::attend;
using testing::mask_of;
using testing::one_attention;
using testing::SeededRng;
using testing::Twins;

// In place, for all capacities and cuts: as when whole tensors are fed back.
TEST(StatesInPlace, TheSameBytesOnEveryTarget) {
  testing::on_every_target([] {
    for (const bool int8 : {false, true})
      for (const std::int64_t capacity : {0, 3, 100, 1000}) {
        SeededRng rng(1);
        Twins twins(one_attention(int8), {{"all_k", "past_k"}, {"all_v", "past_v"}},
                    {.threads = capacity == 3 ? 2 : 1}, capacity);
        for (const std::int64_t s : {70, 1, 1, 5, 60, 1, 3}) attend(twins, rng, 2, s);
        EXPECT_EQ(twins.kept().state_length(1), 141);
      }
  });
}

TEST(StatesInPlace, OnlyKeys) {
  SeededRng rng(1);
  auto model = testing::model_of(one_attention(true));
  auto both = testing::session_of(model), keys = testing::session_of(model);
  ASSERT_TRUE(both->add_state("all_*", "past_*").ok());
  ASSERT_TRUE(keys->add_state("all_k", "past_k").ok());
  Tensor values(DType::f32, Shape{1, 2, 0, 8});
  for (std::int64_t past = 0; past < 90; ++past) {
    const Tensor x = testing::random_tensor(DType::f32, Shape{1, 1, 16}, rng),
                 mask = mask_of(1, 1, past);
    ASSERT_TRUE(both->run({x.view(), mask.view(), {}, {}}).ok());
    const auto ran = keys->run({x.view(), mask.view(), {}, values.view()});
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    values = testing::outputs_of(*keys)[2];
    testing::expect_same_bytes(testing::outputs_of(*keys)[0], testing::outputs_of(*both)[0]);
    testing::expect_same_bytes(values, *both->state(1));
  }
}

// What lies in place is seen from outside as the tensor it is.
TEST(StatesInPlace, DenseForOthers) {
  SeededRng rng(1);
  auto model = testing::model_of(one_attention(true));
  const graph::Graph& g = model->graph();
  auto s = testing::session_of(model);
  ASSERT_TRUE(s->add_state("all_*", "past_*", 50).ok());
  std::vector<Tensor> seen;
  s->set_tap([&](graph::ValueId v, const TensorView& t) -> Status {
    if (v != g.find_value("all_v")) return ok_status();
    seen.emplace_back(t.dtype, t.shape);
    exec::copy_tensor(t, seen.back().view());
    return ok_status();
  });
  for (std::int64_t past : {0, 3}) {
    const Tensor x = testing::random_tensor(DType::f32, Shape{1, 3, 16}, rng),
                 mask = mask_of(1, 3, past);
    ASSERT_TRUE(s->run({x.view(), mask.view(), {}, {}}).ok());
    testing::expect_same_bytes(seen.back(), *s->state(1));
    testing::expect_same_bytes(*s->value(g.find_value("all_v")), *s->state(1));
  }
  testing::expect_same_bytes(*s->value(g.find_value("past_v")), seen[0]);
}

TEST(StatesInPlace, WhatIsForgottenComesAnew) {
  for (const bool int8 : {false, true}) {
    SeededRng rng(1);
    auto model = testing::model_of(one_attention(int8));
    auto s = testing::session_of(model), fresh = testing::session_of(model);
    for (auto* session : {s.get(), fresh.get()})
      ASSERT_TRUE(session->add_state("all_*", "past_*").ok());
    const auto run = [&](exec::Session& session, const Tensor& x, std::int64_t past) {
      const Tensor mask = mask_of(x.shape().extent(0), x.shape().extent(1), past);
      const auto ran = session.run({x.view(), mask.view(), {}, {}});
      ASSERT_TRUE(ran.ok()) << ran.error().message;
    };
    const auto tokens = [&](std::int64_t b, std::int64_t n) {
      return testing::random_tensor(DType::f32, Shape{b, n, 16}, rng);
    };
    const Tensor prompt = tokens(1, 67), next = tokens(1, 2), two = tokens(2, 9);
    run(*s, prompt, 0);
    run(*s, tokens(1, 40), 67);  // rejected
    ASSERT_TRUE(s->truncate_states(67).ok());
    run(*s, next, 67);
    run(*fresh, prompt, 0);
    run(*fresh, next, 67);
    testing::expect_same_bytes(testing::outputs_of(*s)[0], testing::outputs_of(*fresh)[0]);
    testing::expect_same_bytes(*s->state(0), *fresh->state(0));
    for (auto* session : {s.get(), fresh.get()}) session->reset_states();  // and a larger batch
    run(*s, tokens(2, 100), 0);
    s->reset_states();
    run(*s, two, 0);
    run(*fresh, two, 0);
    testing::expect_same_bytes(testing::outputs_of(*s)[0], testing::outputs_of(*fresh)[0]);
  }
}

// The attention has run and written its rows, then something behind it fails.
TEST(StatesInPlace, AFailedRunLeavesThemAsTheyWere) {
  SeededRng rng(1);
  auto model = testing::model_of(R"(
    x: f32[1,s,8]
    i: s64[1]
    past_k: f32[1,2,p,4]
    past_v: f32[1,2,p,4]
    a, all_k, all_v = attention(x, x, x, _, past_k, past_v) heads=2 kv_heads=2 depth=4 value_depth=4 int8=true q_rows=true k_rows=true v_rows=true y_rows=true
    f = reduce_sum(a) axes=[0,1,2] keep_dims=false
    g = gather(f32[2]{1,2}, i)
    y = add(f, g)
    return y, all_k, all_v
  )");
  auto s = testing::session_of(model), calm = testing::session_of(model);
  for (auto* session : {s.get(), calm.get()})
    ASSERT_TRUE(session->add_state("all_*", "past_*").ok());
  const Tensor good = testing::tensor<std::int64_t>(Shape{1}, {1}),
               bad = testing::tensor<std::int64_t>(Shape{1}, {7});
  for (int t = 0; t < 5; ++t) {
    const Tensor x = testing::random_tensor(DType::f32, Shape{1, 1, 8}, rng),
                 other = testing::random_tensor(DType::f32, Shape{1, 1, 8}, rng);
    EXPECT_FALSE(s->run({other.view(), bad.view(), {}, {}}).ok());
    ASSERT_TRUE(s->run({x.view(), good.view(), {}, {}}).ok());
    ASSERT_TRUE(calm->run({x.view(), good.view(), {}, {}}).ok());
    testing::expect_same_bytes(testing::outputs_of(*s)[0], testing::outputs_of(*calm)[0]);
  }
}

// Others read the past too: it stays dense.
TEST(StatesInPlace, ReadersOfThePastKeepThemApart) {
  SeededRng rng(1);
  std::string text = one_attention(true);
  text.replace(text.find("return y"), 8,
               "past_sum = reduce_sum(past_k) axes=[2]\n return y, past_sum");
  Twins twins(text, {{"all_k", "past_k"}, {"all_v", "past_v"}});
  for (const std::int64_t n : {3, 1, 70, 1}) attend(twins, rng, 2, n);
}

}  // namespace
}  // namespace fold8
