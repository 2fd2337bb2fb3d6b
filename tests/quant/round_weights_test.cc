// Rounding for outputs: less error where it counts than rounding each weight by itself.
#include "quant/round_weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/memory_samples.h"
#include "tests/support/random.h"

namespace fold8::quant {
namespace {

using testing_support::model_of;

constexpr std::size_t kWidth = 100, kOutputs = 37, kRows = 400;

// Channels that go together: eight hidden ones and a little noise.
std::vector<float> correlated_rows(std::size_t width = kWidth) {
  testing::SeededRng rng;
  std::vector<float> hidden(kRows * 8), mix(8 * width), x(kRows * width);
  rng.fill_normal(hidden);
  rng.fill_normal(mix);
  rng.fill_normal(x);
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t j = 0; j < width; ++j) {
      float& v = x[r * width + j];
      v *= 0.1f;
      for (std::size_t h = 0; h < 8; ++h) v += hidden[r * 8 + h] * mix[h * width + j];
    }
  return x;
}

Moments moments_of(const std::vector<float>& x, std::size_t width = kWidth) {
  Moments m;
  m.width = width;
  m.rows = x.size() / width;
  m.xx.assign(width * width, 0.0f);
  for (std::size_t r = 0; r < x.size(); r += width)
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t j = 0; j < width; ++j) m.xx[i * width + j] += x[r + i] * x[r + j];
  return m;
}

double output_error(const std::vector<float>& x, const std::vector<float>& w,
                    const QuantizedWeight& q) {
  double error = 0;
  for (std::size_t r = 0; r < x.size(); r += kWidth)
    for (std::size_t n = 0; n < kOutputs; ++n) {
      double e = 0;
      for (std::size_t j = 0; j < kWidth; ++j)
        e += double{x[r + j]} *
             (double{w[n * kWidth + j]} - q.codes[n * kWidth + j] * double{q.params.scales()[n]});
      error += e * e;
    }
  return error;
}

struct RoundWeights : ::testing::Test {
  const std::vector<float> x = correlated_rows();
  std::vector<float> w = std::vector<float>(kOutputs * kWidth);
  const Shape shape{static_cast<std::int64_t>(kOutputs), static_cast<std::int64_t>(kWidth)};
  RoundWeights() { testing::SeededRng(7).fill_normal(w); }

  QuantizedWeight rounded(int threads, const Moments& moments) const {
    ThreadPool pool(threads);
    auto factor = RoundingFactor::of(moments, pool);
    EXPECT_TRUE(factor.ok());
    auto q = round_for_outputs(w, shape, {&*factor, 1}, WeightGranularity::per_channel, pool);
    EXPECT_TRUE(q.ok());
    return std::move(*q);
  }
};

TEST_F(RoundWeights, OutputsErrLessThanWithEachWeightsNearestCode) {
  const auto nearest = quantize_weight(w, shape, 0, WeightGranularity::per_channel);
  const QuantizedWeight q = rounded(1, moments_of(x));
  EXPECT_EQ(q.params, nearest->params);
  EXPECT_LT(output_error(x, w, q) * 4, output_error(x, w, *nearest));
}

TEST_F(RoundWeights, GroupsOfInputsKeepTheirScales) {
  ThreadPool pool(1);
  const auto factor = RoundingFactor::of(moments_of(x), pool);
  ASSERT_TRUE(factor.ok());
  const auto q =
      round_for_outputs(w, shape, {&*factor, 1}, WeightGranularity::per_channel, pool, 32);
  ASSERT_TRUE(q.ok()) << q.error().message;
  const auto nearest = quantize_weight_groups(w, shape, 32);
  EXPECT_EQ(q->params, nearest->params);
  const auto error = [&](const QuantizedWeight& quantized) {  // as one scale a weight
    double sum = 0;
    for (std::size_t r = 0; r < x.size(); r += kWidth)
      for (std::size_t n = 0; n < kOutputs; ++n) {
        double e = 0;
        for (std::size_t j = 0; j < kWidth; ++j)
          e += double{x[r + j]} *
               (double{w[n * kWidth + j]} - quantized.codes[n * kWidth + j] *
                                                double{quantized.params.scales()[n * 4 + j / 32]});
        sum += e * e;
      }
    return sum;
  };
  EXPECT_LT(error(*q) * 4, error(*nearest));
}

TEST_F(RoundWeights, TheSameCodesForAnyNumberOfThreads) {
  const Moments m = moments_of(x);
  EXPECT_EQ(rounded(1, m).codes, rounded(3, m).codes);
}

// Channels that have nothing to do with each other leave nothing to make up for.
TEST_F(RoundWeights, UnrelatedChannelsKeepTheirNearestCodes) {
  Moments m;
  m.width = kWidth;
  m.xx.assign(kWidth * kWidth, 0.0f);
  for (std::size_t j = 0; j < kWidth; ++j) m.xx[j * kWidth + j] = static_cast<float>(j + 1);
  const auto nearest = quantize_weight(w, shape, 0, WeightGranularity::per_channel);
  // Rounding of a float quotient against a double one: ties only.
  const QuantizedWeight q = rounded(1, m);
  std::size_t other = 0;
  for (std::size_t i = 0; i < q.codes.size(); ++i) other += q.codes[i] != nearest->codes[i];
  EXPECT_LE(other, 1u);
}

// The factor against the equation: R^T R = H + lambda I in the factor's order.
TEST_F(RoundWeights, TheFactorsProductIsTheMoments) {
  const Moments m = moments_of(x);
  ThreadPool pool(2);
  const auto f = RoundingFactor::of(m, pool);
  ASSERT_TRUE(f.ok());
  double mean = 0;
  for (std::size_t j = 0; j < kWidth; ++j) mean += double{m.xx[j * kWidth + j]} / kWidth;
  const auto order = f->order();
  for (std::size_t i = 0; i < kWidth; ++i)
    for (std::size_t j = i; j < kWidth; ++j) {
      double product = 0;
      for (std::size_t k = 0; k <= i; ++k) product += f->row(k)[i] * f->row(k)[j];
      const double wanted = double{m.xx[order[i] * kWidth + order[j]]} +
                            (i == j ? RoundingFactor::kDamping * mean : 0);
      ASSERT_NEAR(product, wanted, 1e-9 * mean * kWidth) << i << "," << j;
    }
}

TEST_F(RoundWeights, ChannelsNoSampleUsedAreNoObstacle) {
  Moments m;
  m.width = kWidth;
  m.xx.assign(kWidth * kWidth, 0.0f);
  const auto nearest = quantize_weight(w, shape, 0, WeightGranularity::per_channel);
  const QuantizedWeight q = rounded(1, m);
  std::size_t other = 0;
  for (std::size_t i = 0; i < q.codes.size(); ++i) other += q.codes[i] != nearest->codes[i];
  EXPECT_LE(other, 1u);
}

TEST_F(RoundWeights, RefusesMomentsThatAreNotFinite) {
  Moments m = moments_of(x);
  m.xx[0] = std::nanf("");
  ThreadPool pool(1);
  EXPECT_FALSE(RoundingFactor::of(m, pool).ok());
}

// A model that only passes x on: its rows' moments, whatever the blocks they come in.
TEST(SecondMoments, AreSumsOverAllRowsOfAllSamples) {
  graph::Graph g;
  const TensorType type{DType::f32, Shape{150, 12}, {}, Layout::plain};
  const auto in = g.add_value("x", type), out = g.add_value("y", type);
  g.add_node(graph::Unary{graph::UnaryKind::neg}, "neg", {in}, {out});
  g.inputs = {in};
  g.outputs = {out};
  auto samples = testing_support::normal_samples(g, 5);
  std::vector<double> wanted(12 * 12, 0.0);
  for (const auto& s : samples.all()) {
    const auto x = s[0].as<float>();
    for (std::size_t r = 0; r < x.size(); r += 12)
      for (std::size_t i = 0; i < 144; ++i) wanted[i] += double{x[r + i / 12]} * x[r + i % 12];
  }
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 20}) {
    MomentOptions options;
    options.most_bytes = bytes;
    const std::vector<LayerRows> layers = {rows_of_linear("x", 12), rows_of_linear("y", 12)};
    std::map<std::size_t, Moments> got;
    const Status s = second_moments(model_of(g), samples, layers, options,
                                    [&](std::size_t layer, std::vector<Moments> m) {
                                      got.emplace(layer, std::move(m[0]));
                                      return ok_status();
                                    });
    ASSERT_TRUE(s.ok()) << s.error().message;
    ASSERT_EQ(got.size(), 2u);
    for (const auto& [layer, m] : got) {
      EXPECT_EQ(m.rows, 750u);
      for (std::size_t i = 0; i < 144; ++i) EXPECT_NEAR(m.xx[i], wanted[i], 1e-3) << layer;
    }
  }
}

TEST(SecondMoments, TakeSoManyRowsEvenlySpread) {
  graph::Graph g;
  const TensorType type{DType::f32, Shape{100, 2}, {}, Layout::plain};
  const auto in = g.add_value("x", type), out = g.add_value("y", type);
  g.add_node(graph::Unary{graph::UnaryKind::neg}, "neg", {in}, {out});
  g.inputs = {in};
  g.outputs = {out};
  auto samples = testing_support::normal_samples(g, 4);
  MomentOptions options;
  options.most_rows = 40;
  std::uint64_t rows = 0;
  const LayerRows layer = rows_of_linear("y", 2);
  const Status s = second_moments(model_of(g), samples, {&layer, 1}, options,
                                  [&](std::size_t, std::vector<Moments> m) {
                                    rows = m[0].rows;
                                    return ok_status();
                                  });
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(rows, 40u);
}

}  // namespace
}  // namespace fold8::quant
