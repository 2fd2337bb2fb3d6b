// Sessions that keep states beside sessions that are fed them back.
#pragma once

#include <cmath>

#include "tests/exec/exec_support.h"

namespace fold8::testing {

// Two heads of keys for four of queries over past and new tokens, as one operator.
inline std::string one_attention(bool int8) {
  return R"(
    x: f32[b,s,16]
    mask: f32[b,1,s,t]
    past_k: f32[b,2,p,8]
    past_v: f32[b,2,p,8]
    q = linear(x, random:f32[32,16])
    k = linear(x, random:f32[16,16])
    v = linear(x, random:f32[16,16])
    a, all_k, all_v = attention(q, k, v, mask, past_k, past_v) heads=4 kv_heads=2 depth=8 value_depth=8 scale=0.3 q_rows=true k_rows=true v_rows=true y_rows=true)" +
         std::string(int8 ? " int8=true" : "") + R"(
    y = linear(a, random:f32[16,32])
    return y, all_k, all_v
  )";
}

inline Tensor mask_of(std::int64_t b, std::int64_t s, std::int64_t past) {
  Tensor m(DType::f32, Shape{b, 1, s, past + s});
  auto v = m.as<float>();
  for (std::int64_t i = 0; i < b * s; ++i)
    for (std::int64_t j = 0; j < past + s; ++j)
      v[static_cast<std::size_t>(i * (past + s) + j)] = j > past + i % s ? -INFINITY : 0.0f;
  return m;
}

struct Pair {
  const char *output, *input;
};

// Runs both ways with x of [.., s, ..] for each s of `steps`, and compares everything.
class Twins {
 public:
  Twins(std::string_view text, std::vector<Pair> pairs, exec::SessionOptions options = {},
        std::int64_t capacity = 0)
      : model_(model_of(text)),
        kept_(session_of(model_, options)),
        fed_(session_of(model_, options)) {
    for (const Pair& p : pairs) {
      const auto added = kept_->add_state(p.output, p.input, capacity);
      EXPECT_TRUE(added.ok()) << added.error().message;
    }
    const graph::Graph& g = model_->graph();
    for (std::size_t i = 0; i < kept_->state_count(); ++i) {
      output_.push_back(index_of(g.outputs, g.find_value(pairs[i].output)));
      input_.push_back(index_of(g.inputs, g.find_value(pairs[i].input)));
    }
  }

  exec::Session& kept() { return *kept_; }
  std::vector<Tensor>& fed_states() { return states_; }

  // `given`: all inputs; those of states hold what the very first run has.
  void run(std::vector<Tensor> given) {
    if (states_.empty())
      for (std::size_t i : input_) states_.push_back(given[i]);
    for (std::size_t i = 0; i < input_.size(); ++i) given[input_[i]] = states_[i];
    std::vector<TensorView> views;
    for (const Tensor& t : given) views.push_back(t.view());
    const auto want = fed_->run(views);
    ASSERT_TRUE(want.ok()) << want.error().message;
    for (std::size_t i : input_) views[i] = {};
    const auto got = kept_->run(views);
    ASSERT_TRUE(got.ok()) << got.error().message;
    const std::vector<Tensor> outputs = outputs_of(*fed_);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const TensorView& y = kept_->outputs()[o];
      const auto state = std::find(output_.begin(), output_.end(), o);
      if (state == output_.end()) {
        ASSERT_EQ(y.shape, outputs[o].shape());
        EXPECT_EQ(std::memcmp(y.data, outputs[o].view().data, outputs[o].bytes()), 0);
      } else {
        EXPECT_EQ(y.data, nullptr);
        const auto s = kept_->state(static_cast<std::size_t>(state - output_.begin()));
        ASSERT_TRUE(s.ok()) << s.error().message;
        expect_same_bytes(*s, outputs[o]);
      }
    }
    for (std::size_t i = 0; i < output_.size(); ++i) states_[i] = outputs[output_[i]];
  }

 private:
  static std::size_t index_of(const std::vector<graph::ValueId>& list, graph::ValueId v) {
    return static_cast<std::size_t>(std::find(list.begin(), list.end(), v) - list.begin());
  }
  std::shared_ptr<const exec::Model> model_;
  std::unique_ptr<exec::Session> kept_, fed_;
  std::vector<std::size_t> output_, input_;
  std::vector<Tensor> states_;  // of the session that is fed
};

inline void attend(Twins& twins, SeededRng& rng, std::int64_t b, std::int64_t s) {
  const std::int64_t past =
      twins.fed_states().empty() ? 0 : twins.fed_states()[0].shape().extent(2);
  twins.run({random_tensor(DType::f32, Shape{b, s, 16}, rng), mask_of(b, s, past),
             Tensor(DType::f32, Shape{b, 2, 0, 8}), Tensor(DType::f32, Shape{b, 2, 0, 8})});
}

}  // namespace fold8::testing
