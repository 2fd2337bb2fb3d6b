// The arena of real networks is hardly larger than what lives in it at once.
#include <gtest/gtest.h>

#include <cstdio>

#include "runtime/exec/session.h"
#include "tests/api/allocation_models.h"

namespace fold8::testing {
namespace {

constexpr double kMost = 1.1;  // of the bytes live at the fullest step

class ArenaBound : public ::testing::TestWithParam<AllocationCase> {};

TEST_P(ArenaBound, IsNear) {
  const std::string path = convert_to_file(GetParam());
  const auto model = exec::Model::load(path);
  std::remove(path.c_str());
  ASSERT_TRUE(model.ok()) << model.error().message;
  for (const std::int64_t batch : {1, 7})
    for (const int threads : {1, 2}) {
      exec::SessionOptions options;
      options.threads = threads;
      auto session = exec::Session::create(*model, options);
      ASSERT_TRUE(session.ok()) << session.error().message;
      std::vector<std::int64_t> dims = GetParam().dims;
      dims[0] = batch;
      const Tensor x(DType::f32, Shape(std::span<const std::int64_t>(dims)));
      const auto ran = (*session)->run({x.view()});
      ASSERT_TRUE(ran.ok()) << ran.error().message;
      EXPECT_GE((*session)->arena_bytes(), (*session)->least_arena_bytes());
      EXPECT_LE(static_cast<double>((*session)->arena_bytes()),
                kMost * static_cast<double>((*session)->least_arena_bytes()))
          << "batch " << batch << ", " << threads << " threads";
    }
}

INSTANTIATE_TEST_SUITE_P(Networks, ArenaBound, ::testing::ValuesIn(allocation_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace fold8::testing
