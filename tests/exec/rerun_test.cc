// A run of which some values are replaced: what depends on them is computed, nothing else, and the
// run itself remains.
#include "tests/exec/exec_support.h"

#include <set>

namespace fold8 {
namespace {

using testing::elements;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::model_of;
using testing::on_every_target;
using testing::session_of;
using testing::tensor;

std::unique_ptr<exec::Session> session_that_keeps_all(std::shared_ptr<const exec::Model> model) {
  exec::SessionOptions options;
  options.keep_all = true;
  return session_of(std::move(model), options);
}

std::vector<float> output(const exec::Session& s, std::size_t i = 0) {
  const auto values = s.outputs().at(i).as<const float>();
  return {values.begin(), values.end()};
}

graph::ValueId value_of(const exec::Session& s, const std::string& name) {
  const graph::ValueId v = s.model().graph().find_value(name);
  EXPECT_NE(v, graph::kNoValue) << name;
  return v;
}

// Two branches from `a`, one through a view; a third one that does not depend on it.
constexpr const char* kBranches = R"(
  x: f32[2,2]
  a = relu(x)
  v = reshape(a, s64{4})
  w = neg(v)
  b = mul(a, a)
  c = neg(x)
  y = add(b, c)
  return y, w, c, v
)";

TEST(Rerun, RunsWhatDependsOnAReplacedValue) {
  on_every_target([] {
    auto s = session_that_keeps_all(model_of(kBranches));
    ASSERT_TRUE(testing::run(*s, {tensor<float>(Shape{2, 2}, {1, -2, 3, -4})}).ok());
    EXPECT_THAT(output(*s, 0), ElementsAre(0, 2, 6, 4));
    const Tensor b = tensor<float>(Shape{2, 2}, {10, 20, 30, 40});
    for (int twice = 0; twice < 2; ++twice) {
      const Status again = s->rerun({{value_of(*s, "b"), b.view()}});
      ASSERT_TRUE(again.ok()) << again.error().message;
      EXPECT_THAT(output(*s, 0), ElementsAre(9, 22, 27, 44));
      EXPECT_THAT(output(*s, 1), ElementsAre(-1, 0, -3, 0));
    }
    // The next one starts from the run, not from the rerun.
    const Tensor c = tensor<float>(Shape{2, 2}, {0, 0, 0, 1});
    ASSERT_TRUE(s->rerun({{value_of(*s, "c"), c.view()}}).ok());
    EXPECT_THAT(output(*s, 0), ElementsAre(1, 0, 9, 1));
    EXPECT_THAT(output(*s, 2), ElementsAre(0, 0, 0, 1));
    EXPECT_THAT(elements<float>(*s->value(value_of(*s, "b"))), ElementsAre(1, 0, 9, 0));
  });
}

TEST(Rerun, StepsThatDoNotDependAreNotRun) {
  auto s = session_that_keeps_all(model_of(kBranches));
  ASSERT_TRUE(testing::run(*s, {tensor<float>(Shape{2, 2}, {1, -2, 3, -4})}).ok());
  std::set<std::string> ran;
  s->set_tap([&](graph::ValueId v, const TensorView&) {
    ran.insert(s->model().graph().value(v).name);
    return ok_status();
  });
  const Tensor a = tensor<float>(Shape{2, 2}, {1, 1, 1, 1});
  ASSERT_TRUE(s->rerun({{value_of(*s, "a"), a.view()}}).ok());
  EXPECT_THAT(ran, ElementsAre("b", "v", "w", "y"));
}

TEST(Rerun, ViewsFollowWhatTheyAreViewsOf) {
  auto s = session_that_keeps_all(model_of(kBranches));
  ASSERT_TRUE(testing::run(*s, {tensor<float>(Shape{2, 2}, {1, -2, 3, -4})}).ok());
  const Tensor a = tensor<float>(Shape{2, 2}, {5, 6, 7, 8});
  ASSERT_TRUE(s->rerun({{value_of(*s, "a"), a.view()}}).ok());
  EXPECT_THAT(output(*s, 3), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(output(*s, 1), ElementsAre(-5, -6, -7, -8));
  // The view alone: what it is a view of stays.
  const Tensor v = tensor<float>(Shape{4}, {1, 2, 3, 4});
  ASSERT_TRUE(s->rerun({{value_of(*s, "v"), v.view()}}).ok());
  EXPECT_THAT(output(*s, 3), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(output(*s, 1), ElementsAre(-1, -2, -3, -4));
  EXPECT_THAT(output(*s, 0), ElementsAre(0, 2, 6, 4));
}

TEST(Rerun, OfSeveralValuesTheLaterOneIsGivenToo) {
  auto s = session_that_keeps_all(model_of(kBranches));
  ASSERT_TRUE(testing::run(*s, {tensor<float>(Shape{2, 2}, {1, -2, 3, -4})}).ok());
  const Tensor a = tensor<float>(Shape{2, 2}, {5, 6, 7, 8}),
               b = tensor<float>(Shape{2, 2}, {1, 2, 3, 4});
  ASSERT_TRUE(s->rerun({{value_of(*s, "a"), a.view()}, {value_of(*s, "b"), b.view()}}).ok());
  EXPECT_THAT(output(*s, 0), ElementsAre(0, 4, 0, 8));  // b as given, not a * a
  EXPECT_THAT(output(*s, 1), ElementsAre(-5, -6, -7, -8));
}

TEST(Rerun, WhereShapesDependOnDataEverythingRunsAgain) {
  auto s = session_that_keeps_all(
      model_of("x: f32[4]\na = relu(x)\ni = non_zero(a)\nt = transpose(i) perm=[1,0]\n"
               "y = gather_nd(x, t)\nz = neg(y)\nreturn z"));
  ASSERT_TRUE(testing::run(*s, {tensor<float>(Shape{4}, {1, -2, 3, -4})}).ok());
  EXPECT_THAT(output(*s), ElementsAre(-1, -3));
  const Tensor a = tensor<float>(Shape{4}, {0, 0, 0, 1}),
               all = tensor<float>(Shape{4}, {1, 1, 1, 1});
  ASSERT_TRUE(s->rerun({{value_of(*s, "a"), a.view()}}).ok());
  EXPECT_THAT(output(*s), ElementsAre(4));
  ASSERT_TRUE(s->rerun({{value_of(*s, "a"), all.view()}}).ok());
  EXPECT_THAT(output(*s), ElementsAre(-1, 2, -3, 4));
  ASSERT_TRUE(s->rerun({}).ok());
  EXPECT_THAT(output(*s), ElementsAre(-1, -3));
}

TEST(Rerun, RefusesWhatItCannotDo) {
  const Tensor x = tensor<float>(Shape{2, 2}, {1, -2, 3, -4}),
               four = tensor<float>(Shape{4}, {1, 2, 3, 4});
  const auto why = [](exec::Session& s, const std::string& name, const Tensor& t) {
    const Status status = s.rerun({{value_of(s, name), t.view()}});
    return status.ok() ? "" : status.error().message;
  };
  auto plain = session_of(model_of(kBranches));
  ASSERT_TRUE(testing::run(*plain, {x}).ok());
  EXPECT_THAT(why(*plain, "a", x), HasSubstr("keep_all"));
  auto s = session_that_keeps_all(model_of(kBranches));
  EXPECT_THAT(why(*s, "a", x), HasSubstr("nothing was run"));
  ASSERT_TRUE(testing::run(*s, {x}).ok());
  EXPECT_THAT(why(*s, "a", four), HasSubstr("value 'a' is f32[2,2], the replacement f32[4]"));
  EXPECT_THAT(why(*s, "x", x), HasSubstr("value 'x' is computed by no step"));
  EXPECT_THAT(s->rerun({{99, x.view()}}).error().message, HasSubstr("value 99 does not exist"));
  ASSERT_TRUE(s->rerun({}).ok());  // and the run is still there
  EXPECT_THAT(output(*s), ElementsAre(0, 2, 6, 4));
}

}  // namespace
}  // namespace fold8
