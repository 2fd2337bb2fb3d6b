// The C ABI, through the shared library.
#include "runtime/api/fold8.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/api/api_support.h"

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* kText = R"(
  x: f32[batch,3]
  i: u8[2] @(0.5,7)
  y = mul(x, f32[3]{1,2,3})
  j = dequantize(i)
  return y, j
)";

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = fold8::testing::write_model(kText);
    ASSERT_EQ(fold8_model_load(path_.c_str(), 0, &model_), FOLD8_OK) << fold8_last_error();
  }
  void TearDown() override {
    fold8_model_release(model_);
    std::remove(path_.c_str());
  }
  std::string path_;
  fold8_model* model_ = nullptr;
};

TEST(CApiLibrary, Version) {
  unsigned major = 0, minor = 0, patch = 0;
  ASSERT_EQ(std::sscanf(fold8_version_string(), "%u.%u.%u", &major, &minor, &patch), 3);
  EXPECT_EQ(fold8_version(), major * 10000 + minor * 100 + patch);
}

TEST(CApiLibrary, DTypes) {
  EXPECT_EQ(fold8_dtype_size(FOLD8_F32), 4u);
  EXPECT_EQ(fold8_dtype_size(FOLD8_S64), 8u);
  EXPECT_STREQ(fold8_dtype_name(FOLD8_U4), "u4");
  EXPECT_EQ(fold8_dtype_size(static_cast<fold8_dtype>(99)), 0u);
  EXPECT_STREQ(fold8_dtype_name(static_cast<fold8_dtype>(-1)), "");
}

TEST_F(CApi, DescribesInputsAndOutputs) {
  ASSERT_EQ(fold8_model_input_count(model_), 2u);
  ASSERT_EQ(fold8_model_output_count(model_), 2u);
  fold8_tensor_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(fold8_model_input_info(model_, 0, &info), FOLD8_OK);
  EXPECT_STREQ(info.name, "x");
  EXPECT_EQ(info.dtype, FOLD8_F32);
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.dims[0], -1);
  EXPECT_STREQ(info.symbols[0], "batch");
  EXPECT_EQ(info.dims[1], 3);
  EXPECT_EQ(info.symbols[1], nullptr);
  EXPECT_EQ(info.quantized, 0);
  ASSERT_EQ(fold8_model_input_info(model_, 1, &info), FOLD8_OK);
  EXPECT_EQ(info.quantized, 1);
  EXPECT_EQ(info.scale, 0.5f);
  EXPECT_EQ(info.zero_point, 7);
  ASSERT_EQ(fold8_model_output_info(model_, 0, &info), FOLD8_OK);
  EXPECT_STREQ(info.name, "y");
  size_t index = 9;
  EXPECT_EQ(fold8_model_find_output(model_, "j", &index), FOLD8_OK);
  EXPECT_EQ(index, 1u);
  EXPECT_EQ(fold8_model_find_input(model_, "nope", &index), FOLD8_INVALID_ARGUMENT);
  EXPECT_THAT(fold8_last_error(), HasSubstr("'x', 'i'"));
  EXPECT_STRNE(fold8_model_target(model_), "");
}

TEST_F(CApi, OlderCallersGetTheirPartOfAStruct) {
  struct {
    fold8_tensor_info info;
    char guard;
  } old{};
  old.guard = 42;
  std::memset(&old.info, 0x55, sizeof old.info);
  old.info.struct_size = offsetof(fold8_tensor_info, rank);
  ASSERT_EQ(fold8_model_input_info(model_, 0, &old.info), FOLD8_OK);
  EXPECT_STREQ(old.info.name, "x");
  EXPECT_EQ(old.info.rank, 0x55555555);  // not touched
  EXPECT_EQ(old.info.struct_size, offsetof(fold8_tensor_info, rank));
  old.info.struct_size = 0;
  EXPECT_EQ(fold8_model_input_info(model_, 0, &old.info), FOLD8_INVALID_ARGUMENT);
}

TEST_F(CApi, RunsAndAModelMayGoFirst) {
  fold8_session* session = nullptr;
  ASSERT_EQ(fold8_session_create(model_, nullptr, &session), FOLD8_OK);
  fold8_model_release(model_);
  model_ = nullptr;
  const float x[] = {1, 2, 3, 4, 5, 6};
  const std::uint8_t i[] = {7, 9};
  const int64_t xd[] = {2, 3}, id[] = {2};
  fold8_tensor out{};
  out.struct_size = sizeof out;
  EXPECT_EQ(fold8_session_output(session, 0, &out), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_session_run(session), FOLD8_INVALID_ARGUMENT);
  EXPECT_THAT(fold8_last_error(), HasSubstr("'x' was not set"));
  ASSERT_EQ(fold8_session_set_input(session, 0, FOLD8_F32, 2, xd, x), FOLD8_OK);
  ASSERT_EQ(fold8_session_set_input(session, 1, FOLD8_U8, 1, id, i), FOLD8_OK);
  ASSERT_EQ(fold8_session_run(session), FOLD8_OK) << fold8_last_error();
  ASSERT_EQ(fold8_session_output(session, 0, &out), FOLD8_OK);
  EXPECT_EQ(out.rank, 2);
  EXPECT_EQ(out.dims[0], 2);
  EXPECT_EQ(out.bytes, sizeof x);
  const float* y = static_cast<const float*>(out.data);
  EXPECT_THAT(std::vector<float>(y, y + 6), ElementsAre(1, 4, 9, 4, 10, 18));
  ASSERT_EQ(fold8_session_output(session, 1, &out), FOLD8_OK);
  EXPECT_EQ(static_cast<const float*>(out.data)[1], 1.0f);
  EXPECT_EQ(fold8_session_output(session, 2, &out), FOLD8_INVALID_ARGUMENT);
  EXPECT_GT(fold8_session_arena_bytes(session), 0u);

  const int64_t wrong[] = {2, 4};
  ASSERT_EQ(fold8_session_set_input(session, 0, FOLD8_F32, 2, wrong, x), FOLD8_OK);
  EXPECT_EQ(fold8_session_run(session), FOLD8_INVALID_ARGUMENT);
  EXPECT_THAT(fold8_last_error(), HasSubstr("axis 1 is 4, expected 3"));
  EXPECT_EQ(fold8_session_output(session, 0, &out), FOLD8_INVALID_ARGUMENT);
  fold8_session_release(session);
}

TEST(CApiStates, GrowReadTruncateReset) {
  const std::string path = fold8::testing::write_model(
      "x: f32[s]\npast.a: f32[p]\nnow.a = concat(past.a, x) axis=0\ny = neg(x)\nreturn y, now.a");
  fold8_model* model = nullptr;
  fold8_session* session = nullptr;
  ASSERT_EQ(fold8_model_load(path.c_str(), 0, &model), FOLD8_OK) << fold8_last_error();
  ASSERT_EQ(fold8_session_create(model, nullptr, &session), FOLD8_OK);
  EXPECT_EQ(fold8_session_add_state(session, "now.b", "past.b", 0), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_session_add_state(session, nullptr, "past.a", 0), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_session_add_state(nullptr, "now.a", "past.a", 0), FOLD8_INVALID_ARGUMENT);
  ASSERT_EQ(fold8_session_add_state(session, "now.*", "past.*", 4), FOLD8_OK) << fold8_last_error();
  EXPECT_EQ(fold8_session_state_count(session), 1u);
  fold8_tensor t{};
  t.struct_size = sizeof t;
  EXPECT_EQ(fold8_session_state(session, 0, &t), FOLD8_INVALID_ARGUMENT);  // nothing has run
  for (int i = 0; i < 6; ++i) {
    const float x = static_cast<float>(i);
    const int64_t one = 1;
    ASSERT_EQ(fold8_session_set_input(session, 0, FOLD8_F32, 1, &one, &x), FOLD8_OK);
    ASSERT_EQ(fold8_session_run(session), FOLD8_OK) << fold8_last_error();
    EXPECT_EQ(fold8_session_state_length(session, 0), i + 1);
  }
  ASSERT_EQ(fold8_session_output(session, 1, &t), FOLD8_OK);
  EXPECT_EQ(t.data, nullptr);
  EXPECT_EQ(t.dims[0], 6);
  ASSERT_EQ(fold8_session_truncate_states(session, 3), FOLD8_OK);
  EXPECT_EQ(fold8_session_truncate_states(session, 4), FOLD8_INVALID_ARGUMENT);
  ASSERT_EQ(fold8_session_state(session, 0, &t), FOLD8_OK);
  const float* kept = static_cast<const float*>(t.data);
  EXPECT_THAT(std::vector<float>(kept, kept + t.dims[0]), ElementsAre(0, 1, 2));
  EXPECT_EQ(fold8_session_state(session, 1, &t), FOLD8_INVALID_ARGUMENT);
  ASSERT_EQ(fold8_session_reset_states(session), FOLD8_OK);
  EXPECT_EQ(fold8_session_state_length(session, 0), 0);
  fold8_session_release(session);
  fold8_model_release(model);
  std::remove(path.c_str());
}

TEST_F(CApi, BadArgumentsAreErrors) {
  fold8_model* m = nullptr;
  fold8_session* s = nullptr;
  EXPECT_EQ(fold8_model_load(nullptr, 0, &m), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_model_load(path_.c_str(), 0, nullptr), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_model_load(path_.c_str(), 1u << 30, &m), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_model_load("/nowhere/at/all.f8", 0, &m), FOLD8_IO);
  EXPECT_THAT(fold8_last_error(), HasSubstr("/nowhere/at/all.f8"));
  EXPECT_EQ(m, nullptr);
  EXPECT_EQ(fold8_model_input_info(nullptr, 0, nullptr), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_model_input_info(model_, 5, nullptr), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_session_create(nullptr, nullptr, &s), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_session_create(model_, nullptr, nullptr), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_session_run(nullptr), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_session_output(nullptr, 0, nullptr), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_model_input_count(nullptr), 0u);
  EXPECT_STREQ(fold8_model_target(nullptr), "");
  fold8_model_release(nullptr);
  fold8_session_release(nullptr);
  fold8_session_options_init(nullptr);

  fold8_session_options options;
  fold8_session_options_init(&options);
  options.engine = "steam";
  EXPECT_EQ(fold8_session_create(model_, &options, &s), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(s, nullptr);
  options.engine = nullptr;
  options.threads = 2;
  ASSERT_EQ(fold8_session_create(model_, &options, &s), FOLD8_OK);
  const int64_t dims[] = {1, 3};
  EXPECT_EQ(fold8_session_set_input(s, 7, FOLD8_F32, 2, dims, dims), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_session_set_input(s, 0, static_cast<fold8_dtype>(77), 2, dims, dims),
            FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_session_set_input(s, 0, FOLD8_F32, 9, dims, dims), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_session_set_input(s, 0, FOLD8_F32, 2, nullptr, dims), FOLD8_INVALID_ARGUMENT);
  EXPECT_EQ(fold8_session_set_input(s, 0, FOLD8_F32, 2, dims, nullptr), FOLD8_OK);
  EXPECT_EQ(fold8_session_set_input(s, 1, FOLD8_U8, 2, dims, dims), FOLD8_OK);
  EXPECT_EQ(fold8_session_run(s), FOLD8_INVALID_ARGUMENT);
  fold8_session_release(s);
}

TEST_F(CApi, ErrorsBelongToTheirThread) {
  fold8_model* m = nullptr;
  EXPECT_NE(fold8_model_load("/first", 0, &m), FOLD8_OK);
  std::thread([] {
    fold8_model* other = nullptr;
    EXPECT_STREQ(fold8_last_error(), "");
    EXPECT_NE(fold8_model_load("/second", 0, &other), FOLD8_OK);
    EXPECT_THAT(fold8_last_error(), HasSubstr("/second"));
  }).join();
  EXPECT_THAT(fold8_last_error(), HasSubstr("/first"));
}

}  // namespace
