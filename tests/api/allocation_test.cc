// Runs 2 to 100 of a shape ask for no memory and give none back: networks of tests/data converted
// with scales from samples and with dynamic ones, through both interfaces.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <new>

#include "runtime/api/fold8.hpp"
#include "tests/api/allocation_models.h"
#include "tests/support/count_allocations.h"

namespace {

using fold8::testing::AllocationCase;

class Allocation : public ::testing::TestWithParam<AllocationCase> {
 protected:
  void SetUp() override { path_ = fold8::testing::convert_to_file(GetParam()); }
  void TearDown() override { std::remove(path_.c_str()); }
  std::string path_;
};

// Calls of the allocator while `run` is called 99 times.
template <class F>
int calls_of(F run) {
  return fold8::testing::allocator_calls([&] {
    for (int i = 2; i <= 100; ++i) run();
  });
}

TEST_P(Allocation, NoneThroughTheCInterface) {
  for (const int threads : {1, 2}) {
    fold8_model* model = nullptr;
    ASSERT_EQ(fold8_model_load(path_.c_str(), 0, &model), FOLD8_OK) << fold8_last_error();
    fold8_session_options options;
    fold8_session_options_init(&options);
    options.threads = threads;
    fold8_session* session = nullptr;
    ASSERT_EQ(fold8_session_create(model, &options, &session), FOLD8_OK) << fold8_last_error();
    std::vector<std::int64_t> dims = GetParam().dims;
    std::vector<float> x(GetParam().elements(), 0.5f);
    fold8_tensor y{};
    y.struct_size = sizeof y;
    bool ok = true;
    const auto run = [&] {
      ok &= fold8_session_set_input(session, 0, FOLD8_F32, static_cast<std::int32_t>(dims.size()),
                                    dims.data(), x.data()) == FOLD8_OK;
      ok &= fold8_session_run(session) == FOLD8_OK;
      ok &= fold8_session_output(session, 0, &y) == FOLD8_OK;
    };
    run();
    ASSERT_TRUE(ok) << fold8_last_error();
    EXPECT_EQ(calls_of(run), 0) << threads << " threads";
    EXPECT_TRUE(ok);
    fold8_session_release(session);
    fold8_model_release(model);
  }
}

TEST_P(Allocation, NoneThroughTheCppInterface) {
  for (const int threads : {1, 2}) {
    const fold8::Model model(path_);
    fold8::SessionOptions options;
    options.threads = threads;
    fold8::Session session(model, options);
    const std::vector<std::int64_t> dims = GetParam().dims;
    const std::vector<float> x(GetParam().elements(), 0.5f);
    float sum = 0;
    const auto run = [&] {
      session.set_input<float>(0, fold8::Span<const std::int64_t>(dims),
                               fold8::Span<const float>(x));
      session.run();
      for (const float v : session.output(0).as<float>()) sum += v;
    };
    run();
    EXPECT_EQ(calls_of(run), 0) << threads << " threads";
    EXPECT_EQ(sum, sum);
  }
}

// Two shapes that take turns, as sentences do: both plans are kept.
TEST_P(Allocation, NoneWhenSeenShapesTakeTurns) {
  if (!GetParam().free_batch) return;
  const fold8::Model model(path_);
  fold8::Session session(model);
  std::vector<std::int64_t> one = GetParam().dims, three = one;
  three[0] = 3;
  const std::vector<float> x(3 * GetParam().elements(), 0.5f);
  const auto run = [&] {
    for (const auto& dims : {std::cref(one), std::cref(three)}) {
      session.set_input(0, FOLD8_F32, fold8::Span<const std::int64_t>(dims.get()), x.data());
      session.run();
    }
  };
  run();
  EXPECT_EQ(calls_of(run), 0);
}

TEST(AllocationCounter, Counts) {
  // Called by name: may not be optimized away.
  const int calls = fold8::testing::allocator_calls([] { ::operator delete(::operator new(8)); });
  EXPECT_GE(calls, 1);
}

INSTANTIATE_TEST_SUITE_P(Networks, Allocation,
                         ::testing::ValuesIn(fold8::testing::allocation_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
