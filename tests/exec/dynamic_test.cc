// Shapes that depend on data, and bodies of If, Loop and Scan.
#include "tests/exec/exec_support.h"

namespace fold8 {
namespace {

using testing::elements;
using ::testing::ElementsAre;
using testing::evaluate;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::model_of;
using testing::outputs_of;
using testing::parsed;
using testing::session_of;
using testing::tensor;

TEST(Dynamic, NonZeroBindsWhatFollows) {
  auto s = session_of(model_of(R"(
    x: f32[n]
    i = non_zero(x)
    t = transpose(i) perm=[1,0]
    f = cast(t) to=f32
    y = mul(f, f32[1]{10})
    k = shape_of(t)
    return y, k
  )"));
  const auto run = [&](const std::vector<float>& x) {
    ASSERT_TRUE(
        testing::run(*s, {tensor<float>(Shape{static_cast<std::int64_t>(x.size())}, x)}).ok());
    std::vector<float> expected;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (x[i] != 0) expected.push_back(10 * static_cast<float>(i));
    EXPECT_EQ(elements<float>(outputs_of(*s)[0]), expected);
    EXPECT_THAT(elements<std::int64_t>(outputs_of(*s)[1]),
                ElementsAre(static_cast<std::int64_t>(expected.size()), 1));
  };
  run({0, 1, 0, 2});
  run({1, 1, 1, 1});
  run({1, 1, 1, 1});
  run({0, 0, 0, 0});
  run({0, 0, 0, 3});
  run({5});
  run({});
  run({0, 1, 0, 2});
}

TEST(Dynamic, AShapeThatIsAnInput) {
  auto s = session_of(model_of(
      "x: f32[6]\nshape: s64[2]\na = neg(x)\ny = reshape(a, shape)\nz = relu(y)\nreturn z"));
  const Tensor x = tensor<float>(Shape{6}, {-1, -2, -3, -4, -5, 6});
  for (const auto& [rows, cols] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {2, 3}, {6, 1}, {6, 1}, {-1, 2}, {2, 3}}) {
    ASSERT_TRUE(testing::run(*s, {x, tensor<std::int64_t>(Shape{2}, {rows, cols})}).ok());
    EXPECT_EQ(s->outputs()[0].shape, (Shape{rows < 0 ? 3 : rows, cols}));
    EXPECT_THAT(elements<float>(outputs_of(*s)[0]), ElementsAre(1, 2, 3, 4, 5, 0));
  }
  const auto bad = testing::run(*s, {x, tensor<std::int64_t>(Shape{2}, {4, 4})});
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message, HasSubstr("node 'y'"));
  EXPECT_TRUE(testing::run(*s, {x, tensor<std::int64_t>(Shape{2}, {3, 2})}).ok());
}

TEST(Dynamic, AShapeComputedFromData) {
  auto s = session_of(model_of(R"(
    x: f32[n]
    m = reduce_max(x) keep_dims=false
    k = cast(m) to=s64
    r = range(s64[]{0}, k, s64[]{1})
    y = add(r, s64{100})
    return y
  )"));
  for (const float top : {3.0f, 0.0f, 5.0f, 5.0f, 2.0f}) {
    const auto status = testing::run(*s, {tensor<float>(Shape{2}, {-1, top})});
    ASSERT_TRUE(status.ok()) << status.error().message;
    const auto y = elements<std::int64_t>(outputs_of(*s)[0]);
    ASSERT_EQ(y.size(), static_cast<std::size_t>(top));
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], static_cast<std::int64_t>(100 + i));
  }
}

TEST(Dynamic, SegmentsKeepWhatLaterOnesRead) {
  // `a` and `b` are made before the cut and read behind it; memory must not be reused in between.
  auto s = session_of(model_of(R"(
    x: f32[8]
    a = neg(x)
    b = mul(x, x)
    i = non_zero(x)
    c = add(a, b)
    j = reshape(i, s64{-1})
    g = gather(c, j)
    h = gather(a, j)
    y = sub(g, h)
    return y, b
  )"));
  ASSERT_TRUE(testing::run(*s, {tensor<float>(Shape{8}, {0, 2, 0, 3, 0, 0, 4, 0})}).ok());
  EXPECT_THAT(elements<float>(outputs_of(*s)[0]), ElementsAre(4, 9, 16));
  EXPECT_THAT(elements<float>(outputs_of(*s)[1]), ElementsAre(0, 4, 0, 9, 0, 0, 16, 0));
}

TEST(Dynamic, TwoCuts) {
  const auto y = evaluate(R"(
    x: f32[5]
    i = non_zero(x)
    j = reshape(i, s64{-1})
    g = gather(x, j)
    p = greater(g, f32[1]{1.5})
    q = non_zero(p)
    r = reshape(q, s64{-1})
    y = gather(g, r)
    return y
  )",
                          {tensor<float>(Shape{5}, {1, 0, 2, 3, 0})});
  EXPECT_THAT(elements<float>(y[0]), ElementsAre(2, 3));
}

std::shared_ptr<const graph::Graph> body(std::string_view text) {
  return std::make_shared<const graph::Graph>(parsed(text));
}

graph::Graph if_graph() {
  graph::Graph g = parsed("c: bool[]\nx: f32[n]\nreturn x");
  g.outputs.clear();
  const graph::ValueId y = g.add_untyped_value("y");
  g.add_node(graph::If{body("x: f32[?]\ny = neg(x)\nreturn y"),
                       body("x: f32[?]\ny = concat(x, x) axis=0\nreturn y")},
             "if", {g.find_value("c"), g.find_value("x")}, {y});
  const graph::ValueId z = g.add_untyped_value("z");
  g.add_node(graph::Unary{graph::UnaryKind::square}, "z", {y}, {z});
  g.outputs = {y, z};
  return g;
}

TEST(ControlFlow, IfRunsOneBranch) {
  auto s = session_of(model_of(if_graph()));
  const Tensor x = tensor<float>(Shape{2}, {1, -2});
  for (const bool c : {true, false, false, true}) {
    const auto status = testing::run(*s, {tensor<bool>(Shape{}, {c}), x});
    ASSERT_TRUE(status.ok()) << status.error().message;
    const auto y = outputs_of(*s);
    if (c) {
      EXPECT_THAT(elements<float>(y[0]), ElementsAre(-1, 2));
      EXPECT_THAT(elements<float>(y[1]), ElementsAre(1, 4));
    } else {
      EXPECT_THAT(elements<float>(y[0]), ElementsAre(1, -2, 1, -2));
      EXPECT_THAT(elements<float>(y[1]), ElementsAre(1, 4, 1, 4));
    }
  }
}

// sum += x[i] while sum < 6; the partial sums are stacked.
graph::Graph loop_graph() {
  graph::Graph g = parsed("trips: s64[]\nstart: f32[1]\nx: f32[n]\nreturn x");
  g.outputs.clear();
  const auto loop_body = body(R"(
    i: s64[]
    c: bool[]
    sum: f32[1]
    x: f32[?]
    r = reshape(i, s64{1})
    item = gather(x, r)
    next = add(sum, item)
    less6 = less(next, f32[1]{6})
    go = reshape(less6, s64[0]{})
    return go, next, next
  )");
  const graph::ValueId last = g.add_untyped_value("last"), all = g.add_untyped_value("all");
  g.add_node(graph::Loop{loop_body, 1}, "loop",
             {g.find_value("trips"), graph::kNoValue, g.find_value("start"), g.find_value("x")},
             {last, all});
  g.outputs = {last, all};
  return g;
}

TEST(ControlFlow, LoopCarriesAndStacks) {
  auto s = session_of(model_of(loop_graph()));
  const auto run = [&](std::int64_t trips) {
    const auto status =
        testing::run(*s, {tensor<std::int64_t>(Shape{}, {trips}), tensor<float>(Shape{1}, {0.5f}),
                          tensor<float>(Shape{5}, {1, 2, 3, 4, 5})});
    EXPECT_TRUE(status.ok()) << status.error().message;
    return outputs_of(*s);
  };
  auto y = run(2);
  EXPECT_THAT(elements<float>(y[0]), ElementsAre(3.5f));
  EXPECT_EQ(y[1].shape(), (Shape{2, 1}));
  EXPECT_THAT(elements<float>(y[1]), ElementsAre(1.5f, 3.5f));
  y = run(100);
  EXPECT_THAT(elements<float>(y[1]), ElementsAre(1.5f, 3.5f, 6.5f));
  y = run(0);
  EXPECT_THAT(elements<float>(y[0]), ElementsAre(0.5f));
  EXPECT_EQ(y[1].shape(), (Shape{0, 1}));
}

TEST(ControlFlow, AnIndexOutOfRangeInABodyNamesBothNodes) {
  auto s = session_of(model_of(loop_graph()));
  const auto r = testing::run(*s, {tensor<std::int64_t>(Shape{}, {9}), tensor<float>(Shape{1}, {0}),
                                   tensor<float>(Shape{1}, {1})});
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.error().message, HasSubstr("node 'loop' (loop): node 'item' (gather)"));
}

TEST(ControlFlow, ScanBothDirectionsAndAxes) {
  graph::Graph g = parsed("h: f32[2]\nx: f32[2,3]\nreturn x");
  g.outputs.clear();
  const graph::ValueId last = g.add_untyped_value("last"), all = g.add_untyped_value("all");
  graph::Scan scan;
  scan.body = body("h: f32[2]\nx: f32[2]\nn = add(h, x)\nreturn n, n");
  scan.scan_inputs = 1;
  scan.input_axes = {1};
  scan.input_directions = {1};
  scan.output_axes = {1};
  scan.output_directions = {1};
  g.add_node(scan, "scan", {g.find_value("h"), g.find_value("x")}, {last, all});
  g.outputs = {last, all};
  auto s = session_of(model_of(std::move(g)));
  const auto status = testing::run(
      *s, {tensor<float>(Shape{2}, {10, 20}), tensor<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_TRUE(status.ok()) << status.error().message;
  const auto y = outputs_of(*s);
  EXPECT_THAT(elements<float>(y[0]), ElementsAre(16, 35));
  EXPECT_EQ(y[1].shape(), (Shape{2, 3}));
  EXPECT_THAT(elements<float>(y[1]), ElementsAre(16, 15, 13, 35, 31, 26));
}

TEST(ControlFlow, MalformedBodiesAreRefused) {
  const auto refusal = [](graph::Op op, int outputs) {
    graph::Graph g = parsed("c: bool[]\nx: f32[2]\nreturn x");
    std::vector<graph::ValueId> y;
    for (int o = 0; o < outputs; ++o) y.push_back(g.add_untyped_value("y" + std::to_string(o)));
    g.add_node(std::move(op), "node", {0, 1}, y);
    g.outputs = y;
    const auto m = exec::Model::from_graph(std::move(g));
    return m.ok() ? "" : m.error().message;
  };
  const auto same = body("x: f32[2]\nreturn x");
  EXPECT_THAT(refusal(graph::If{same, nullptr}, 1), HasSubstr("else_branch"));
  EXPECT_THAT(refusal(graph::If{same, body("x: f32[2]\nz: f32[2]\nreturn x")}, 1),
              HasSubstr("takes 2 inputs"));
  EXPECT_THAT(refusal(graph::If{same, same}, 2), HasSubstr("gives 1 outputs"));
  EXPECT_THAT(refusal(graph::If{same, body("x: f32[2]\ny = cast(x) to=s64\nreturn y")}, 1),
              HasSubstr("s64 in the other"));
  EXPECT_THAT(refusal(graph::Loop{same, 5}, 1), HasSubstr("carries 5"));
  EXPECT_THAT(refusal(graph::Loop{nullptr, 0}, 1), HasSubstr("no body"));
  EXPECT_THAT(refusal(graph::Scan{}, 1), HasSubstr("no scan inputs"));
}

}  // namespace
}  // namespace fold8
