// The search for the cheapest model that keeps a target.
#include "fusion/search.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "fusion/statistics.h"
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

using ::testing::HasSubstr;

// Two wide layers and two small ones; the first small one reads a wide range.
constexpr const char* kNetwork =
    "x: f32[4,16]\na = linear(x, random:f32[32,16], random:f32[32]) activation=clip a=0 b=inf\n"
    "b = linear(a, random:f32[8,32]) activation=clip a=0 b=inf\n"
    "c = linear(b, random:f32[48,8]) activation=clip a=0 b=inf\nd = linear(c, random:f32[5,48])\n"
    "y = softmax(d)\nreturn y";

class Memory : public SearchMemory {
 public:
  const std::vector<double>* find(const std::string& key) const override {
    const auto it = all.find(key);
    return it == all.end() ? nullptr : &it->second;
  }
  void add(const std::string& key, const std::string&, const std::vector<double>& v) override {
    all[key] = v;
  }
  std::map<std::string, std::vector<double>> all;
};

Result<Converted> searched(const Target& target, SearchMemory* memory = nullptr,
                           std::size_t samples = 24) {
  const graph::Graph g = parsed(kNetwork);
  auto source = normal_samples(g, samples, 7);
  ConvertOptions o;
  o.target = target;
  o.memory = memory;
  return convert(g, &source, o);
}

Target of_sqnr(double db) {
  Target t;
  t.sqnr_db = db;
  return t;
}

TEST(Search, AnEasyTargetLeavesNothingFloat) {
  const auto c = searched(of_sqnr(15));
  ASSERT_TRUE(c.ok()) << c.error().message;
  ASSERT_TRUE(c->summary.search);
  const SearchSummary& s = *c->summary.search;
  EXPECT_TRUE(s.met);
  EXPECT_EQ(s.steps[s.chosen].float_layers, 0u);
  EXPECT_EQ(s.steps[s.chosen].cost, 0);
  EXPECT_EQ(c->summary.int8_mac_share, 1.0);
  EXPECT_EQ(s.judged, (std::vector<std::string>{"d"}));  // in front of the Softmax
  EXPECT_EQ(s.held_out, 8u);
  EXPECT_EQ(c->summary.samples, 16u);
}

TEST(Search, AHarderTargetLeavesTheCheapestLayersThatHelpFloat) {
  const auto easy = searched(of_sqnr(15));
  ASSERT_TRUE(easy.ok());
  const double all_int8 = *easy->summary.search->steps[easy->summary.search->chosen].sqnr_db;
  const auto c = searched(of_sqnr(all_int8 + 2));
  ASSERT_TRUE(c.ok()) << c.error().message;
  const SearchSummary& s = *c->summary.search;
  ASSERT_TRUE(s.met);
  const SearchStep& chosen = s.steps[s.chosen];
  EXPECT_GT(chosen.float_layers, 0u);
  EXPECT_LT(chosen.float_share, 1);
  EXPECT_NEAR(1 - *c->summary.int8_mac_share, chosen.float_share, 1e-12);
  EXPECT_GE(*chosen.sqnr_db - kMarginDb, all_int8 + 2);
  EXPECT_GE(*chosen.sqnr_low_db, all_int8 + 2);
  for (const SearchStep& t : s.steps) EXPECT_TRUE(!t.meets || t.cost >= chosen.cost) << t.cost;
  ASSERT_FALSE(c->summary.float_layers.empty());
  EXPECT_THAT(c->summary.float_layers[0].why, HasSubstr("left float for the target"));
}

TEST(Search, ATargetThatNothingMeetsGivesTheMostAccurateModelAndSaysSo) {
  const auto c = searched(of_sqnr(180));
  ASSERT_TRUE(c.ok()) << c.error().message;
  const SearchSummary& s = *c->summary.search;
  EXPECT_FALSE(s.met);
  EXPECT_FALSE(s.steps[s.chosen].meets);
  EXPECT_LT(s.steps[s.chosen].float_share, 1);  // INT8 it is
  EXPECT_GT(*c->summary.int8_mac_share, 0);
}

TEST(Search, TheSameBytesWhetherScoresAreRememberedOrNot) {
  const Target target = of_sqnr(42);
  Memory memory;
  const auto a = searched(target), b = searched(target, &memory);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(bytes_of(*a), bytes_of(*b));
  EXPECT_GT(memory.all.size(), 1u);
  const auto again = searched(target, &memory);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(bytes_of(*a), bytes_of(*again));
  EXPECT_EQ(again->summary.search->scored, 0u);
  EXPECT_EQ(again->summary.search->remembered, again->summary.search->steps.size());
  // A search that was interrupted: half of what it knew.
  Memory half;
  for (const auto& [key, values] : memory.all)
    if (half.all.size() < memory.all.size() / 2) half.all[key] = values;
  const auto resumed = searched(target, &half);
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(bytes_of(*a), bytes_of(*resumed));
  EXPECT_EQ(half.all, memory.all);
  // Other samples are another search.
  const auto other = searched(target, &memory, 30);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->summary.search->remembered, 0u);
}

// A memory of a search with other options must not answer: each option that changes a candidate is
// in its key.
TEST(Search, OtherOptionsRememberNothing) {
  const graph::Graph g = parsed(
      "x: f32[4,32]\na = linear(x, random:f32[32,32], random:f32[32]) activation=clip a=0 b=inf\n"
      "b = linear(a, random:f32[48,32]) activation=clip a=0 b=inf\n"
      "c = linear(b, random:f32[5,48])\ny = softmax(c)\nreturn y");
  auto source = normal_samples(g, 24, 7), others = normal_samples(g, 24, 8);
  const auto search = [&](const ConvertOptions& options, SearchMemory* memory) {
    ConvertOptions o = options;
    o.memory = memory;
    o.target = of_sqnr(43);
    return convert(g, &source, o);
  };
  const auto statistics = fusion::measure(g, others, {});
  ASSERT_TRUE(statistics.ok()) << statistics.error().message;
  const std::string rows =
      "# target: t\nkind,m,n,k,int8_us,f32_us,int8_to_f32_us,f32_to_int8_us\n"
      "linear,4,32,32,";
  const auto slow = CostTable::parse(rows + "1,9,1,9\nlinear,4,5,48,90,1,90,1\n", "slow"),
             quick = CostTable::parse(rows + "1,9,1,9\nlinear,4,5,48,1,9,1,9\n", "quick");
  ASSERT_TRUE(slow.ok() && quick.ok());
  const std::vector<std::pair<const char*, void (*)(ConvertOptions&)>> changes = {
      {"weight_group", [](ConvertOptions& o) { o.quantize.weight_group = 8; }},
      {"weights",
       [](ConvertOptions& o) { o.quantize.weights = quant::WeightGranularity::per_tensor; }},
      {"percentile",
       [](ConvertOptions& o) {
         o.quantize.method = quant::Method::percentile;
         o.quantize.percentile = 0.95;
       }},
      {"method", [](ConvertOptions& o) { o.quantize.method = quant::Method::mse; }},
      {"activations", [](ConvertOptions& o) { o.quantize.activations = Activations::dynamic; }},
      {"keep_float", [](ConvertOptions& o) { o.quantize.keep_float = {"a"}; }},
      {"streams", [](ConvertOptions& o) { o.quantize.streams = Streams::f32; }},
      {"attention", [](ConvertOptions& o) { o.quantize.attention = AttentionProducts::f32; }},
  };
  std::vector<std::pair<const char*, ConvertOptions>> cases;
  for (const auto& [what, change] : changes) {
    cases.emplace_back(what, ConvertOptions{});
    change(cases.back().second);
  }
  cases.emplace_back("statistics", ConvertOptions{});
  cases.back().second.statistics = &*statistics;
  cases.emplace_back("slow", ConvertOptions{});
  cases.back().second.cost_table = &*slow;
  cases.emplace_back("quick", ConvertOptions{});
  cases.back().second.cost_table = &*quick;
  cases.emplace_back("rotation", ConvertOptions{});
  cases.back().second.quantize.activations = Activations::dynamic;
  cases.back().second.rotate = Rotation::on;
  Memory memory;
  ASSERT_TRUE(search({}, &memory).ok());
  for (const auto& [what, options] : cases) {
    const auto fresh = search(options, nullptr), from_log = search(options, &memory);
    ASSERT_TRUE(fresh.ok()) << what << ": " << fresh.error().message;
    ASSERT_TRUE(from_log.ok()) << what << ": " << from_log.error().message;
    EXPECT_EQ(bytes_of(*fresh), bytes_of(*from_log)) << what;
    EXPECT_EQ(fresh->summary.search->met, from_log->summary.search->met) << what;
    const auto again = search(options, &memory);
    EXPECT_EQ(again->summary.search->scored, 0u) << what;
    if (std::string_view(what) != "rotation") {  // may equal "activations"
      EXPECT_GT(from_log->summary.search->scored, 0u) << what;
    }
  }
}

TEST(Search, FewSamplesAreNotHeldOut) {
  const auto c = searched(of_sqnr(15), nullptr, 6);
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ(c->summary.search->held_out, 0u);
  EXPECT_EQ(c->summary.search->samples, 6u);
  EXPECT_EQ(c->summary.samples, 6u);
}

TEST(Search, CosineAndAccuracy) {
  Target t;
  t.cosine = 0.999;
  const auto cosine = searched(t);
  ASSERT_TRUE(cosine.ok()) << cosine.error().message;
  ASSERT_TRUE(cosine->summary.search->met);
  EXPECT_GE(*cosine->summary.search->steps[cosine->summary.search->chosen].cosine, 0.999);
  t = {};
  t.accuracy_drop = 0.02;
  const auto agreement = searched(t);
  ASSERT_TRUE(agreement.ok()) << agreement.error().message;
  EXPECT_EQ(agreement->summary.search->accuracy_measure, "top-1 agreement");
  EXPECT_LE(*agreement->summary.search->steps[agreement->summary.search->chosen].accuracy_drop,
            0.02);
  t.labels.assign(24 * 4, 0);
  const auto labels = searched(t);
  ASSERT_TRUE(labels.ok()) << labels.error().message;
  EXPECT_EQ(labels->summary.search->accuracy_measure, "accuracy against labels");
}

// An output of another type is no excuse: it is measured, and a target beyond reach is missed.
TEST(Search, OutputsOfEveryTypeAreJudged) {
  for (const char* type : {"f16", "bf16", "f64", "s8", "s16", "s32", "s64"}) {
    SCOPED_TRACE(type);
    const graph::Graph g = parsed(
        "x: f32[4,16]\na = linear(x, random:f32[32,16], random:f32[32])\n"
        "b = binary(a, f32[1]{8}) kind=mul\ny = cast(b) to=" +
        std::string(type) + "\nreturn y");
    auto samples = normal_samples(g, 12, 7);
    ConvertOptions o;
    o.target = of_sqnr(180);
    const auto c = convert(g, &samples, o);
    ASSERT_TRUE(c.ok()) << c.error().message;
    const SearchSummary& s = *c->summary.search;
    EXPECT_FALSE(s.met);
    EXPECT_TRUE(s.steps[s.chosen].sqnr_db);
    EXPECT_THAT(s.judged, testing::ElementsAre("y"));
  }
}

TEST(Search, ATargetThatMeasuresNothingIsRefused) {
  const graph::Graph g = parsed("x: f32[n,8]\ny = linear(x, random:f32[4,8])\nreturn y");
  auto samples = normal_samples(g, 6, 1, 0);
  for (const bool cosine : {false, true}) {
    ConvertOptions o;
    Memory memory;
    o.memory = &memory;
    (cosine ? o.target.cosine : o.target.sqnr_db) = cosine ? 0.9 : 10;
    for (int again = 0; again < 2; ++again) {  // what is remembered measured nothing either
      const auto c = convert(g, &samples, o);
      ASSERT_FALSE(c.ok());
      EXPECT_THAT(c.error().message, HasSubstr("no output has an element"));
    }
  }
}

TEST(Search, Refusals) {
  const graph::Graph g = parsed(kNetwork);
  ConvertOptions o;
  o.target = of_sqnr(30);
  const auto none = convert(g, nullptr, o);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("--calib"));
  MemorySamples empty({});
  const auto no_samples = convert(g, &empty, o);
  ASSERT_FALSE(no_samples.ok());
  EXPECT_THAT(no_samples.error().message, HasSubstr("holds no samples"));
  Target t;
  t.accuracy_drop = 0.02;
  t.labels = {1, 2, 3};
  const auto labels = searched(t);
  ASSERT_FALSE(labels.ok());
  EXPECT_THAT(labels.error().message, HasSubstr("3 labels for 24 samples"));
  for (const std::int64_t wrong : {-1, 5}) {
    t.labels.assign(24 * 4, 4);
    t.labels[0] = wrong;  // of a sample that candidates need not be judged on
    const auto no_class = searched(t);
    ASSERT_FALSE(no_class.ok());
    EXPECT_EQ(no_class.error().code, Code::invalid_model);
    EXPECT_THAT(no_class.error().message, HasSubstr("label 0 is " + std::to_string(wrong) +
                                                    ", the model has classes 0 to 4"));
  }
  t.labels.assign(24, 1);  // one a sample, but each has four rows
  const auto rows = searched(t);
  ASSERT_FALSE(rows.ok());
  EXPECT_THAT(rows.error().message, HasSubstr("rows"));
  const graph::Graph no_classes = parsed("x: f32[1,2,8]\ny = linear(x, random:f32[3,8])\nreturn y");
  auto samples = normal_samples(no_classes, 4);
  o.target = {};
  o.target.accuracy_drop = 0.1;
  const auto scores = convert(no_classes, &samples, o);
  ASSERT_FALSE(scores.ok());
  EXPECT_THAT(scores.error().message, HasSubstr("class scores"));
}

// Three samples of one output: ref2 4, 4, 4; err2 0.04, 0.01, 0.01.
TEST(CandidateScore, StatisticsByHand) {
  Sums s{{{4, 0.04, 4, 3.98}}, {{4, 0.01, 4, 3.995}}, {{4, 0.01, 4, 3.995}}};
  EXPECT_NEAR(*sqnr_db(s), 10 * std::log10(12 / 0.06), 1e-9);
  EXPECT_NEAR(*sqnr_db(s, 0), 10 * std::log10(8 / 0.02), 1e-9);
  EXPECT_NEAR(*cosine(s), 11.97 / 12, 1e-12);
  EXPECT_EQ(lower_bound(sqnr_db, s), sqnr_db(s));  // too few for a bound
  s.push_back({{4, 0.02, 4, 3.99}});
  const double v[] = {10 * std::log10(12 / 0.04), 10 * std::log10(12 / 0.07),
                      10 * std::log10(12 / 0.07), 10 * std::log10(12 / 0.06)};
  double mean = 0, squares = 0;
  for (double x : v) mean += x / 4;
  for (double x : v) squares += (x - mean) * (x - mean);
  EXPECT_NEAR(*lower_bound(sqnr_db, s),
              10 * std::log10(16 / 0.08) - 1.7 * std::sqrt(0.75 * squares), 1e-9);
  const auto back = sums_of(flat(s), 1);
  ASSERT_TRUE(back);
  EXPECT_EQ(flat(*back), flat(s));
  EXPECT_FALSE(sums_of(flat(s), 3));
  Sums exact{{{4, 0, 4, 4}}};
  EXPECT_EQ(sqnr_db(exact), std::numeric_limits<double>::infinity());
  EXPECT_EQ(cosine(exact), 1.0);
  EXPECT_FALSE(sqnr_db({{{0, 0, 0, 0}}}));
  EXPECT_EQ(sqnr_db({{{0, 1, 1, 0}}}), -200);  // zeros that INT8 does not give
  EXPECT_EQ(cosine({{{0, 1, 1, 0}}}), 0);
}

TEST(CandidateScore, LogitsAreJudgedInPlaceOfProbabilities) {
  const graph::Graph g = parsed(
      "x: f32[2,4]\nl = linear(x, random:f32[3,4])\np = softmax(l)\nr = reshape(p, s64{6})\n"
      "z = relu(x)\nreturn r, z, l");
  EXPECT_EQ(judged_tensors(g, false), (std::vector<std::string>{"l", "z", "l"}));
  EXPECT_EQ(judged_tensors(g, true), (std::vector<std::string>{"r", "z", "l"}));
}

TEST(CandidateScore, LogitsAreFoundBehindACast) {
  const graph::Graph g = parsed(
      "x: f32[2,4]\nl = linear(x, random:f32[3,4])\np = softmax(l)\nh = cast(p) to=f16\n"
      "i = cast(p) to=s32\nreturn h, i");
  EXPECT_EQ(judged_tensors(g, false), (std::vector<std::string>{"l", "i"}));
}

TEST(SampleSplit, HoldsOutEveryThirdSample) {
  const graph::Graph g = parsed("x: f32[1]\ny = relu(x)\nreturn y");
  auto twelve = normal_samples(g, 12), many = normal_samples(g, 300), few = normal_samples(g, 5);
  const SampleSplit a = SampleSplit::of(twelve), b = SampleSplit::of(many),
                    c = SampleSplit::of(few);
  EXPECT_EQ(a.held_out, 4u);
  EXPECT_EQ(a.calibration.count(), 8u);
  EXPECT_EQ(a.judging.count(), 12u);  // few are held out: the others are judged on too
  EXPECT_EQ(a.judging.original(0), 2u);
  EXPECT_EQ(a.judging.original(4), 0u);
  EXPECT_EQ(b.calibration.count(), 200u);
  EXPECT_EQ(b.judging.count(), kMostToJudge);
  EXPECT_EQ(b.held_out, kMostToJudge);
  EXPECT_EQ(c.held_out, 0u);
  EXPECT_EQ(c.calibration.count(), 5u);
  EXPECT_EQ(c.judging.count(), 5u);
}

}  // namespace
}  // namespace fold8::fusion
