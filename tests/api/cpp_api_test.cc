// The C++ interface over the C ABI.
#include "runtime/api/fold8.hpp"

#include <gmock/gmock.h>

#include <cstdio>
#include <thread>

#include "tests/api/api_support.h"

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct File {
  explicit File(const std::string& text) : path(fold8::testing::write_model(text)) {}
  ~File() { std::remove(path.c_str()); }
  std::string path;
};

TEST(CppApi, LoadsDescribesRuns) {
  const File file("x: f32[n,2]\ny = add(x, f32[2]{10,20})\nreturn y");
  const fold8::Model model(file.path, /*verify_weights=*/true);
  EXPECT_EQ(model.input_count(), 1u);
  EXPECT_EQ(model.input(0).name, "x");
  EXPECT_THAT(model.input(0).dims, ElementsAre(-1, 2));
  EXPECT_THAT(model.input(0).symbols, ElementsAre("n", ""));
  EXPECT_EQ(model.find_output("y"), 0u);
  fold8::Session session(model);
  const std::vector<float> x = {1, 2, 3, 4};
  session.set_input<float>(0, {2, 2}, fold8::Span<const float>(x));
  session.run();
  const fold8::Output y = session.output(0);
  EXPECT_THAT(std::vector<std::int64_t>(y.dims().begin(), y.dims().end()), ElementsAre(2, 2));
  const auto values = y.as<float>();
  EXPECT_THAT(std::vector<float>(values.begin(), values.end()), ElementsAre(11, 22, 13, 24));
  EXPECT_THROW((void)y.as<std::int8_t>(), fold8::Error);
}

TEST(CppApi, KeepsStates) {
  const File file("x: f32[s]\npast: f32[p]\nnow = concat(past, x) axis=0\nreturn now");
  fold8::Session session{fold8::Model(file.path)};
  session.add_state("now", "past", 8);
  for (const float x : {1.0f, 2.0f, 3.0f}) {
    session.set_input<float>(0, {1}, fold8::Span<const float>(&x, 1));
    session.run();
  }
  session.truncate_states(2);
  const auto kept = session.state(0).as<float>();
  EXPECT_THAT(std::vector<float>(kept.begin(), kept.end()), ElementsAre(1, 2));
  EXPECT_EQ(session.state_length(0), 2);
  session.reset_states();
  EXPECT_EQ(session.state_length(0), 0);
  EXPECT_THROW(session.add_state("now", "past"), fold8::Error);
}

TEST(CppApi, ThrowsWithStatusAndMessage) {
  try {
    fold8::Model model("/missing.f8");
    FAIL();
  } catch (const fold8::Error& e) {
    EXPECT_EQ(e.status(), FOLD8_IO);
    EXPECT_THAT(e.what(), HasSubstr("/missing.f8"));
  }
  const File file("x: f32[2]\ny = relu(x)\nreturn y");
  const fold8::Model model(file.path);
  fold8::Session session(model);
  const float one = 1;
  EXPECT_THROW(session.set_input<float>(0, {2}, fold8::Span<const float>(&one, 1)), fold8::Error);
  EXPECT_THROW(session.run(), fold8::Error);
  EXPECT_THROW(model.input(3), fold8::Error);
}

TEST(CppApi, OneModelManyThreads) {
  const File file("x: f32[n,8]\nh = linear(x, random:f32[16,8])\ny = softmax(h)\nreturn y");
  const fold8::Model model(file.path);
  const std::vector<float> x(24, 0.5f);
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] {
      fold8::SessionOptions options;
      options.threads = 1 + static_cast<int>(t);
      fold8::Session session(model, options);
      session.set_input<float>(0, {3, 8}, fold8::Span<const float>(x));
      for (int i = 0; i < 20; ++i) session.run();
      const auto y = session.output(0).as<float>();
      results[t].assign(y.begin(), y.end());
    });
  for (auto& t : threads) t.join();
  for (const auto& r : results) EXPECT_EQ(r, results[0]);
}

TEST(CppApi, SessionsMoveAndOutliveTheirModel) {
  const File file("x: f32[2]\ny = neg(x)\nreturn y");
  std::vector<fold8::Session> sessions;
  {
    const fold8::Model model(file.path);
    sessions.emplace_back(model);
  }
  const std::vector<float> x = {1, -2};
  sessions[0].set_input<float>(0, {2}, fold8::Span<const float>(x));
  sessions[0].run();
  EXPECT_EQ(sessions[0].output(0).as<float>()[1], 2);
}

}  // namespace
