// Factors of whole classes of feature maps: sums, gates and pools keep together, depthwise layers
// get channels of like size, and the float results stay.
#include "fusion/passes/balance.h"

#include <cmath>

#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;

const std::string kPoint = " kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]";
const std::string kDepthwise = " kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1] group=4";

// Channels of very different size into a depthwise layer, a skip connection around the next two.
std::string skipping(const std::string& sum = "s = binary(d, p)") {
  return "x: f32[2,4,6,6]\nw = binary(random:f32[4,4,1,1], f32[4,1,1,1]{64,1,0.25,8}) "
         "kind=mul\na = conv(x, w, random:f32[4])" +
         kPoint + " activation=clip a=0 b=inf\nd = conv(a, random:f32[4,1,3,3], random:f32[4])" +
         kDepthwise + "\nh = conv(d, random:f32[8,4,1,1])" + kPoint +
         " activation=gelu_erf\np = conv(h, random:f32[4,8,1,1])" + kPoint + "\n" + sum +
         "\ny = conv(s, random:f32[4,1,3,3])" + kDepthwise + "\nreturn y";
}

struct Balanced {
  graph::Graph before, after;
  quant::CalibrationTable table;  // of after
  int classes = 0;
};

quant::CalibrationTable ranges(const graph::Graph& g) {
  auto samples = normal_samples(g, 4);
  quant::CalibrateOptions o;
  o.channel_axis = values_to_balance(g);
  for (const auto& [name, axis] : o.channel_axis) o.observe.insert(name);
  auto table = quant::calibrate(model_of(g), samples, o);
  EXPECT_TRUE(table.ok()) << table.error().message;
  return table.ok() ? std::move(*table) : quant::CalibrationTable{};
}

Balanced balanced(const std::string& text) {
  Balanced b{parsed(text), {}, {}, 0};
  EXPECT_TRUE(run(Stage{"constants", {&fold_constants}}, b.before).ok());
  b.after = b.before;
  const auto table = ranges(b.before);
  BalanceOptions o;
  o.calibration = &table;
  const auto changed = balance(b.after, o);
  EXPECT_TRUE(changed.ok()) << changed.error().message;
  if (changed.ok()) b.classes = *changed;
  expect_verified(b.after);
  b.table = ranges(b.after);
  return b;
}

// Largest channel of a tensor over its smallest.
double spread(const quant::CalibrationTable& table, const char* name) {
  const quant::Observer* seen = table.find(name);
  if (seen == nullptr || seen->channel_max().empty()) return HUGE_VAL;
  double least = HUGE_VAL, most = 0;
  for (std::size_t c = 0; c < seen->channel_max().size(); ++c) {
    const double range = std::max(-double{seen->channel_min()[c]}, double{seen->channel_max()[c]});
    least = std::min(least, range), most = std::max(most, range);
  }
  return most / least;
}

TEST(Balance, WhatDepthwiseLayersReadGetsChannelsOfOneSize) {
  const Balanced b = balanced(skipping());
  EXPECT_EQ(b.classes, 2);  // a; d with p and s
  EXPECT_GT(spread(ranges(b.before), "a"), 100);
  EXPECT_NEAR(spread(b.table, "a"), 1, 1e-4);
}

TEST(Balance, ASumsOperandsAndResultShareTheFactors) {
  const Balanced b = balanced(skipping());
  const auto rescale_of = [&](const char* name) {
    for (graph::ValueId v = 0; v < b.after.value_count(); ++v)
      if (b.after.value(v).name == name) return b.after.value(v).rescale;
    return std::vector<float>();
  };
  EXPECT_EQ(rescale_of("d").size(), 4u);
  EXPECT_EQ(rescale_of("d"), rescale_of("s"));
  EXPECT_EQ(rescale_of("p"), rescale_of("s"));
  EXPECT_TRUE(rescale_of("h").empty()) << "GELU lets no factor through";
}

TEST(Balance, TheFloatResultsStay) {
  for (const std::string& text :
       {skipping(),
        skipping("q = binary(d, p)\ns = pool(q) kind=average kernel=[3,3] strides=[1,1] "
                 "pads=[1,1,1,1] dilations=[1,1]")}) {
    const Balanced b = balanced(text);
    auto samples = normal_samples(b.before, 2);
    for (const auto& s : samples.all()) {
      const auto x = run_once(b.before, s), y = run_once(b.after, s);
      quant::ErrorMeter meter;
      ASSERT_TRUE(meter.add(x[0].as<float>(), y[0].as<float>()).ok());
      EXPECT_GT(meter.summary().sqnr_db.value_or(1e9),
                100);  // SPEC: smoothing moves no float output
    }
  }
}

TEST(Balance, AGatedMapSharesTheFactorsOfTheMapBeforeAndTheGateNone) {
  const Balanced b =
      balanced("x: f32[2,4,6,6]\nd = conv(x, random:f32[4,4,1,1])" + kPoint +
               "\nm = reduce(d) kind=mean axes=[2,3]\ng = conv(m, random:f32[4,4,1,1])" + kPoint +
               " activation=hard_sigmoid a=0.2 b=0.5\ns = binary(d, g) kind=mul\ny = conv(s, "
               "random:f32[4,1,3,3])" +
               kDepthwise + "\nreturn y");
  EXPECT_EQ(b.classes, 1);
  EXPECT_THAT(values_to_balance(b.before), ElementsAre(Key("m"), Key("s")));
}

TEST(Balance, LeavesAloneWhatAFactorCannotCross) {
  const std::string first = "x: f32[2,4,6,6]\na = conv(x, random:f32[4,4,1,1])" + kPoint,
                    last = "y = conv(a, random:f32[4,1,3,3])" + kDepthwise;
  for (const std::string& text :
       {first + " activation=hard_swish a=0.16 b=0.5\n" + last + "\nreturn y",
        first + " activation=clip a=0 b=6\n" + last + "\nreturn y",
        first + "\n" + last + "\nreturn y, a",
        first + "\n" + last + "\nz = softmax(a) axis=1\nreturn y, z",
        first + "\n" + last + "\nz = binary(a, f32[1]{2})\nreturn y, z"}) {
    const Balanced b = balanced(text);
    EXPECT_EQ(b.classes, 0) << text;
    EXPECT_EQ(graph::to_text(b.after), graph::to_text(b.before));
    EXPECT_THAT(values_to_balance(b.before), IsEmpty());
  }
}

TEST(Balance, FloatLayersAndUnseenRangesChangeNothing) {
  graph::Graph g = parsed(skipping("s = binary(d, p)"));
  EXPECT_TRUE(run(Stage{"constants", {&fold_constants}}, g).ok());
  const auto table = ranges(g);
  BalanceOptions o;
  EXPECT_EQ(*balance(g, o), 0);
  o.calibration = &table;
  o.becomes_int8 = [](const graph::Node&) { return false; };
  EXPECT_EQ(*balance(g, o), 0);
}

TEST(Balance, DeadChannelsKeepTheirs) {
  const Balanced b = balanced(
      "x: f32[2,4,6,6]\nw = binary(random:f32[4,4,1,1], f32[4,1,1,1]{64,0,0.015625,8}) kind=mul\n"
      "a = conv(x, w)" +
      kPoint + "\ny = conv(a, random:f32[4,1,3,3])" + kDepthwise + "\nreturn y");
  ASSERT_EQ(b.classes, 1);
  EXPECT_EQ(b.after.value(node_named(b.after, "y").inputs[0]).rescale[1], 1.0f);
}

}  // namespace
}  // namespace fold8::fusion
