#include "quant/group_gain.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "quant/sensitivity.h"
#include "tests/support/memory_samples.h"
#include "tests/support/parsed_graph.h"

namespace fold8::quant {
namespace {

using ::testing::HasSubstr;
using testing_support::MemorySamples;
using testing_support::model_of;
using testing_support::normal_samples;
using testing_support::parsed;
using testing_support::tensor_of;

using Groups = std::vector<std::vector<std::string>>;

std::vector<std::optional<double>> gains(const graph::Graph& a, const graph::Graph& b,
                                         SampleSource& samples, const Groups& groups) {
  auto g = group_gains(model_of(a), model_of(b), samples, groups);
  EXPECT_TRUE(g.ok()) << g.error().message;
  return g.ok() ? std::move(*g) : std::vector<std::optional<double>>(groups.size());
}

// Float: a = (x0 + 2 x1, x0/2 + x1), b = (a0, a0 - a1), y = b0 + b1. INT8: codes of x are steps of
// 0.1, of a 0.5, of b 0.25; weights are exact. x = (1, 0.26):
//   reference    a = (1.52, 0.76)  b = (1.52, 0.76)  y = 2.28
//   INT8         x -> (1, 0.3), a = (1.6, 0.8) -> (1.5, 1), b = (1.5, 0.5) -> (1.5, 0.5), y = 2
constexpr const char* kFloat =
    "x: f32[1,2]\na = linear(x, f32[2,2]{1,2, 0.5,1})\nb = linear(a, f32[2,2]{1,0, 1,-1})\n"
    "y = linear(b, f32[1,2]{1,1})\nreturn y";
constexpr const char* kInt8 =
    "x: f32[1,2]\nxq: u8[1,2] @(0.1,0) = quantize(x)\nw = const s8[2,2] @(0.5,0) {2,4, 1,2}\n"
    "a = linear(xq, w)\naq: u8[1,2] @(0.5,0) = quantize(a)\nv = const s8[2,2] @(1,0) {1,0, 1,-1}\n"
    "b = linear(aq, v)\nbq: u8[1,2] @(0.25,0) = quantize(b)\nu = const s8[1,2] @(1,0) {1,1}\n"
    "y = linear(bq, u)\nreturn y";

TEST(GroupGains, ByHand) {
  MemorySamples samples({{tensor_of({1, 2}, {1, 0.26f})}});
  const auto g = gains(parsed(kFloat), parsed(kInt8), samples, {{"a", "b"}, {"y", "b"}});
  constexpr double kDb = 1e-3;
  const auto db = [](double error) { return 20 * std::log10(0.28 / error); };
  // a float: (1.52, 0.76); b float reads that: (1.52, 0.76), its codes (1.5, 0.75), y = 2.25.
  EXPECT_NEAR(g[0].value(), db(0.03), kDb);
  // b float reads (1.6, 0.8): (1.6, 0.8); y float reads that: 2.4. In whatever order it is asked.
  EXPECT_NEAR(g[1].value(), db(0.12), kDb);
}

TEST(GroupGains, OfOneLayerAreItsGain) {
  const graph::Graph a = parsed(kFloat), b = parsed(kInt8);
  auto samples = normal_samples(a, 4);
  for (auto& sample : samples.all())
    for (float& x : sample[0].as<float>()) x = std::abs(x);
  const auto one = sensitivity(model_of(a), model_of(b), samples);
  ASSERT_TRUE(one.ok()) << one.error().message;
  Groups groups;
  for (const LayerSensitivity& l : *one) groups.push_back({l.name});
  ASSERT_EQ(groups.size(), 3u);
  const auto g = gains(a, b, samples, groups);
  int measured = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(g[i], one->at(i).gain_db) << groups[i][0];
    measured += g[i].has_value();
  }
  EXPECT_GE(measured, 2);
}

TEST(GroupGains, NoneWhereThereIsNothingToMeasure) {
  const graph::Graph a = parsed(kFloat), b = parsed(kInt8);
  auto samples = normal_samples(a, 2);
  const auto g = gains(a, b, samples, {{}, {"no such layer"}, {"a", "no such layer"}});
  EXPECT_EQ(g, std::vector<std::optional<double>>(3));
  // All three float: nothing is left of the error, and there is no ratio to it.
  MemorySamples first({{tensor_of({1, 2}, {1, 0.26f})}});
  EXPECT_GT(gains(a, b, first, {{"a", "b", "y"}})[0].value_or(1e9), 60);
  EXPECT_EQ(gains(a, a, samples, {{"a", "b"}})[0], std::nullopt);  // no error at all
}

TEST(GroupGains, ErrorsNameTheSample) {
  MemorySamples samples({{tensor_of({1, 2}, {1, 1})},
                         {tensor_of({1, 2}, {1, std::numeric_limits<float>::quiet_NaN()})}});
  const auto g = group_gains(model_of(parsed(kFloat)), model_of(parsed(kInt8)), samples, {{"a"}});
  ASSERT_FALSE(g.ok());
  EXPECT_THAT(g.error().message, HasSubstr("sample 1"));
}

}  // namespace
}  // namespace fold8::quant
