// Which layers stay float for speed: on hand-made tables, and through the whole of convert().
#include "fusion/prefer_speed.h"

#include "fusion/convert.h"
#include "fusion/speed_model.h"
#include "runtime/format/f8.h"
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;

const std::string kHead =
    "# target: toy\nkind,m,n,k,int8_us,f32_us,int8_to_f32_us,f32_to_int8_us\n";
// Times that depend on the number of multiply-adds only.
CostTable table_of(const std::string& rows) {
  auto t = CostTable::parse(kHead + rows, "toy.csv");
  EXPECT_TRUE(t.ok()) << t.error().message;
  return t.ok() ? *t : CostTable();
}

std::map<std::string, std::string> slower(const std::string& text, const std::string& rows,
                                          QuantizeOptions options = {}) {
  const graph::Graph g = parsed(text);
  auto samples = normal_samples(g, 1);
  const auto shapes = shapes_of(model_of(g), {&samples});
  EXPECT_TRUE(shapes.ok()) << shapes.error().message;
  return slower_in_int8(g, *shapes, table_of(rows), options);
}

TEST(CostKeys, OfEveryKindOfLayer) {
  const std::string square = " kernel=[3,3] strides=[1,1] dilations=[1,1] pads=[1,1,1,1]";
  const graph::Graph g = parsed(
      "x: f32[n,4,8,8]\n"
      "a = conv(x, random:f32[6,4,3,3])" +
      square +
      "\n"
      "b = conv(a, random:f32[6,1,3,3]) group=6" +
      square +
      "\n"
      "c = conv(b, random:f32[8,3,3,3]) group=2" +
      square +
      "\n"
      "d = conv(c, random:f32[8,5,2,2]) kernel=[2,2] strides=[2,2] dilations=[1,1] pads=[0,0,0,0] "
      "transposed=true\n"
      "e = conv(x, random:f32[8,1,3,3]) group=4" +
      square +
      "\n"
      "f = flatten(c)\n"
      "y = linear(f, random:f32[10,512])\nreturn d, e, y");
  auto samples = normal_samples(g, 1);  // n: 3
  const auto shapes = shapes_of(model_of(g), {&samples});
  ASSERT_TRUE(shapes.ok()) << shapes.error().message;
  const auto text = [&](const char* node) -> std::string {
    const auto k = cost_key(g, node_named(g, node), *shapes);
    if (!k) return "none";
    return std::string(name(k->kind)) + " " + std::to_string(k->m) + " " + std::to_string(k->n) +
           " " + std::to_string(k->k);
  };
  EXPECT_EQ(text("a"), "conv 192 6 36");
  EXPECT_EQ(text("b"), "depthwise 192 6 9");
  EXPECT_EQ(text("c"), "grouped 192 8 27");
  EXPECT_EQ(text("d"), "transposed 192 8 20");
  EXPECT_EQ(text("e"), "grouped 192 8 9");
  EXPECT_EQ(text("f"), "none");
  EXPECT_EQ(text("y"), "linear 3 10 512");
  EXPECT_FALSE(cost_key(g, node_named(g, "a"), {}));
}

constexpr const char* kOne = "x: f32[4,8]\ny = linear(x, random:f32[16,8])\nreturn y";

TEST(PreferSpeed, TheSmallerTimeWinsWithItsInputAndResultCounted) {
  const std::string rounds = "quantize,32,1,1,4,0,0,0\n";
  // INT8: 6 + 4 to round x; its result is an f32 output.
  EXPECT_THAT(slower(kOne, "linear,4,16,8,1,10.5,6,20\n" + rounds), IsEmpty());
  const auto why = slower(kOne, "linear,4,16,8,1,9.5,6,20\n" + rounds);
  ASSERT_THAT(why, ElementsAre(Key("y")));
  EXPECT_EQ(why.at("y"), "INT8 would be slower on toy: about 10 us against 9.5 us");
  EXPECT_THAT(slower(kOne, "linear,4,16,8,1,10,6,20\n" + rounds), IsEmpty()) << "a tie";
  EXPECT_THAT(slower(kOne, "linear,4,16,8,250,123.4,250,1\n").at("y"),
              HasSubstr("about 250 us against 123 us"));
  EXPECT_THAT(slower(kOne, "conv,4,16,8,9,1,9,1\n"), IsEmpty()) << "nothing is known of it";
}

TEST(PreferSpeed, LayersThatReadOneTensorShareItsRounding) {
  const char* text =
      "x: f32[4,8]\na = linear(x, random:f32[16,8])\nb = linear(x, random:f32[16,8])\nreturn a, b";
  const std::string layer = "linear,4,16,8,6,8,6,8\n";
  EXPECT_THAT(slower(text, layer + "quantize,32,1,1,3,0,0,0\n"), IsEmpty());  // 15 against 16
  const auto why = slower(text, layer + "quantize,32,1,1,5,0,0,0\n");         // 17 against 16
  EXPECT_THAT(why, ElementsAre(Key("a"), Key("b")));
}

TEST(PreferSpeed, AFloatLayerAmongInt8OnesPaysForRoundingItsResult) {
  const std::string conv = " kernel=[1,1] strides=[1,1] dilations=[1,1] pads=[0,0,0,0]";
  const std::string text = "x: f32[1,8,4,4]\na = conv(x, random:f32[8,8,1,1])" + conv +
                           "\nb = conv(a, random:f32[8,1,1,1]) group=8" + conv +
                           "\ny = conv(b, random:f32[8,8,1,1])" + conv + "\nreturn y";
  const std::string pointwise = "conv,16,8,8,10,100,10,100\n";
  EXPECT_THAT(slower(text, pointwise + "depthwise,16,8,1,9,4,9,10\n"), IsEmpty());
  EXPECT_THAT(slower(text, pointwise + "depthwise,16,8,1,9,4,9,8\n"), ElementsAre(Key("b")));
  // Writing floats for it may cost the layer before more than it saves.
  EXPECT_THAT(slower(text, "conv,16,8,8,10,100,12,100\ndepthwise,16,8,1,9,4,9,8\n"), IsEmpty());
}

TEST(PreferSpeed, WhatOtherOperatorsReadAndGlobsKeep) {
  const char* text =
      "x: f32[4,8]\na = linear(x, random:f32[8,8])\ns = softmax(a)\ny = linear(s, "
      "random:f32[8,8])\nreturn y";
  // a writes f32 for the softmax: 9, not 1.
  EXPECT_THAT(slower(text, "linear,4,8,8,1,8,9,8\n"), ElementsAre(Key("a"), Key("y")));
  QuantizeOptions options;
  options.keep_float = {"a"};
  EXPECT_THAT(slower(text, "linear,4,8,8,1,8,9,8\n", options), ElementsAre(Key("y")))
      << "the glob gives the reason";
}

TEST(PreferSpeed, PerTokenRoundingCostsItsOwnTime) {
  QuantizeOptions options;
  options.activations = Activations::dynamic;
  const std::string rows = "linear,4,16,8,1,9,6,99\nquantize_rows,4,8,1,5,0,0,0\n";
  EXPECT_THAT(slower(kOne, rows, options), ElementsAre(Key("y")));  // 11 against 9
  EXPECT_THAT(slower(kOne, "linear,4,16,8,1,12,6,99\nquantize_rows,4,8,1,5,0,0,0\n", options),
              IsEmpty());
}

TEST(SpeedModel, FindsWhatNoSingleMoveReaches) {
  // Three layers in a row, cheap in float together; each alone pays for both sides.
  SpeedModel m;
  m.tensors.resize(4);
  const Cost cost{10, 8, 14, 14};
  for (std::size_t i = 0; i < 3; ++i) {
    SpeedModel::Layer l;
    l.cost = cost;
    l.input = i, l.output = i + 1;
    m.tensors[i].readers = {i};
    m.tensors[i + 1].writer = i;
    m.layers.push_back(l);
  }
  m.minimize();
  EXPECT_EQ(m.total(), 24);
  EXPECT_EQ(m.compare(1).now, 8);
  EXPECT_EQ(m.compare(1).other, 8 + (14 + 14 + 8) - 24);
  m.layers[1].fixed = true;
  for (auto& l : m.layers) l.int8 = true;
  m.minimize();
  EXPECT_TRUE(m.layers[0].int8 && m.layers[1].int8);
}

TEST(PreferSpeed, RoundingGoesThroughWhatMovesValuesOrShiftsCodes) {
  const std::string conv = " kernel=[1,1] strides=[1,1] dilations=[1,1] pads=[0,0,0,0]";
  const auto kept = [&](const std::string& between) {
    return slower(
        "x: f32[1,4,4,4]\na = conv(x, random:f32[4,1,1,1]) group=4 activation=hard_swish "
        "a=0.2 b=0.5" +
            conv + "\nt = " + between + "\ny = conv(t, random:f32[4,4,1,1])" + conv + "\nreturn y",
        "conv,16,4,4,10,100,10,100\nconv,4,4,4,10,100,10,100\n"
        "depthwise,16,4,1,7,8,50,20\nquantize,64,1,1,3,0,0,0\n");
  };
  EXPECT_THAT(kept("max_pool(a) kernel=[2,2] strides=[2,2] pads=[0,0,0,0] dilations=[1,1]"),
              IsEmpty());
  EXPECT_THAT(kept("affine(a, f32[4]{1,1,1,1}, f32[4]{3,3,3,3})"), IsEmpty());
  EXPECT_THAT(kept("affine(a, f32[4]{1,2,1,1}, f32[4]{3,3,3,3})"), ElementsAre(Key("a")));
  EXPECT_THAT(kept("sigmoid(a)"), ElementsAre(Key("a")));
}

TEST(SpeedModel, OthersThatCouldReadU8LoseByF32) {
  SpeedModel m;
  m.tensors.resize(2);
  SpeedModel::Layer l;
  l.cost = {9, 8, 9, 8};
  l.output = 1;
  m.layers = {l};
  m.tensors[0].readers = {0};
  m.tensors[1].writer = 0;
  m.minimize();
  EXPECT_FALSE(m.layers[0].int8);
  m.tensors[1].wider_us = 3;
  m.minimize();
  EXPECT_TRUE(m.layers[0].int8);
  EXPECT_EQ(m.total(), 9);
}

// ---------------------------------------------------------------- convert

constexpr const char* kNet =
    "x: f32[n,8]\nh = linear(x, random:f32[16,8], random:f32[16])\nr = relu(h)\ny = linear(r, "
    "random:f32[4,16], random:f32[4])\nreturn y";

Converted must_convert(const ConvertOptions& options, std::size_t count = 8) {
  return must_convert(kNet, options, count);
}

// The samples hold 3 rows.
const std::string kFirstIsSlow = "linear,3,16,8,9,2,9,2\nlinear,3,4,16,1,5,1,5\n";

TEST(PreferSpeedConvert, KeepsTheSlowLayerFloatAndSaysSo) {
  const CostTable table = table_of(kFirstIsSlow);
  ConvertOptions options;
  options.cost_table = &table;
  const Converted c = must_convert(options);
  EXPECT_THAT(c.summary.quantized_layers, ElementsAre("y"));
  ASSERT_EQ(c.summary.float_layers.size(), 1u);
  EXPECT_EQ(c.summary.float_layers[0].node, "h");
  EXPECT_EQ(c.summary.float_layers[0].why, "INT8 would be slower on toy: about 9 us against 2 us");
  EXPECT_EQ(c.summary.speed_target, "toy");
  EXPECT_DOUBLE_EQ(*c.summary.int8_mac_share, 64.0 / (128 + 64));
  const ConvertSummary stored = load_facts(c.graph);
  EXPECT_EQ(stored.speed_target, "toy");
  ASSERT_EQ(stored.float_layers.size(), 1u);
  EXPECT_EQ(stored.float_layers[0].why, c.summary.float_layers[0].why);
}

TEST(PreferSpeedConvert, WithoutATableNothingChanges) {
  const Converted c = must_convert({});
  EXPECT_THAT(c.summary.quantized_layers, ElementsAre("h", "y"));
  EXPECT_EQ(c.summary.speed_target, "");
  EXPECT_EQ(c.graph.metadata.count("fold8.speed_target"), 0u);
}

TEST(PreferSpeedConvert, SameBytesForAnyThreadsAndTime) {
  const CostTable table = table_of(kFirstIsSlow);
  ConvertOptions options;
  options.cost_table = &table;
  const std::string bytes = bytes_of(must_convert(options));
  options.threads = 2;
  EXPECT_TRUE(bytes_of(must_convert(options)) == bytes);
  // Another name and place of the same table.
  const auto again = CostTable::parse("# elsewhere\n" + kHead + kFirstIsSlow, "other/place.csv");
  ASSERT_TRUE(again.ok());
  options.cost_table = &*again;
  EXPECT_TRUE(bytes_of(must_convert(options)) == bytes);
}

TEST(PreferSpeedConvert, WithoutDataTheShapesAreMadeUp) {
  const CostTable table = table_of("linear,1,16,8,9,2,9,2\nlinear,1,4,16,1,5,1,5\n");
  ConvertOptions options;
  options.cost_table = &table;
  options.quantize.activations = Activations::dynamic;
  const Converted c = must_convert(options, 0);
  EXPECT_THAT(c.summary.quantized_layers, ElementsAre("y"));
}

TEST(PreferSpeedConvert, AllFloatIsAResultToo) {
  const CostTable table = table_of("linear,1,1,1,2,1,2,1\n");
  ConvertOptions options;
  options.cost_table = &table;
  const Converted c = must_convert(options);
  EXPECT_THAT(c.summary.quantized_layers, IsEmpty());
  EXPECT_EQ(c.summary.int8_mac_share, 0.0);
  EXPECT_EQ(c.summary.float_layers.size(), 2u);
}

}  // namespace
}  // namespace fold8::fusion
