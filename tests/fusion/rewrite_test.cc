// Patterns and the driver, with small passes made for the purpose.
#include "fusion/rewrite/constants.h"
#include "tests/fusion/graph_testing.h"

namespace fold8::fusion {
namespace {

using graph::Binary;
using graph::BinaryKind;
using graph::Graph;
using graph::NodeId;
using graph::Unary;
using graph::UnaryKind;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NodeId producer(const Graph& g, std::string_view value) {
  return g.producers()[static_cast<std::size_t>(g.find_value(value))];
}
int matches(const Pattern& pattern, const Graph& g, std::string_view value) {
  const Index index(g);
  int n = 0;
  for_each_match(pattern, g, index, producer(g, value), [&](const Match&) { return ++n, false; });
  return n;
}

TEST(Pattern, BindsOperands) {
  const Graph g = parsed("x: f32[2,3]\nh = linear(x, random:f32[4,3])\nreturn h");
  const Index index(g);
  const auto pattern = op<graph::Linear>("fc", {any("x"), constant("w"), constant_or_absent("b")});
  bool found = for_each_match(pattern, g, index, producer(g, "h"), [&](const Match& m) {
    EXPECT_EQ(g.value(m["x"]).name, "x");
    EXPECT_TRUE(g.is_constant(m["w"]));
    EXPECT_FALSE(m.has("b"));
    EXPECT_EQ(m.node("fc"), m.root);
    return true;
  });
  EXPECT_TRUE(found);
}

TEST(Pattern, OperandsThatAreNotListedMustBeAbsent) {
  const Graph g = parsed("x: f32[2,3]\nh = linear(x, random:f32[4,3], random:f32[4])\nreturn h");
  EXPECT_EQ(matches(op<graph::Linear>("", {any("x"), any("w")}), g, "h"), 0);
  EXPECT_EQ(matches(op<graph::Linear>("", {any("x"), any("w")}).open(), g, "h"), 1);
}

TEST(Pattern, CommutativeOperatorsMatchEitherOrder) {
  const Graph g = parsed(
      "x: f32[2,3]\ny = binary(f32[]{2}, x) kind=mul\nz = binary(f32[]{2}, x) kind=sub\nreturn y, "
      "z");
  EXPECT_EQ(matches(any("x") * scalar(2), g, "y"), 1);
  EXPECT_EQ(matches(any("x") - scalar(2), g, "z"), 0);
}

TEST(Pattern, OneNameIsOneValue) {
  const Graph g = parsed(
      "x: f32[2]\nw: f32[2]\ny = binary(x, x) kind=mul\nz = binary(x, w) kind=mul\nreturn y, z");
  EXPECT_GE(matches(any("x") * any("x"), g, "y"), 1);
  EXPECT_EQ(matches(any("x") * any("x"), g, "z"), 0);
}

TEST(Pattern, BacktracksThroughEarlierChoices) {
  // The first order binds x to exp(v), which fails only at the last operand.
  const Graph g = parsed(
      "v: f32[2]\ne = unary(v) kind=exp\na = binary(e, v) kind=add\ny = binary(a, v) "
      "kind=mul\nreturn y");
  EXPECT_GE(matches((any("x") + any("z")) * any("x"), g, "y"), 1);
}

TEST(Pattern, ThroughCollectsThePath) {
  const Graph g = parsed(
      "x: f32[2,3]\nt = transpose(x) perm=[1,0]\nr = reshape(t, s64{6})\ny = relu(r)\nreturn y");
  const auto moves = [](const graph::Op& o) {
    return std::holds_alternative<graph::Transpose>(o) || std::holds_alternative<graph::Reshape>(o);
  };
  const Index index(g);
  std::vector<std::size_t> lengths;
  for_each_match(unary(UnaryKind::relu, through(moves, any("x"))), g, index, producer(g, "y"),
                 [&](const Match& m) {
                   lengths.push_back(m.path.size());
                   return false;
                 });
  EXPECT_THAT(lengths, ElementsAre(0, 1, 2));
}

TEST(Pattern, ScalarsAllowTheRoundingOfExporters) {
  const Graph g = parsed(
      "x: f32[2]\ny = binary(x, f32[]{0.70710677}) kind=mul\nz = binary(x, f32[]{0.71}) "
      "kind=mul\nreturn y, z");
  EXPECT_EQ(matches(any("x") * scalar(0.70710678118), g, "y"), 1);
  EXPECT_EQ(matches(any("x") * scalar(0.70710678118), g, "z"), 0);
}

// exp(exp(x)) => relu(x): nonsense, but easy to see.
std::vector<Pattern> exp_exp() {
  return {unary(UnaryKind::exp, unary(UnaryKind::exp, any("x"), "inner"))};
}
Result<Outcome> to_relu(const Match& m, Graph&, const Context&) {
  return Outcome{Replace{Unary{UnaryKind::relu, 0, 0}, {m["x"]}, {}}};
}
Result<Outcome> refuse(const Match&, Graph&, const Context&) {
  return Outcome{Decline{"no reason at all"}};
}
Result<Outcome> forward(const Match& m, Graph&, const Context&) { return Outcome{Forward{m["x"]}}; }
const Rewrite kExpExp{"exp_exp", exp_exp, to_relu};
const Rewrite kRefuse{"refuse", exp_exp, refuse};
const Rewrite kForward{"forward", exp_exp, forward};

Ran apply(const Pass& pass, std::string_view text) {
  Ran ran{parsed(text), {}};
  auto tally = run(pass, ran.graph);
  EXPECT_TRUE(tally.ok()) << tally.error().message;
  if (tally.ok()) ran.tally = *tally;
  return ran;
}

TEST(Driver, TheLastNameSurvivesAndTheOthersAreInside) {
  const Ran ran =
      apply(&kExpExp, "x: f32[2]\na = unary(x) kind=exp\ny = unary(a) kind=exp\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("relu"));
  EXPECT_EQ(ran.tally.applied, 1);
  EXPECT_EQ(ran.graph.value(ran.graph.outputs[0]).name, "y");
  EXPECT_THAT(ran.graph.node(0).inside, Contains("a"));
  EXPECT_EQ(ran.graph.find_value("a"), graph::kNoValue);
}

TEST(Driver, AnInnerValueReadElsewhereDeclines) {
  const Ran ran =
      apply(&kExpExp,
            "x: f32[2]\na = unary(x) kind=exp\ny = unary(a) kind=exp\nz = relu(a)\nreturn y, z");
  EXPECT_EQ(ran.tally.applied, 0);
  EXPECT_THAT(ran.tally.declined, ElementsAre(Declined{"exp_exp", "y", "'a' is also read by 'z'"}));
}

TEST(Driver, AnInnerGraphOutputDeclines) {
  const Ran ran =
      apply(&kExpExp, "x: f32[2]\na = unary(x) kind=exp\ny = unary(a) kind=exp\nreturn y, a");
  EXPECT_THAT(reasons(ran.tally.declined), ElementsAre("'a' is also a graph output"));
}

TEST(Driver, RunsToTheFixedPoint) {
  // Four exps are two replacements; relu(relu) is not touched.
  const Ran ran = apply(&kExpExp,
                        "x: f32[2]\na = unary(x) kind=exp\nb = unary(a) kind=exp\nc = unary(b) "
                        "kind=exp\ny = unary(c) kind=exp\nreturn y");
  EXPECT_EQ(ran.tally.applied, 2);
  EXPECT_THAT(op_names(ran.graph), ElementsAre("relu", "relu"));
}

TEST(Driver, DeclinesAreKeptOnce) {
  Graph g = parsed("x: f32[2]\na = unary(x) kind=exp\ny = unary(a) kind=exp\nreturn y");
  const auto tally = run(Stage{"s", {&kRefuse, &kRefuse}}, g);
  ASSERT_TRUE(tally.ok());
  EXPECT_THAT(tally->declined, ElementsAre(Declined{"refuse", "y", "no reason at all"}));
}

TEST(Driver, ForwardKeepsTheNameOfAGraphOutput) {
  const Ran ran = apply(
      &kForward, "x: f32[2]\nr = relu(x)\na = unary(r) kind=exp\ny = unary(a) kind=exp\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("relu"));
  EXPECT_EQ(ran.graph.value(ran.graph.outputs[0]).name, "y");
  EXPECT_THAT(ran.graph.node(0).inside, Contains("r"));
}

TEST(Driver, ForwardOfAGraphInputToAGraphOutputStays) {
  const Ran ran =
      apply(&kForward, "x: f32[2]\na = unary(x) kind=exp\ny = unary(a) kind=exp\nreturn y");
  EXPECT_EQ(ran.tally.applied, 0);
  EXPECT_THAT(op_names(ran.graph), ElementsAre("exp", "exp"));
}

TEST(Driver, AfterPassSeesBothGraphsAndStopsThePipeline) {
  Graph g = parsed("x: f32[2]\na = unary(x) kind=exp\ny = unary(a) kind=exp\nreturn y");
  Context context;
  context.after_pass = [](const Graph& before, const Graph& after,
                          std::string_view pass) -> Status {
    return invalid_model(std::string(pass) + " " + std::to_string(before.live_nodes()) + " " +
                         std::to_string(after.live_nodes()));
  };
  const auto tally = run(Pass{&kExpExp}, g, context);
  ASSERT_FALSE(tally.ok());
  EXPECT_EQ(tally.error().message, "exp_exp 2 1");
}

// relu(x) => exp(x) and back: never done.
std::vector<Pattern> any_unary() { return {op<Unary>("", {any("x")})}; }
Result<Outcome> toggle(const Match& m, Graph& g, const Context&) {
  const bool relu = std::get<Unary>(g.node(m.root).op).kind == UnaryKind::relu;
  return Outcome{Replace{Unary{relu ? UnaryKind::exp : UnaryKind::relu, 0, 0}, {m["x"]}, {}}};
}
const Rewrite kToggle{"toggle", any_unary, toggle};

TEST(Driver, APassThatNeverEndsIsOurOwnBug) {
  Graph g = parsed("x: f32[2]\ny = relu(x)\nreturn y");
  const auto tally = run(Pass{&kToggle}, g);
  ASSERT_FALSE(tally.ok());
  EXPECT_EQ(tally.error().code, Code::internal);
}

// A pass that leaves a node without its operand.
Result<Outcome> breaks(const Match& m, Graph&, const Context&) {
  return Outcome{Replace{Binary{BinaryKind::add}, {m["x"]}, {}}};
}
const Rewrite kBreaks{"breaks", exp_exp, breaks};

TEST(Driver, ABadGraphIsNoticedAfterThePassThatMadeIt) {
  Graph g = parsed("x: f32[2]\na = unary(x) kind=exp\ny = unary(a) kind=exp\nreturn y");
  const auto tally = run(Pass{&kBreaks}, g);
  ASSERT_FALSE(tally.ok());
  EXPECT_EQ(tally.error().code, Code::internal);
  EXPECT_THAT(tally.error().message, HasSubstr("breaks"));
}

TEST(PerChannel, ReadsTheAxisOffTheBroadcast) {
  const Graph g = parsed(
      "x: f32[2,3,4]\nc = binary(x, f32[3,1]{1,2,3}) kind=mul\nd = binary(x, f32[4]{1,2,3,4}) "
      "kind=mul\n"
      "e = binary(x, f32[1,3,4]{1,2,3,4,5,6,7,8,9,10,11,12}) kind=mul\nf = binary(x, f32[]{5}) "
      "kind=mul\nreturn c, d, e, f");
  const Shape x = g.type(g.inputs[0]).shape;
  const auto operand = [&](std::string_view v) { return g.node(producer(g, v)).inputs[1]; };
  EXPECT_EQ(per_channel(g, operand("c"), x)->axis, 1);
  EXPECT_EQ(per_channel(g, operand("d"), x)->axis, 2);
  EXPECT_FALSE(per_channel(g, operand("e"), x).has_value());
  EXPECT_THAT(per_channel(g, operand("f"), x)->values, ElementsAre(5));
}

}  // namespace
}  // namespace fold8::fusion
