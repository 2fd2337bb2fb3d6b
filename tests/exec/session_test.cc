// Sessions: inputs and outputs at the border, errors a person can act on.
#include "tests/exec/exec_support.h"

#include <bit>
#include <cmath>
#include <limits>
#include <thread>

namespace fold8 {
namespace {

using testing::elements;
using ::testing::ElementsAre;
using testing::evaluate;
using ::testing::HasSubstr;
using testing::model_of;
using testing::on_every_target;
using testing::outputs_of;
using testing::random_tensor;
using testing::session_of;
using testing::tensor;

TEST(Session, RunsAChainOnEveryTarget) {
  on_every_target([] {
    const auto y =
        evaluate("x: f32[n,2]\na = add(x, f32[2]{1,-5})\nb = relu(a)\ny = mul(b, b)\nreturn y",
                 {tensor<float>(Shape{2, 2}, {1, 2, 3, 9})});
    EXPECT_THAT(elements<float>(y[0]), ElementsAre(4, 0, 16, 16));
  });
}

TEST(Session, OutputsThatAreInputsConstantsViewsAndTwins) {
  const auto y = evaluate(R"(
    x: f32[2,2]
    c = const f32[2]{7,8}
    v = reshape(x, s64{4})
    w = reshape(c, s64{2,1})
    r = relu(x)
    rv = reshape(r, s64{4})
    return x, c, v, w, r, r, rv
  )",
                          {tensor<float>(Shape{2, 2}, {1, -2, 3, 4})});
  EXPECT_THAT(elements<float>(y[0]), ElementsAre(1, -2, 3, 4));
  EXPECT_THAT(elements<float>(y[1]), ElementsAre(7, 8));
  EXPECT_EQ(y[2].shape(), (Shape{4}));
  EXPECT_THAT(elements<float>(y[2]), ElementsAre(1, -2, 3, 4));
  EXPECT_EQ(y[3].shape(), (Shape{2, 1}));
  EXPECT_THAT(elements<float>(y[3]), ElementsAre(7, 8));
  EXPECT_THAT(elements<float>(y[4]), ElementsAre(1, 0, 3, 4));
  EXPECT_THAT(elements<float>(y[5]), ElementsAre(1, 0, 3, 4));
  EXPECT_THAT(elements<float>(y[6]), ElementsAre(1, 0, 3, 4));
}

TEST(Session, NansAreCanonicalAndInputsUntouched) {
  const auto nan = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  auto s = session_of(model_of("x: f32[4]\ny = identity(x)\nz = neg(x)\nreturn x, y, z"));
  Tensor x = tensor<float>(Shape{4}, {nan(0xffc00001u), nan(0x7f800001u),
                                      std::numeric_limits<float>::infinity(), -0.0f});
  const auto before = elements<std::uint32_t>(x);
  ASSERT_TRUE(testing::run(*s, {x}).ok());
  for (const TensorView& y : s->outputs()) {
    EXPECT_EQ(y.as<std::uint32_t>()[0], 0x7fc00000u);
    EXPECT_EQ(y.as<std::uint32_t>()[1], 0x7fc00000u);
    EXPECT_TRUE(std::isinf(y.as<float>()[2]));
  }
  EXPECT_EQ(elements<std::uint32_t>(x), before);
}

TEST(Session, ScalarsAndEmptyTensors) {
  const auto y = evaluate(
      "x: f32[n,3]\ns: f32[]\na = add(x, s)\nm = reduce_sum(a) axes=[0]\nb = mul(s, s)\nreturn a, "
      "m, b",
      {Tensor(DType::f32, Shape{0, 3}), tensor<float>(Shape{}, {3})});
  EXPECT_EQ(y[0].shape(), (Shape{0, 3}));
  EXPECT_THAT(elements<float>(y[1]), ElementsAre(0, 0, 0));
  EXPECT_THAT(elements<float>(y[2]), ElementsAre(9));
}

TEST(Session, ShapeArithmeticIsNotRun) {
  auto s = session_of(model_of(R"(
    x: f32[n,6]
    s = shape_of(x)
    n0 = gather(s, s64{0})
    t = concat(n0, s64{2,3}) axis=0
    y = reshape(x, t)
    z = relu(y)
    return z
  )"));
  ASSERT_TRUE(testing::run(*s, {Tensor(DType::f32, Shape{5, 6})}).ok());
  EXPECT_EQ(s->outputs()[0].shape, (Shape{5, 2, 3}));
  const auto steps = s->profile();
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].name, "z");
}

TEST(Session, KnownIntegersAsOutputsAndAsData) {
  const auto y = evaluate(
      "x: f32[n,6]\ns = shape_of(x)\nf = cast(s) to=f32\nd = mul(f, f32[1]{2})\nreturn s, d",
      {Tensor(DType::f32, Shape{5, 6})});
  EXPECT_THAT(elements<std::int64_t>(y[0]), ElementsAre(5, 6));
  EXPECT_THAT(elements<float>(y[1]), ElementsAre(10, 12));
}

TEST(Session, NodesThatOnlyFeedAShapeDoNotRun) {
  auto s = session_of(
      model_of("x: f32[n]\na = exp(x)\ns = shape_of(a)\ny = constant_of_shape(s)\nreturn y"));
  ASSERT_TRUE(testing::run(*s, {Tensor(DType::f32, Shape{3})}).ok());
  for (const auto& step : s->profile()) EXPECT_NE(step.name, "a");
}

TEST(Session, PlansAreCachedLeastRecentlyUsedFirst) {
  auto s = session_of(model_of("x: f32[n]\ny = relu(x)\nreturn y"), {.plan_cache = 2});
  for (const std::int64_t n : {3, 5, 3, 7, 3, 5, 0, 9})
    for (int repeat = 0; repeat < 2; ++repeat) {
      testing::SeededRng rng(static_cast<std::uint64_t>(n));
      const Tensor x = random_tensor(DType::f32, Shape{n}, rng);
      ASSERT_TRUE(testing::run(*s, {x}).ok());
      ASSERT_EQ(s->outputs()[0].shape, (Shape{n}));
      for (std::int64_t i = 0; i < n; ++i)
        EXPECT_EQ(s->outputs()[0].as<float>()[static_cast<std::size_t>(i)],
                  std::max(0.0f, x.as<float>()[static_cast<std::size_t>(i)]));
    }
}

TEST(Session, InPlaceSavesMemory) {
  const char* text =
      "x: f32[n]\na = add(x, f32[1]{1})\nb = relu(a)\nc = neg(b)\ny = abs(c)\nreturn y";
  auto shared = session_of(model_of(text));
  auto apart = session_of(model_of(text), {.keep_all = true});
  const Tensor x(DType::f32, Shape{1000});
  ASSERT_TRUE(testing::run(*shared, {x}).ok());
  ASSERT_TRUE(testing::run(*apart, {x}).ok());
  EXPECT_LE(shared->arena_bytes(), 2 * 4096u);
  EXPECT_GE(apart->arena_bytes(), 4 * 4000u);
}

TEST(Session, ValuesOfTheLastRun) {
  const char* text =
      "x: f32[2]\nc = const f32[2]{5,6}\na = add(x, c)\nb = relu(a)\ny = neg(b)\nreturn y";
  auto s = session_of(model_of(text), {.keep_all = true});
  const graph::Graph& g = s->model().graph();
  EXPECT_FALSE(s->value(g.find_value("a")).ok());
  {
    const Tensor x = tensor<float>(Shape{2}, {-7, 1});
    ASSERT_TRUE(testing::run(*s, {x}).ok());
  }
  EXPECT_THAT(elements<float>(s->value(g.find_value("x")).value()), ElementsAre(-7, 1));
  EXPECT_THAT(elements<float>(s->value(g.find_value("a")).value()), ElementsAre(-2, 7));
  EXPECT_THAT(elements<float>(s->value(g.find_value("b")).value()), ElementsAre(0, 7));
  EXPECT_THAT(elements<float>(s->value(g.find_value("y")).value()), ElementsAre(0, -7));
  EXPECT_THAT(elements<float>(s->value(g.find_value("c")).value()), ElementsAre(5, 6));
  EXPECT_FALSE(s->value(99).ok());

  auto without = session_of(model_of(text));
  ASSERT_TRUE(testing::run(*without, {tensor<float>(Shape{2}, {-7, 1})}).ok());
  const auto gone = without->value(g.find_value("b"));
  ASSERT_FALSE(gone.ok());
  EXPECT_THAT(gone.error().message, HasSubstr("keep_all"));
}

TEST(Session, ValuesInChannelsLastComePlain) {
  auto s = session_of(model_of(R"(
    x: f32[1,2,1,3]
    h: f32[1,2,1,3] nhwc = relayout(x)
    y: f32[1,2,1,3] nhwc = relu(h)
    return y
  )"),
                      {.keep_all = true});
  const Tensor x = tensor<float>(Shape{1, 2, 1, 3}, {1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(testing::run(*s, {x}).ok());
  EXPECT_THAT(elements<float>(outputs_of(*s)[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(elements<float>(s->value(s->model().graph().find_value("h")).value()),
              ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Session, TapSeesEveryStep) {
  auto s = session_of(
      model_of("x: f32[2]\na = neg(x)\nb = reshape(a, s64{2,1})\ny = relu(b)\nreturn y"));
  std::vector<std::string> seen;
  s->set_tap([&](graph::ValueId v, const TensorView& t) -> Status {
    seen.push_back(s->model().graph().value(v).name + to_string(t.shape));
    return ok_status();
  });
  ASSERT_TRUE(testing::run(*s, {tensor<float>(Shape{2}, {1, -1})}).ok());
  EXPECT_THAT(seen, ElementsAre("a[2]", "b[2,1]", "y[2,1]"));
  s->set_tap([](graph::ValueId, const TensorView&) -> Status { return invalid_model("enough"); });
  EXPECT_EQ(testing::run(*s, {tensor<float>(Shape{2}, {1, -1})}).error().message, "enough");
  s->set_tap(nullptr);
  EXPECT_TRUE(testing::run(*s, {tensor<float>(Shape{2}, {1, -1})}).ok());
}

TEST(Session, ProfileCountsTheLastRun) {
  auto s =
      session_of(model_of("x: f32[4,8]\nh = linear(x, random:f32[16,8])\ny = relu(h)\nreturn y"));
  s->enable_profile(true);
  ASSERT_TRUE(testing::run(*s, {Tensor(DType::f32, Shape{4, 8})}).ok());
  const auto p = s->profile();
  ASSERT_EQ(p.size(), 2u);
  EXPECT_EQ(p[0].op, "linear");
  EXPECT_EQ(p[0].macs, 4 * 8 * 16);
  EXPECT_EQ(p[0].bytes, (4 * 8 + 16 * 8 + 4 * 16) * sizeof(float));
  EXPECT_GE(p[0].microseconds, 0);
}

TEST(Session, WrongInputsAreExplained) {
  auto s = session_of(model_of("x: f32[batch,3]\nz: f32[batch]\ny = relu(x)\nreturn y"));
  const Tensor x(DType::f32, Shape{2, 3}), z(DType::f32, Shape{2});
  const auto message = [&](const std::vector<TensorView>& inputs) {
    const auto r = s->run(inputs);
    EXPECT_FALSE(r.ok());
    EXPECT_TRUE(r.ok() || r.error().code == Code::invalid_argument);
    return r.ok() ? "" : r.error().message;
  };
  EXPECT_THAT(message({x.view()}), HasSubstr("2 inputs, 1 were given"));
  EXPECT_THAT(message({Tensor(DType::u8, Shape{2, 3}).view(), z.view()}),
              HasSubstr("input 'x' (f32[batch,3]): was given as u8"));
  EXPECT_THAT(message({Tensor(DType::f32, Shape{2, 4}).view(), z.view()}),
              HasSubstr("axis 1 is 4, expected 3"));
  EXPECT_THAT(message({Tensor(DType::f32, Shape{6}).view(), z.view()}),
              HasSubstr("rank 1, expected 2"));
  EXPECT_THAT(message({x.view(), Tensor(DType::f32, Shape{5}).view()}),
              HasSubstr("('batch') is 5, another input has 2"));
  TensorView none = x.view();
  none.data = nullptr;
  EXPECT_THAT(message({none, z.view()}), HasSubstr("no data"));
  TensorView negative = x.view();
  negative.shape = Shape{-1, 3};
  EXPECT_THAT(message({negative, z.view()}), HasSubstr("axis 0"));
  TensorView huge = x.view();
  huge.shape = Shape{INT64_MAX / 2, 3};
  EXPECT_THAT(message({huge, z.view()}), HasSubstr("too many elements"));
  EXPECT_TRUE(s->run({x.view(), z.view()}).ok());
}

TEST(Session, AbsurdShapesAreRefusedBeforeAllocating) {
  auto s =
      session_of(model_of("s: s64[1]\ny = constant_of_shape(s)\nz = add(y, f32[1]{1})\nreturn z"),
                 {.memory_limit = 1 << 20});
  const auto r = testing::run(*s, {tensor<std::int64_t>(Shape{1}, {std::int64_t{1} << 40})});
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.error().message, HasSubstr("limit"));
  EXPECT_TRUE(testing::run(*s, {tensor<std::int64_t>(Shape{1}, {4})}).ok());
  EXPECT_EQ(s->outputs()[0].shape, (Shape{4}));
  auto fallback =
      session_of(model_of("s: s64[1]\ny = constant_of_shape(s)\nz = add(y, f32[1]{1})\nreturn z"));
  EXPECT_FALSE(
      testing::run(*fallback, {tensor<std::int64_t>(Shape{1}, {std::int64_t{1} << 45})}).ok());
}

TEST(Session, OptionsAreChecked) {
  const auto model = model_of("x: f32[1]\ny = relu(x)\nreturn y");
  EXPECT_FALSE(exec::Session::create(model, {.threads = -1}).ok());
  EXPECT_FALSE(exec::Session::create(nullptr).ok());
  const auto unknown = exec::Session::create(model, {.engine = "warp"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message, HasSubstr("fold8, onednn"));
  EXPECT_TRUE(exec::Session::create(model, {.threads = 0}).ok());
}

TEST(Session, UnalignedInputsAndThoseAtTheEndOfAPage) {
  auto s = session_of(model_of("x: u8[n]\ny = identity(x)\nreturn y"));
  std::vector<std::uint8_t> bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  for (std::size_t offset = 0; offset < 70; ++offset) {
    ASSERT_TRUE(
        s->run({TensorView{DType::u8, Shape{200}, bytes.data() + offset, Layout::plain}}).ok());
    EXPECT_EQ(std::memcmp(s->outputs()[0].data, bytes.data() + offset, 200), 0);
  }
}

TEST(Session, ManySessionsOfOneModelInParallel) {
  const auto model = model_of(
      "x: f32[n,64]\nh = linear(x, random:f32[64,64]) activation=clip b=6\ny = linear(h, "
      "random:f32[8,64])\nreturn y");
  testing::SeededRng rng;
  const Tensor x = random_tensor(DType::f32, Shape{33, 64}, rng);
  auto first = session_of(model);
  ASSERT_TRUE(testing::run(*first, {x}).ok());
  const Tensor expected = std::move(outputs_of(*first)[0]);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      auto s = session_of(model, {.threads = 1 + t});
      for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(testing::run(*s, {x}).ok());
        testing::expect_same_bytes(outputs_of(*s)[0], expected);
      }
    });
  for (auto& t : threads) t.join();
}

}  // namespace
}  // namespace fold8
