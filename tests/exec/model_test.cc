// Models: from graphs and files, with plain and packed weights, sound and broken.
#include "runtime/exec/model.h"

#include <unistd.h>

#include <cstdio>

#include "runtime/format/f8.h"
#include "runtime/ops/pack_weights.h"
#include "tests/exec/exec_support.h"

namespace fold8 {
namespace {

using testing::expect_same_bytes;
using ::testing::HasSubstr;
using testing::outputs_of;
using testing::parsed;
using testing::session_of;

constexpr const char* kNet = R"(
  x: f32[n,4,6,6]
  a = conv(x, random:f32[8,4,3,3], random:f32[8]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]
  d = conv(a, random:f32[8,1,3,3]) kernel=[3,3] strides=[2,2] pads=[1,1,1,1] dilations=[1,1] group=8
  f = flatten(d)
  y = linear(f, random:f32[10,72], random:f32[10])
  return y
)";

// What emit does: every weight in the kernels' order.
graph::Graph packed(graph::Graph g) {
  for (graph::NodeId n = 0; n < g.node_count(); ++n) {
    if (!std::holds_alternative<graph::Linear>(g.node(n).op) &&
        !std::holds_alternative<graph::Conv>(g.node(n).op))
      continue;
    graph::Value& w = g.value(g.node(n).inputs[1]);
    auto p = ops::pack_weight(g.node(n).op, w.type, w.constant->data());
    EXPECT_TRUE(p.ok()) << p.error().message;
    w.type = p->type;
    w.constant = p->data;
  }
  return g;
}

TEST(Model, PackedWeightsAndFilesGiveTheBitsOfPlainOnes) {
  testing::SeededRng rng;
  const std::vector<Tensor> x = {testing::random_tensor(DType::f32, Shape{3, 4, 6, 6}, rng)};
  auto plain = session_of(testing::model_of(kNet));
  ASSERT_TRUE(testing::run(*plain, x).ok());
  const Tensor expected = std::move(outputs_of(*plain)[0]);

  auto in_memory = session_of(testing::model_of(packed(parsed(kNet))));
  ASSERT_TRUE(testing::run(*in_memory, x).ok());
  expect_same_bytes(outputs_of(*in_memory)[0], expected);

  const std::string path =
      ::testing::TempDir() + "fold8_model_" + std::to_string(::getpid()) + ".f8";
  ASSERT_TRUE(format::write_file(packed(parsed(kNet)), path).ok());
  for (const auto verify : {exec::Verify::header, exec::Verify::full}) {
    auto loaded = exec::Model::load(path, verify);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_GT((*loaded)->file_bytes(), 0u);
    auto s = session_of(*loaded);
    ASSERT_TRUE(testing::run(*s, x).ok());
    expect_same_bytes(outputs_of(*s)[0], expected);
  }
  std::remove(path.c_str());
}

std::string refusal(graph::Graph g) {
  const auto m = exec::Model::from_graph(std::move(g));
  return m.ok() ? "" : m.error().message;
}

TEST(Model, PackedWeightsOfTheWrongSizeAreRefused) {
  const auto weight = [](graph::Graph& g) -> graph::Value& { return g.value(g.node(0).inputs[1]); };
  const auto sample = [] {
    return packed(parsed("x: f32[n,32]\ny = linear(x, random:f32[16,32])\nreturn y"));
  };
  graph::Graph g = sample();
  weight(g).constant = Buffer::allocate(weight(g).constant->size() - 64);
  EXPECT_THAT(refusal(std::move(g)), HasSubstr("fewer bytes"));
  g = sample();
  weight(g).constant = Buffer::allocate(weight(g).constant->size() + 64);
  EXPECT_THAT(refusal(std::move(g)), HasSubstr("expected"));
  g = sample();
  weight(g).type.shape = Shape{std::int64_t{1} << 31, std::int64_t{1} << 31};
  EXPECT_THAT(refusal(std::move(g)), HasSubstr("fewer bytes"));
  g = sample();
  weight(g).type.dtype = DType::s8;
  EXPECT_NE(refusal(std::move(g)), "");
  g = sample();
  weight(g).type.layout = Layout::depthwise_f32;
  EXPECT_NE(refusal(std::move(g)), "");
  g = sample();
  g.outputs.push_back(g.node(0).inputs[1]);
  EXPECT_THAT(refusal(std::move(g)), HasSubstr("graph output"));
  g = sample();
  const graph::ValueId z = g.add_untyped_value("z");
  g.add_node(graph::Unary{graph::UnaryKind::relu}, "z", {g.node(0).inputs[1]}, {z});
  g.outputs = {z};
  EXPECT_NE(refusal(std::move(g)), "");
}

TEST(Model, OnlyWeightsArePacked) {
  graph::Graph g = parsed("x: f32[4]\ny = relu(x)\nz = neg(y)\nreturn z");
  graph::Value& y = g.value(g.find_value("y"));
  y.type = TensorType{DType::f32, Shape{4}, {}, Layout::packed_f32};
  y.has_type = true;
  EXPECT_THAT(refusal(std::move(g)), HasSubstr("layout that only weights have"));
}

TEST(Model, BodiesAreVerifiedToo) {
  graph::Graph body = parsed("x: f32[2]\ny = relu(x)\nreturn y");
  body.node(0).inputs[0] = body.add_untyped_value("nobody");
  const auto broken = std::make_shared<const graph::Graph>(std::move(body));
  graph::Graph g = parsed("c: bool[]\nx: f32[2]\nreturn x");
  const graph::ValueId y = g.add_untyped_value("y");
  g.add_node(graph::If{broken, broken}, "branch", {0, 1}, {y});
  g.outputs = {y};
  EXPECT_THAT(refusal(std::move(g)), HasSubstr("node 'branch'"));
}

TEST(Model, InputsNeedTypes) {
  graph::Graph g = parsed("x: f32[2]\ny = relu(x)\nreturn y");
  g.value(0).has_type = false;
  EXPECT_THAT(refusal(std::move(g)), HasSubstr("'x' has no type"));
}

TEST(Model, UnknownTargetIsAnError) {
  ::setenv("FOLD8_TARGET", "abacus", 1);
  EXPECT_THAT(refusal(parsed("x: f32[2]\ny = relu(x)\nreturn y")), HasSubstr("abacus"));
  ::unsetenv("FOLD8_TARGET");
}

}  // namespace
}  // namespace fold8
