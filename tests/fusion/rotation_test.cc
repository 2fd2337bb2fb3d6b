// Rows rotated in front of their rounding: which, what becomes of the graph, and what it gains.
#include "fusion/choose_rotation.h"
#include "fusion/model_facts.h"
#include "fusion/rewrite/constants.h"
#include "fusion/round_weights.h"
#include "fusion/score.h"
#include "quant/sample_rows.h"
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A norm whose gamma makes two channels large, a gate of two layers (heavy tails), a layer.
std::string gated(const std::string& width = "32") {
  std::string gamma = "30,1,1,1,1,1,1,1,1,1,1,1,1,1,1,20";
  for (int i = 16; i < std::stoi(width); ++i) gamma += ",1";
  return "x: f32[4,6," + width + "]\nn = norm(x, f32[" + width + "]{" + gamma +
         "}) kind=rms\na = linear(n, random:f32[64," + width +
         "]) activation=silu a=1\nb = linear(n, random:f32[64," + width +
         "])\nh = binary(a, b) kind=mul\ny = linear(h, random:f32[8,64])\nreturn y";
}

// The same with weights that are small where n is large, as those of trained networks are.
graph::Graph outliers() {
  constexpr std::size_t kWidth = 32;
  graph::Graph g = parsed(gated());
  for (const graph::NodeId n : {1, 2}) {
    const graph::ValueId w = g.node(n).inputs[1];
    std::vector<double> values;
    for (const float v : g.constant<float>(w)) {
      const std::size_t c = values.size() % kWidth;
      values.push_back(c == 0 || c == 15 ? v / 25 : v);
    }
    g.node(n).inputs[1] = add_floats(g, "scaled", g.type(w).shape, values);
  }
  return g;
}

// Of quantize() with these options, in dB.
double sqnr_of(const graph::Graph& g, const QuantizeOptions& options) {
  const Quantized q = quantized(g, options);
  auto samples = normal_samples(q.before, 4, 7);
  FloatOutputs kept;
  const auto s = score([&] { return exec::Model::from_graph(q.before); },
                       model_of(runnable(q.graph)), samples, {.samples = {0, 1, 2, 3}}, kept);
  EXPECT_TRUE(s.ok()) << s.error().message;
  return s.ok() ? s->worst_sqnr_db.value_or(0) : 0;
}

std::map<std::string, quant::SampleRows> rows_of_tensors(const graph::Graph& g,
                                                         std::set<std::string> names) {
  auto samples = normal_samples(g, 8);
  auto rows = quant::sample_rows(model_of(g), samples, std::move(names), 64, 1);
  EXPECT_TRUE(rows.ok()) << rows.error().message;
  return rows.ok() ? std::move(*rows) : std::map<std::string, quant::SampleRows>{};
}

bool is_rotated(const graph::Node& n) {
  const auto* q = std::get_if<graph::DynamicQuantize>(&n.op);
  return q != nullptr && q->rotated;
}

TEST(Rotation, IsWrittenIntoTheRoundingAndTheWeights) {
  QuantizeOptions o;
  o.rotated_inputs = {"h"};
  const Quantized q = quantized(gated(), o);
  EXPECT_THAT(q.outcome.rotated, ElementsAre("h"));
  EXPECT_TRUE(is_rotated(node_named(q.graph, "h_u8")));
  EXPECT_FALSE(is_rotated(node_named(q.graph, "n_u8")));
  EXPECT_EQ(count_ops(q.graph, "dynamic_quantize"), 2);
}

TEST(Rotation, ANormDoesNotWriteRotatedCodes) {
  for (const bool rotated : {false, true}) {
    QuantizeOptions o;
    if (rotated) o.rotated_inputs = {"n"};
    const Ran ran = fused(quantized(gated(), o).graph);
    EXPECT_EQ(count_ops(ran.graph, "dynamic_quantize"), rotated ? 2 : 1);
  }
}

TEST(Rotation, FactorsInFrontAreTakenIn) {
  const Ran ran = fused(
      "x: f32[2,3,32]\nh = affine(x, random:f32[32], "
      "f32[32]{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
      "0,0,0,0,0,0,0,0,0,0,0,0}) axis=2\nq, s = dynamic_quantize(h) rotated=true\nreturn q, s",
      0);
  EXPECT_THAT(op_names(ran.graph), ElementsAre("dynamic_quantize"));
}

TEST(Rotation, LargeElementsNoLongerTakeTheCodesOfAllOthers) {
  QuantizeOptions o;
  const double plain = sqnr_of(outliers(), o);
  o.rotated_inputs = {"h", "n"};
  EXPECT_GT(sqnr_of(outliers(), o), plain + 3);
}

TEST(Rotation, IsChosenWhereItGains) {
  const graph::Graph g = parsed(gated());
  const auto rows = rows_of_tensors(g, {"n", "h"});
  EXPECT_THAT(better_rotated(g, {}, rows, 1.26), ElementsAre("h", "n"));
  EXPECT_THAT(better_rotated(g, {}, rows, 1000), IsEmpty());
  const graph::Graph even =
      parsed("x: f32[4,6,32]\nn = norm(x, _) kind=rms\ny = linear(n, random:f32[8,32])\nreturn y");
  EXPECT_THAT(better_rotated(even, {}, rows_of_tensors(even, {"n"}), 1.26), IsEmpty());
}

TEST(Rotation, OfRowsThatDoNotDivideOrLayersKeptFloatThereIsNone) {
  const graph::Graph g = parsed(gated("24"));
  EXPECT_THAT(better_rotated(g, {}, rows_of_tensors(g, {"n", "h"}), 1.26), ElementsAre("h"));
  QuantizeOptions o;
  o.rotated_inputs = {"n"};
  EXPECT_THAT(quantized(gated("24"), o).outcome.rotated, IsEmpty());
  const graph::Graph wide = parsed(gated());
  o.keep_float = {"y"};
  EXPECT_THAT(better_rotated(wide, o, rows_of_tensors(wide, {"n", "h"}), 1.26), ElementsAre("n"));
  o.keep_float = {};
  o.activations = Activations::static_;
  EXPECT_THAT(quantized(gated(), o).outcome.rotated, IsEmpty());
}

TEST(Rotation, WeightsAreRoundedForRotatedRows) {
  const graph::Graph g = parsed(gated());
  auto samples = normal_samples(g, 8);
  RoundWeightsOptions o;
  o.rotated_inputs = {"h"};
  const auto r = round_weights(g, model_of(g), samples, o);
  ASSERT_TRUE(r.ok()) << r.error().message;
  const std::string w = g.value(node_named(g, "y").inputs[1]).name;
  EXPECT_EQ(r->count(rotated_name(w)), 1u);
  EXPECT_EQ(r->count(w), 0u);
  QuantizeOptions q;
  q.rotated_inputs = {"h"};
  const double nearest = sqnr_of(parsed(gated()), q);
  q.rounded = std::make_shared<const RoundedWeights>(*r);
  EXPECT_GT(sqnr_of(parsed(gated()), q), nearest - 0.5);
  q.rotated_inputs = {};  // codes of rotated weights are not taken for the others
  EXPECT_GT(sqnr_of(parsed(gated()), q), 20);
}

TEST(Rotation, ConvertTriesItUnlessToldNotTo) {
  const auto converted = [](Rotation rotate) {
    const graph::Graph g = outliers();
    auto samples = normal_samples(g, 8);
    ConvertOptions o;
    o.smooth.off = true;
    o.rotate = rotate;
    auto c = convert(g, &samples, o);
    EXPECT_TRUE(c.ok()) << c.error().message;
    return c.ok() ? std::move(*c) : Converted{};
  };
  const Converted with = converted(Rotation::automatic), on = converted(Rotation::on),
                  without = converted(Rotation::off);
  ASSERT_EQ(with.summary.outputs.size(), 1u);
  EXPECT_THAT(with.summary.rotated, Contains("n"));
  EXPECT_THAT(on.summary.rotated, Contains("n"));
  EXPECT_THAT(without.summary.rotated, IsEmpty());
  EXPECT_GT(*with.summary.outputs[0].error.sqnr_db, *without.summary.outputs[0].error.sqnr_db + 3);
  EXPECT_EQ(load_facts(with.graph).rotated, with.summary.rotated);
}

TEST(Rotation, ConvertLeavesWhatIsGoodWithout) {
  EXPECT_THAT(must_convert(gated()).summary.rotated, IsEmpty());
}

}  // namespace
}  // namespace fold8::fusion
