// What is written is read back: every field of the graph, every attribute of every operator.
#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <limits>

#include "runtime/format/f8.h"
#include "runtime/graph/enum_names.h"
#include "runtime/graph/verify.h"
#include "tests/format/sample_graph.h"

namespace fold8 {
namespace {

using testing::parsed;
using testing::sample_graph;

std::string written(const graph::Graph& g) {
  auto bytes = format::to_bytes(g);
  EXPECT_TRUE(bytes.ok()) << bytes.error().message;
  return bytes.ok() ? std::move(bytes).value() : std::string();
}

Result<graph::Graph> read(const std::string& bytes) {
  auto loaded = format::read_bytes(bytes.data(), bytes.size(), /*verify_data=*/true, nullptr);
  if (!loaded.ok()) return loaded.error();
  return std::move(loaded).value().graph;
}

TEST(RoundTrip, KeepsEveryFieldOfTheGraph) {
  const graph::Graph before = sample_graph();
  const auto after = read(written(before));
  ASSERT_TRUE(after.ok()) << after.error().message;
  EXPECT_EQ(graph::to_text(*after), graph::to_text(before));
  EXPECT_EQ(after->metadata, before.metadata);
  EXPECT_EQ(after->symbols, before.symbols);
  for (graph::ValueId v = 0; v < before.value_count(); ++v) {
    SCOPED_TRACE(before.value(v).name);
    EXPECT_EQ(after->value(v).name, before.value(v).name);
    EXPECT_EQ(after->type(v), before.type(v));
    EXPECT_EQ(after->value(v).has_type, before.value(v).has_type);
    EXPECT_EQ(after->value(v).rescale, before.value(v).rescale);
    EXPECT_EQ(after->value(v).rescale_axis, before.value(v).rescale_axis);
    ASSERT_EQ(after->is_constant(v), before.is_constant(v));
    if (before.is_constant(v)) {
      EXPECT_EQ(after->value(v).constant->size(), before.value(v).constant->size());
      EXPECT_EQ(std::memcmp(after->value(v).constant->data(), before.value(v).constant->data(),
                            before.value(v).constant->size()),
                0);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(after->value(v).constant->data()) % kAlignment,
                0u);
    }
  }
  EXPECT_EQ(after->node(1).inside, before.node(1).inside);
}

TEST(RoundTrip, SameGraphSameBytes) {
  const std::string bytes = written(sample_graph());
  EXPECT_EQ(written(sample_graph()), bytes);
  const auto again = read(bytes);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(written(*again), bytes);
}

TEST(RoundTrip, EqualConstantsAreStoredOnce) {
  const auto g = read(written(sample_graph()));
  ASSERT_TRUE(g.ok());
  EXPECT_EQ(g->value(g->find_value("b")).constant->data(),
            g->value(g->find_value("b2")).constant->data());
}

TEST(RoundTrip, QuantizationOfEveryGranularity) {
  graph::Graph g = parsed("x: f32[4,8]\nreturn x");
  const auto add = [&](const char* name, Result<QuantParams> q) {
    ASSERT_TRUE(q.ok()) << q.error().message;
    g.add_constant(name, TensorType{DType::s8, Shape{4, 8}, *q, Layout::plain},
                   Buffer::allocate(32));
  };
  add("tensor", QuantParams::per_tensor(0.1f, -128));
  add("channel", QuantParams::per_channel(0, {1, 2, 3, 4}, {0, 1, -1, 5}));
  add("group", QuantParams::per_group(1, 4, {1, 2, 3, 4, 5, 6, 7, 8}));
  add("token", QuantParams::per_token());
  const auto after = read(written(g));
  ASSERT_TRUE(after.ok()) << after.error().message;
  for (graph::ValueId v = 0; v < g.value_count(); ++v)
    EXPECT_EQ(after->type(v), g.type(v)) << g.value(v).name;
}

TEST(RoundTrip, EmptyAndScalarAndEveryDType) {
  graph::Graph g = parsed("x: f32[]\nreturn x");
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    g.add_constant("scalar" + std::to_string(d), TensorType{dtype, Shape{}},
                   Buffer::allocate(size_of(dtype)));
    g.add_constant("empty" + std::to_string(d), TensorType{dtype, Shape{0, 3}},
                   Buffer::allocate(0));
  }
  const auto after = read(written(g));
  ASSERT_TRUE(after.ok()) << after.error().message;
  EXPECT_EQ(graph::to_text(*after), graph::to_text(g));
}

// Sets every attribute of an operator to something it is not by default.
struct Changer {
  int variant = 0;
  void operator()(std::string_view, bool& v) const { v = !v; }
  void operator()(std::string_view, float& v) const {
    v = variant == 1 ? -0.0f : variant == 2 ? std::numeric_limits<float>::infinity() : v + 0.3f;
  }
  void operator()(std::string_view, std::int64_t& v) const {
    v = variant == 1 ? INT64_MIN : v == INT64_MAX ? -7 : v + 3;
  }
  void operator()(std::string_view, std::string& v) const {
    v = variant == 1 ? std::string("\0\n", 2) : "ij,jk->ik";
  }
  void operator()(std::string_view, graph::Ints& v) const { v = {1, -2, INT64_MAX}; }
  void operator()(std::string_view, std::shared_ptr<const graph::Graph>& v) const {
    v = std::make_shared<const graph::Graph>(sample_graph());
  }
  template <class E>
  requires std::is_enum_v<E>
  void operator()(std::string_view, E& v) const {
    const std::size_t n = graph::enumerators<E>().size();
    v = static_cast<E>((static_cast<std::size_t>(v) + 1 + static_cast<std::size_t>(variant)) % n);
  }
};

// One node of `op` with as many operands as verify() asks for.
Result<graph::Graph> graph_of(const graph::Op& op) {
  Result<graph::Graph> last = internal_error("no operand count fits");
  for (int inputs = 0; inputs <= 8; ++inputs) {
    graph::Graph g;
    std::vector<graph::ValueId> operands;
    for (int i = 0; i < inputs; ++i)
      operands.push_back(g.add_value("x" + std::to_string(i), TensorType{DType::f32, Shape{2, 2}}));
    g.inputs = operands;
    const graph::ValueId y = g.add_untyped_value("y");
    g.outputs = {y};
    g.add_node(op, "node", operands, {y});
    if (graph::verify(g).ok()) return g;
  }
  return last;
}

// Attributes that are equal, nested graphs by their text.
void expect_equal(const graph::Op& a, const graph::Op& b) {
  const auto dump = [](const graph::Op& op) {
    std::string out;
    graph::each_field(op, [&](std::string_view, const auto& v) {
      using T = std::decay_t<decltype(v)>;
      if constexpr (std::is_same_v<T, std::shared_ptr<const graph::Graph>>) {
        out += v ? graph::to_text(*v) : "null";
      } else if constexpr (std::is_same_v<T, graph::Ints>) {
        for (std::int64_t i : v) out += std::to_string(i) + ",";
      } else if constexpr (std::is_same_v<T, std::string>) {
        out += v;
      } else if constexpr (std::is_same_v<T, float>) {
        out.append(reinterpret_cast<const char*>(&v), sizeof v);
      } else {
        out += std::to_string(static_cast<std::int64_t>(v));
      }
      out += ';';
    });
    return out;
  };
  EXPECT_EQ(graph::name(a), graph::name(b));
  EXPECT_EQ(dump(a), dump(b));
}

template <std::size_t I = 0>
void for_each_op(const std::function<void(graph::Op)>& f) {
  if constexpr (I < std::variant_size_v<graph::Op>) {
    f(std::variant_alternative_t<I, graph::Op>{});
    for_each_op<I + 1>(f);
  }
}

TEST(RoundTrip, EveryAttributeOfEveryOperator) {
  int count = 0;
  for_each_op([&](graph::Op op) {
    for (int variant = -1; variant < 3; ++variant) {
      SCOPED_TRACE(std::string(graph::name(op)) + " variant " + std::to_string(variant));
      graph::Op changed = op;
      if (variant >= 0) graph::each_field(changed, Changer{variant});
      const auto g = graph_of(changed);
      ASSERT_TRUE(g.ok()) << g.error().message;
      const std::string bytes = written(*g);
      const auto after = read(bytes);
      ASSERT_TRUE(after.ok()) << after.error().message;
      expect_equal(after->node(0).op, changed);
      EXPECT_EQ(written(*after), bytes);
      ++count;
    }
  });
  EXPECT_EQ(count, 4 * static_cast<int>(std::variant_size_v<graph::Op>));
}

TEST(RoundTrip, EveryEnumerator) {
  const auto check = [](graph::Op op) {
    const auto g = graph_of(op);
    ASSERT_TRUE(g.ok());
    const auto after = read(written(*g));
    ASSERT_TRUE(after.ok());
    expect_equal(after->node(0).op, op);
  };
  for (std::size_t i = 0; i < graph::enumerators<graph::UnaryKind>().size(); ++i)
    check(graph::Unary{static_cast<graph::UnaryKind>(i)});
  for (std::size_t i = 0; i < graph::enumerators<graph::BinaryKind>().size(); ++i)
    check(graph::Binary{static_cast<graph::BinaryKind>(i)});
  for (std::size_t i = 0; i < graph::enumerators<Activation>().size(); ++i)
    check(graph::Linear{static_cast<Activation>(i)});
  for (std::size_t i = 0; i < graph::enumerators<DType>().size(); ++i)
    check(graph::Cast{static_cast<DType>(i)});
}

TEST(RoundTrip, DeadNodesAreNotWritten) {
  graph::Graph g = parsed("x: f32[2]\ny = relu(x)\nz = neg(x)\nreturn y");
  g.erase(1);
  const auto after = read(written(g));
  ASSERT_TRUE(after.ok()) << after.error().message;
  EXPECT_EQ(after->node_count(), 1);
}

TEST(RoundTrip, NestingTooDeepIsRefused) {
  auto inner = std::make_shared<const graph::Graph>(parsed("x: f32[2]\ny = relu(x)\nreturn y"));
  for (int depth = 0; depth < 40; ++depth) {
    graph::Graph g = parsed("c: bool[]\nx: f32[2]\nreturn x");
    const graph::ValueId y = g.add_untyped_value("y");
    g.add_node(graph::If{inner, inner}, "if", {0, 1}, {y});
    inner = std::make_shared<const graph::Graph>(std::move(g));
    if (depth > 14) break;  // each level doubles the number of copies: stay small
  }
  const auto bytes = format::to_bytes(*inner);
  ASSERT_FALSE(bytes.ok());
  EXPECT_THAT(bytes.error().message, ::testing::HasSubstr("nested more than"));
}

}  // namespace
}  // namespace fold8
