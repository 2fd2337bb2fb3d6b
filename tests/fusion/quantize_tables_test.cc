// Which tables of embeddings become s8 rows, what Gather then gives, and which stay float.
#include "fusion/passes/quantize_tables.h"

#include <cmath>

#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// 512 rows of 64: 128 KiB.
constexpr const char* kLookup =
    "i: s64[n]\nt = gather(random:f32[512,64], i)\ny = linear(t, random:f32[8,64])\nreturn y, t";

Tensor indices() {
  Tensor i(DType::s64, Shape{4});
  const std::int64_t values[] = {0, 511, -1, 17};
  std::copy(std::begin(values), std::end(values), i.as<std::int64_t>().begin());
  return i;
}

QuantizeOptions dynamic() {
  QuantizeOptions o;
  o.activations = Activations::dynamic;
  return o;
}

const TensorType& table_of(const Quantized& q) {
  return q.graph.type(node_named(q.graph, "t").inputs[0]);
}

TEST(QuantizeTables, RowsBecomeS8WithAScaleEach) {
  const Quantized q = quantized(kLookup, dynamic(), 0);
  EXPECT_THAT(q.outcome.tables, testing::SizeIs(1));
  EXPECT_THAT(q.outcome.quantized, ElementsAre("y"));  // tables are no layers
  const TensorType& t = table_of(q);
  EXPECT_EQ(t.dtype, DType::s8);
  ASSERT_TRUE(t.quant);
  EXPECT_EQ(t.quant->granularity(), Granularity::per_channel);
  EXPECT_EQ(t.quant->axis(), 0);
  EXPECT_EQ(t.quant->scales().size(), 512u);
  EXPECT_EQ(q.graph.type(q.graph.find_value("t")).dtype, DType::f32);
  expect_verified(q.graph);
}

TEST(QuantizeTables, AreTheSameInTheFile) {
  ConvertOptions options;
  options.quantize = dynamic();
  const Converted c = must_convert(kLookup, options, 0);
  EXPECT_THAT(c.summary.quantized_tables, testing::SizeIs(1));
  const std::string bytes = bytes_of(c);
  EXPECT_LT(bytes.size(), 512u * 64 * 4 / 2);  // s8 rows, scales, a small layer
  const auto read = format::read_bytes(bytes.data(), bytes.size(), true, nullptr);
  ASSERT_TRUE(read.ok()) << read.error().message;
  const auto x = run_once(c.graph, {indices()}), y = run_once(read->graph, {indices()});
  for (std::size_t o = 0; o < x.size(); ++o) EXPECT_TRUE(same_bytes(x[o], y[o]));
}

TEST(QuantizeTables, AnElementIsOffByHalfAStepOfItsRow) {
  const Quantized q = quantized(kLookup, dynamic(), 0);
  const auto exact = run_once(q.before, {indices()}), got = run_once(q.graph, {indices()});
  const std::size_t rows[] = {0, 511, 511, 17};
  const auto scales = table_of(q).quant->scales();
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t d = 0; d < 64; ++d)
      EXPECT_NEAR(got[1].as<float>()[i * 64 + d], exact[1].as<float>()[i * 64 + d],
                  scales[rows[i]] * 0.5001f);
}

// Embedding and output layer read one matrix: rows for one, packed columns for the other.
TEST(QuantizeTables, TiedWeightsAreQuantizedForEachUse) {
  const Quantized q = quantized(
      "i: s64[n]\nw = const random:f32[512,64]\nt = gather(w, i)\ny = linear(t, w)\nreturn y",
      dynamic(), 0);
  EXPECT_THAT(q.outcome.tables, ElementsAre("w"));
  EXPECT_THAT(q.outcome.quantized, ElementsAre("y"));
  const graph::ValueId rows = node_named(q.graph, "t").inputs[0],
                       weight = node_named(q.graph, "y").inputs[1];
  EXPECT_NE(rows, weight);
  EXPECT_EQ(q.graph.type(rows).dtype, DType::s8);
  EXPECT_EQ(q.graph.type(weight).dtype, DType::s8);
}

TEST(QuantizeTables, TwoLookupsShareOneTable) {
  const Quantized q = quantized(
      "i: s64[n]\nj: s64[n]\nw = const random:f32[512,64]\nt = gather(w, i)\nu = gather(w, j)\n"
      "s = add(t, u)\ny = linear(s, random:f32[8,64])\nreturn y",
      dynamic(), 0);
  EXPECT_THAT(q.outcome.tables, ElementsAre("w"));
  EXPECT_EQ(node_named(q.graph, "t").inputs[0], node_named(q.graph, "u").inputs[0]);
}

struct Refusal {
  const char* name;
  const char* text;
};
class TableStaysFloat : public testing::TestWithParam<Refusal> {};

TEST_P(TableStaysFloat, AsItWas) {
  const Quantized q = quantized(GetParam().text, dynamic(), 0);
  EXPECT_THAT(q.outcome.tables, IsEmpty());
  EXPECT_EQ(q.graph.type(node_named(q.graph, "t").inputs[0]).dtype, DType::f32);
}

INSTANTIATE_TEST_SUITE_P(
    , TableStaysFloat,
    testing::Values(Refusal{"small", "i: s64[n]\nt = gather(random:f32[255,64], i)\nreturn t"},
                    Refusal{"columns",
                            "i: s64[n]\nt = gather(random:f32[512,64], i) axis=1\nreturn t"},
                    Refusal{"rotary",
                            "i: s64[n]\nx: f32[n,64]\nt = gather(random:f32[512,64], i)\n"
                            "u = unsqueeze(t) axes=[0]\ny = mul(u, x)\nreturn y"},
                    Refusal{"blocks", "i: s64[n]\nt = gather(random:f32[64,8,64], i)\nreturn t"},
                    Refusal{"computed", "i: s64[n]\nx: f32[512,64]\nt = gather(x, i)\nreturn t"}),
    [](const auto& info) { return info.param.name; });

TEST(QuantizeTables, KeepFloatNamesTheTableOrTheLookup) {
  const std::string text =
      "i: s64[n]\nwords = const random:f32[512,64]\nt = gather(words, i)\nreturn t";
  for (const char* glob : {"wor*", "t"}) {
    QuantizeOptions o = dynamic();
    o.keep_float = {glob};
    const Quantized q = quantized(text, o, 0);
    EXPECT_THAT(q.outcome.tables, IsEmpty());
    EXPECT_THAT(q.outcome.warnings, IsEmpty());
  }
}

TEST(QuantizeTables, NaNInATableIsAnError) {
  graph::Graph g = parsed(kLookup);
  auto values = g.constant<float>(node_named(g, "t").inputs[0]);
  const_cast<float&>(values[77]) = NAN;
  const auto outcome = quantize(g, dynamic());
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, Code::invalid_model);
  EXPECT_THAT(outcome.error().message, HasSubstr("element 77"));
}

}  // namespace
}  // namespace fold8::fusion
