#include "quant/statistics.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "quant/choose_params.h"
#include "quant/data_warnings.h"
#include "runtime/format/layout.h"
#include "tests/support/memory_samples.h"
#include "tests/support/parsed_graph.h"
#include "tests/support/random.h"

namespace fold8::quant {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::MemorySamples;
using testing_support::model_of;
using testing_support::parsed;
using testing_support::tensor_of;

graph::Graph small() {
  return parsed(
      "x: f32[n,6]\nh = linear(x, random:f32[5,6])\nz = relu(h)\ny = linear(z, random:f32[3,5])\n"
      "return y");
}

Statistics of_samples(const graph::Graph& g, std::vector<std::vector<Tensor>> samples) {
  MemorySamples source(std::move(samples));
  CalibrateOptions options;
  options.observe = {"x", "z", "never seen"};
  options.channel_axis = {{"x", 1}, {"z", 1}};
  auto table = calibrate(model_of(g), source, options);
  EXPECT_TRUE(table.ok()) << table.error().message;
  return Statistics{graph_id(g), std::move(*table)};
}

std::string bytes_of(const Statistics& s) {
  auto bytes = to_bytes(s);
  EXPECT_TRUE(bytes.ok());
  return bytes.ok() ? *bytes : std::string();
}

// Rows of very different sizes and counts; some are blank, some come twice.
std::vector<std::vector<Tensor>> mixed_samples(testing::SeededRng& rng, std::size_t count) {
  std::vector<std::vector<Tensor>> samples;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 2 && rng.integer(0, 5) == 0) {
      const Tensor& old =
          samples[static_cast<std::size_t>(rng.integer(0, static_cast<std::int64_t>(i) - 1))][0];
      Tensor copy(DType::f32, old.shape());
      std::memcpy(copy.view().data, old.view().data, old.view().bytes());
      samples.emplace_back();
      samples.back().push_back(std::move(copy));
      continue;
    }
    Tensor t(DType::f32, Shape{rng.integer(0, 4), 6});
    const float size = rng.integer(0, 6) == 0 ? 0.0f : static_cast<float>(1 << rng.integer(0, 20));
    for (float& v : t.as<float>()) v = rng.normal() * size;
    samples.emplace_back();
    samples.back().push_back(std::move(t));
  }
  return samples;
}

TEST(Statistics, AnyOrderAndGroupingGivesTheBytesOfOneRun) {
  testing::SeededRng rng;  // prints its seed where a test fails
  const graph::Graph g = small();
  for (int round = 0; round < 20; ++round) {
    const auto samples = mixed_samples(rng, 12);
    const std::string whole = bytes_of(of_samples(g, samples));
    std::vector<std::vector<std::vector<Tensor>>> shards(
        static_cast<std::size_t>(rng.integer(1, 5)));
    for (const auto& s : samples)
      shards[static_cast<std::size_t>(rng.integer(0, static_cast<std::int64_t>(shards.size()) - 1))]
          .push_back(s);
    std::vector<Statistics> parts;
    for (auto& shard : shards) parts.push_back(of_samples(g, std::move(shard)));
    while (parts.size() > 1) {  // any two, either into the other, through a file or not
      const auto a =
          static_cast<std::size_t>(rng.integer(0, static_cast<std::int64_t>(parts.size()) - 1));
      std::swap(parts[a], parts.back());
      Statistics last = std::move(parts.back());
      parts.pop_back();
      const auto b =
          static_cast<std::size_t>(rng.integer(0, static_cast<std::int64_t>(parts.size()) - 1));
      if (rng.integer(0, 1) == 0) {
        const std::string stored = bytes_of(last);
        auto again = statistics_from_bytes(stored.data(), stored.size());
        ASSERT_TRUE(again.ok()) << again.error().message;
        EXPECT_EQ(bytes_of(*again), stored);
        last = std::move(*again);
      }
      if (rng.integer(0, 1) == 0) std::swap(parts[b], last);
      ASSERT_TRUE(parts[b].merge(last).ok());
    }
    EXPECT_EQ(bytes_of(parts[0]), whole) << "round " << round;
  }
}

TEST(Statistics, TheFileHoldsWhatWasSeen) {
  const graph::Graph g = small();
  const Statistics s = of_samples(g, {{tensor_of({1, 6}, {1, -3, 0, 2, 0, 9})},
                                      {tensor_of({2, 6}, {0, 2, 5, -1, 0, 0, 7, 1, 1, 1, 1, 1})}});
  const std::string bytes = bytes_of(s);
  const auto read = statistics_from_bytes(bytes.data(), bytes.size());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->model, graph_id(g));
  EXPECT_EQ(read->table.samples, 2u);
  EXPECT_EQ(read->table.rows, 3u);
  ASSERT_EQ(read->table.largest.size(), 1u);
  EXPECT_EQ(read->table.largest[0], Shape({2, 6}));
  const Observer* x = read->table.find("x");
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x->min(), -3);
  EXPECT_EQ(x->max(), 9);
  EXPECT_EQ(x->count(), 18u);
  EXPECT_THAT(x->channel_max(), ElementsAre(7, 2, 5, 2, 1, 9));
  EXPECT_THAT(x->channel_min(), ElementsAre(0, -3, 0, -1, 0, 0));
  ASSERT_NE(read->table.find("z"), nullptr);
  for (const Method m : {Method::minmax, Method::percentile, Method::entropy, Method::mse}) {
    const Range a = choose_range(*x, m), b = choose_range(*s.table.find("x"), m);
    EXPECT_EQ(a.lo, b.lo);
    EXPECT_EQ(a.hi, b.hi);
  }
}

TEST(Statistics, TheIdOfAGraphIsThatOfItsOperatorsAndWeights) {
  const graph::Graph g = small();
  EXPECT_EQ(graph_id(g), graph_id(small()));
  graph::Graph annotated = g;
  annotated.metadata["producer"] = "somebody";
  EXPECT_EQ(graph_id(annotated), graph_id(g));
  EXPECT_NE(graph_id(parsed("x: f32[n,6]\ny = relu(x)\nreturn y")), graph_id(g));
  // One bit of one weight.
  graph::Graph other = g;
  for (graph::ValueId v = 0; v < other.value_count(); ++v)
    if (other.is_constant(v)) {
      std::vector<float> w(other.constant<float>(v).begin(), other.constant<float>(v).end());
      w[0] = -w[0];
      auto buffer = Buffer::allocate(w.size() * sizeof(float));
      std::memcpy(buffer->mutable_data(), w.data(), w.size() * sizeof(float));
      other.value(v).constant = std::move(buffer);
      break;
    }
  EXPECT_NE(graph_id(other), graph_id(g));
}

TEST(Statistics, OfAnotherModelOrOfOtherTensorsDoNotMerge) {
  const graph::Graph g = small();
  Statistics a = of_samples(g, {{tensor_of({1, 6}, {1, 2, 3, 4, 5, 6})}});
  const std::string before = bytes_of(a);
  Statistics b = a;
  b.model ^= 1;
  const Status other_model = a.merge(b);
  ASSERT_FALSE(other_model.ok());
  EXPECT_THAT(other_model.error().message,
              AllOf(HasSubstr("different models"), HasSubstr(id_text(a.model)),
                    HasSubstr(id_text(b.model))));
  b = a;
  b.table.tensors.erase("z");
  EXPECT_FALSE(a.merge(b).ok());
  EXPECT_EQ(bytes_of(a), before);
}

void set_checksum(std::string& bytes) {
  const std::uint64_t sum = format::checksum(bytes.data() + 32, bytes.size() - 32);
  std::memcpy(bytes.data() + 24, &sum, sizeof sum);
  const std::uint64_t size = bytes.size();
  std::memcpy(bytes.data() + 16, &size, sizeof size);
}

// Whatever was read can be used: nothing overflows, nothing is out of bounds.
void use(Statistics s) {
  for (const auto& [name, o] : s.table.tensors)
    for (const Method m : {Method::minmax, Method::automatic, Method::entropy, Method::mse})
      (void)activation_params(choose_range(o, m));
  (void)data_warnings(s.table);
  const Statistics copy = s;
  EXPECT_TRUE(s.merge(copy).ok());
  EXPECT_TRUE(to_bytes(s).ok());
}

TEST(Statistics, TruncatedOrChangedFilesAreErrors) {
  testing::SeededRng rng;
  const std::string whole = bytes_of(of_samples(small(), mixed_samples(rng, 3)));
  for (std::size_t n = 0; n < whole.size(); n += 1 + n / 64)
    EXPECT_FALSE(statistics_from_bytes(whole.data(), n).ok()) << n;
  for (std::size_t i = 0; i < whole.size(); i += 1 + i / 64) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x40);
    if (i >= 12 && i < 16) continue;  // a newer minor version reads
    EXPECT_FALSE(statistics_from_bytes(changed.data(), changed.size()).ok()) << i;
  }
  const std::string text = "not at all a file of statistics, but long enough for a header";
  const auto none = statistics_from_bytes(text.data(), text.size());
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("fold8 calibrate"));
  std::string newer = whole;
  newer[8] = 9;
  const auto refused = statistics_from_bytes(newer.data(), newer.size());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::unsupported);
}

TEST(Statistics, HostileBodiesWithRightChecksumsDoNoHarm) {
  testing::SeededRng rng;
  const std::string whole = bytes_of(of_samples(small(), mixed_samples(rng, 3)));
  int read = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = whole;
    const int changes = rng.integer(1, 4);
    for (int c = 0; c < changes; ++c) {
      const auto at = static_cast<std::size_t>(rng.integer(32, static_cast<int>(bytes.size()) - 1));
      bytes[at] = static_cast<char>(rng.integer(0, 3) == 0 ? 0xff : rng.integer(0, 255));
    }
    if (rng.integer(0, 3) == 0) bytes.resize(bytes.size() / 8 * 7);
    set_checksum(bytes);
    auto s = statistics_from_bytes(bytes.data(), bytes.size());
    if (!s.ok()) continue;
    ++read;
    use(std::move(*s));
  }
  EXPECT_GT(read, 0);
}

std::vector<std::string> warnings_of(std::vector<std::vector<Tensor>> samples) {
  return data_warnings(of_samples(small(), std::move(samples)).table);
}

std::vector<std::vector<Tensor>> rows(std::size_t count, float size_of_last = 1) {
  testing::SeededRng rng;
  std::vector<std::vector<Tensor>> samples;
  for (std::size_t i = 0; i < count; ++i) {
    Tensor t(DType::f32, Shape{4, 6});
    for (float& v : t.as<float>()) v = rng.normal() * (i + 1 == count ? size_of_last : 1);
    samples.emplace_back();
    samples.back().push_back(std::move(t));
  }
  return samples;
}

TEST(DataWarnings, GoodDataHasNone) { EXPECT_THAT(warnings_of(rows(32)), IsEmpty()); }

TEST(DataWarnings, FewBlankRepeatedAndSingularSamplesAreNamed) {
  EXPECT_THAT(warnings_of({rows(2)}), IsEmpty());  // two batches of four rows
  EXPECT_THAT(warnings_of({{tensor_of({1, 6}, {1, 2, 3, 4, 5, 6})}}),
              ElementsAre(HasSubstr("only 1 calibration sample")));
  auto blank = rows(16);
  for (float& v : blank[3][0].as<float>()) v = 0;
  EXPECT_THAT(warnings_of(blank), Contains(HasSubstr("1 of 16 samples are blank")));
  auto twice = rows(16);
  const auto copy = twice;
  twice.insert(twice.end(), copy.begin(), copy.end());
  EXPECT_THAT(warnings_of(twice), Contains(HasSubstr("16 of 32 samples repeat others")));
  const auto one = rows(1)[0];
  EXPECT_THAT(warnings_of(std::vector<std::vector<Tensor>>(10, one)),
              Contains(HasSubstr("all 10 samples are the same")));
  EXPECT_THAT(warnings_of(rows(32, 10)),
              Contains(HasSubstr("one sample holds the largest values")));
}

TEST(DataWarnings, RangesThatDependOnTheHalfOfTheSamples) {
  const auto table = [](float odd_ones) {
    CalibrationTable t;
    for (std::uint64_t hash = 0; hash < 16; ++hash) {
      ++t.samples;
      ++t.rows;
      t.seen.add(hash);
      const float size = (hash % 2 == 1 ? odd_ones : 4.0f) + 0.01f * static_cast<float>(hash);
      t.tensors["t"].add(std::vector<float>{-size, 1}, hash);
    }
    return t;
  };
  EXPECT_THAT(data_warnings(table(8)), ElementsAre(HasSubstr("ranges still grow")));
  EXPECT_THAT(data_warnings(table(6)), IsEmpty());
}

// By their hashes, all samples may fall into one half, or nearly all.
TEST(DataWarnings, AHalfWithoutSamplesIsNotCompared) {
  for (const std::uint64_t odd : {0, 1, 2, 3}) {
    CalibrationTable t;
    for (std::uint64_t i = 0; i < 8; ++i) {
      const std::uint64_t hash = 2 * i + (i < odd ? 1 : 0);
      ++t.samples;
      ++t.rows;
      t.seen.add(hash);
      const float size = i < odd ? 1.0f : 4.0f;
      t.tensors["t"].add(std::vector<float>{-size, size}, hash);
    }
    EXPECT_EQ(data_warnings(t).size(), odd < kLeastInHalf ? 0u : 1u) << odd;
  }
}

TEST(DataWarnings, ConstantAndUnfilledTensors) {
  Observer o;
  EXPECT_THAT(*range_warning("t", o), HasSubstr("filled by no sample"));
  o.add(std::vector<float>{2, 2});
  EXPECT_THAT(*range_warning("t", o), AllOf(HasSubstr("'t' was constant"), HasSubstr("2.0")));
  o.add(std::vector<float>{3});
  EXPECT_FALSE(range_warning("t", o));
}

}  // namespace
}  // namespace fold8::quant
