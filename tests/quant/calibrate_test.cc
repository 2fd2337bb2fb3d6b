#include "quant/calibrate.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/memory_samples.h"
#include "tests/support/parsed_graph.h"

namespace fold8::quant {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::MemorySamples;
using testing_support::model_of;
using testing_support::normal_samples;
using testing_support::parsed;
using testing_support::tensor_of;

// h = x + 1, y = exp(h)
graph::Graph small() {
  return parsed("x: f32[n,2]\nh = add(x, f32[2]{1,1})\ny = unary(h) kind=exp\nreturn y");
}

TEST(Calibrate, ObservesWhatItIsAskedTo) {
  MemorySamples samples({{tensor_of({1, 2}, {1, -3})}, {tensor_of({2, 2}, {0, 2, 5, -1})}});
  CalibrateOptions options;
  options.observe = {"x", "h", "no such tensor"};
  std::size_t last = 0;
  options.progress = [&](std::size_t done, std::size_t total) {
    EXPECT_EQ(total, 2u);
    EXPECT_EQ(done, ++last);
  };
  const auto table = calibrate(model_of(small()), samples, options);
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->samples, 2u);
  EXPECT_EQ(last, 2u);
  ASSERT_NE(table->find("x"), nullptr);
  ASSERT_NE(table->find("h"), nullptr);
  EXPECT_EQ(table->find("y"), nullptr);
  EXPECT_EQ(table->find("no such tensor"), nullptr);
  EXPECT_EQ(table->find("x")->min(), -3);
  EXPECT_EQ(table->find("x")->max(), 5);
  EXPECT_EQ(table->find("h")->min(), -2);
  EXPECT_EQ(table->find("h")->max(), 6);
  EXPECT_EQ(table->find("h")->count(), 6u);
}

TEST(Calibrate, KeepsChannelsApart) {
  MemorySamples samples({{tensor_of({2, 2}, {1, -3, 2, 7})}});
  CalibrateOptions options;
  options.observe = {"x", "h"};
  options.channel_axis = {{"h", 1}};
  const auto table = calibrate(model_of(small()), samples, options);
  ASSERT_TRUE(table.ok());
  EXPECT_THAT(table->find("h")->channel_min(), ::testing::ElementsAre(0, -2));  // ranges hold 0
  EXPECT_THAT(table->find("h")->channel_max(), ::testing::ElementsAre(3, 8));
  EXPECT_TRUE(table->find("x")->channel_min().empty());
}

TEST(Calibrate, ErrorsNameSampleAndTensor) {
  CalibrateOptions options;
  options.observe = {"x", "h", "y"};
  const auto message = [&](float bad) {
    MemorySamples samples({{tensor_of({1, 2}, {1, 2})}, {tensor_of({1, 2}, {1, bad})}});
    const auto table = calibrate(model_of(small()), samples, options);
    EXPECT_FALSE(table.ok());
    return table.ok() ? std::string() : table.error().message;
  };
  EXPECT_THAT(message(std::nanf("")), AllOf(HasSubstr("sample 1"), HasSubstr("'x'"),
                                            HasSubstr("NaN"), HasSubstr("element 1")));
  EXPECT_THAT(message(-std::numeric_limits<float>::infinity()),
              AllOf(HasSubstr("sample 1"), HasSubstr("'x'"), HasSubstr("infinity")));
  EXPECT_THAT(message(200), AllOf(HasSubstr("sample 1"), HasSubstr("'y'"),
                                  HasSubstr("infinity")));  // exp overflows
}

TEST(Calibrate, WhatIsNotFiniteIsBlamedOnTheDataOrOnTheModel) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto message = [&](float weight, float value) {
    graph::Graph g;
    const TensorType f32{DType::f32, Shape{1, 2}, {}, Layout::plain};
    const graph::ValueId x = g.add_value("x", f32), y = g.add_value("y", f32);
    g.inputs.push_back(x);
    const std::vector<float> w{1, weight, 2, 1};
    g.add_node(graph::Linear{}, "n", {x, g.add_constant<float>("w", Shape{2, 2}, w)}, {y});
    g.outputs.push_back(y);
    MemorySamples samples({{tensor_of({1, 2}, {1, value})}});
    CalibrateOptions options;
    options.observe = {"y"};
    const auto table = calibrate(model_of(g), samples, options);
    EXPECT_FALSE(table.ok());
    return table.ok() ? std::string() : table.error().message;
  };
  EXPECT_THAT(message(1, inf), AllOf(HasSubstr("'y' holds"), HasSubstr("repair the data")));
  EXPECT_THAT(message(2, 3.4e38f), HasSubstr("repair the data"));
  EXPECT_THAT(message(inf, 1), AllOf(HasSubstr("the model is at fault: its constant 'w' holds an "
                                               "infinity; repair the model"),
                                     ::testing::Not(HasSubstr("data"))));
  EXPECT_THAT(message(std::nanf(""), 1), HasSubstr("'w' holds NaN; repair the model"));
  EXPECT_THAT(message(3e38f, 4), AllOf(HasSubstr("'w' reaches"), HasSubstr("repair the model")));
}

TEST(Calibrate, WhatNobodyObservesMayBeInfinite) {
  MemorySamples samples({{tensor_of({1, 2}, {1, 200})}});
  CalibrateOptions options;
  options.observe = {"x"};
  EXPECT_TRUE(calibrate(model_of(small()), samples, options).ok());
}

TEST(Calibrate, MasksMayBeInfiniteButNotNaN) {
  CalibrateOptions options;
  options.look_for_nan = {"x"};
  const auto result = [&](float value) {
    MemorySamples samples({{tensor_of({1, 2}, {1, value})}});
    return calibrate(model_of(small()), samples, options);
  };
  EXPECT_TRUE(result(-std::numeric_limits<float>::infinity()).ok());
  const auto bad = result(std::nanf(""));
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message,
              AllOf(HasSubstr("sample 0"), HasSubstr("'x'"), HasSubstr("NaN")));
}

TEST(Calibrate, AWrongShapeNamesTheSample) {
  MemorySamples samples({{tensor_of({1, 2}, {1, 2})}, {tensor_of({1, 3}, {1, 2, 3})}});
  const auto table = calibrate(model_of(small()), samples, {});
  ASSERT_FALSE(table.ok());
  EXPECT_THAT(table.error().message, AllOf(HasSubstr("sample 1"), HasSubstr("x")));
}

class Failing : public SampleSource {
 public:
  std::size_t count() const override { return 3; }
  Result<std::vector<Tensor>> sample(std::size_t i) override {
    return io_error("file " + std::to_string(i) + ".npy is gone");
  }
};
TEST(Calibrate, ErrorsOfTheSourcePassThrough) {
  Failing source;
  const auto table = calibrate(model_of(small()), source, {});
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().code, Code::io);
  EXPECT_THAT(table.error().message, HasSubstr("0.npy"));
}

TEST(Calibrate, NoSamplesNoRanges) {
  MemorySamples samples({});
  CalibrateOptions options;
  options.observe = {"x"};
  const auto table = calibrate(model_of(small()), samples, options);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->samples, 0u);
  EXPECT_TRUE(table->find("x")->empty());
}

TEST(Calibrate, TheSameNumbersForAnyThreadsAndOrder) {
  const graph::Graph g = parsed(
      "x: f32[n,4,6,6]\nh = conv(x, random:f32[8,4,3,3]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] "
      "dilations=[1,1]\ny = relu(h)\nreturn y");
  auto samples = normal_samples(g, 5);
  CalibrateOptions options;
  options.observe = {"x", "h", "y"};
  const auto one = calibrate(model_of(g), samples, options);
  options.threads = 2;
  std::rotate(samples.all().begin(), samples.all().begin() + 2, samples.all().end());
  const auto two = calibrate(model_of(g), samples, options);
  ASSERT_TRUE(one.ok() && two.ok());
  for (const char* name : {"x", "h", "y"}) {
    const Observer &a = *one->find(name), &b = *two->find(name);
    EXPECT_EQ(a.min(), b.min());
    EXPECT_EQ(a.max(), b.max());
    EXPECT_EQ(a.histogram().width(), b.histogram().width());
    EXPECT_TRUE(std::ranges::equal(a.histogram().bins(), b.histogram().bins())) << name;
  }
}

// Makes samples on demand and looks whether the one before is still alive.
class Streaming : public SampleSource {
 public:
  std::size_t count() const override { return 50; }
  Result<std::vector<Tensor>> sample(std::size_t i) override {
    EXPECT_TRUE(last_.expired()) << "sample " << i - 1 << " is still in memory";
    Tensor t(DType::f32, Shape{4, 2});
    for (float& v : t.as<float>()) v = static_cast<float>(i);
    last_ = t.buffer();
    std::vector<Tensor> inputs;
    inputs.push_back(std::move(t));
    return inputs;
  }

 private:
  std::weak_ptr<Buffer> last_;
};
TEST(Calibrate, OneSampleAndOneHistogramInMemory) {
  Streaming source;
  CalibrateOptions options;
  options.observe = {"x", "h"};
  const auto table = calibrate(model_of(small()), source, options);
  ASSERT_TRUE(table.ok());
  for (const char* name : {"x", "h"}) {
    EXPECT_EQ(table->find(name)->count(), 400u);
    EXPECT_EQ(table->find(name)->histogram().bins().size(), 2u * Histogram::kSide);
  }
}

}  // namespace
}  // namespace fold8::quant
