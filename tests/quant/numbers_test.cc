// Tensors of every element type as numbers, and what is compared as those: outputs of two models.
#include "quant/numbers.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "quant/compare.h"
#include "quant/error_metrics.h"
#include "quant/sensitivity.h"
#include "tests/support/memory_samples.h"
#include "tests/support/parsed_graph.h"

namespace fold8::quant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::MemorySamples;
using testing_support::model_of;
using testing_support::normal_samples;
using testing_support::parsed;
using testing_support::tensor_of;

template <class T>
Numbers numbers(std::vector<T> data, DType dtype, std::optional<QuantParams> params = {}) {
  const TensorType type{dtype, Shape{static_cast<std::int64_t>(data.size())}, std::move(params),
                        Layout::plain};
  return numbers_of({dtype, type.shape, data.data(), Layout::plain}, type);
}

TEST(Numbers, FloatsOfEveryWidth) {
  EXPECT_THAT(numbers<float>({1.5f, -2}, DType::f32).values, ElementsAre(1.5, -2));
  EXPECT_THAT(numbers<double>({0.1, 1e300}, DType::f64).values, ElementsAre(0.1, 1e300));
  EXPECT_THAT(numbers<std::uint16_t>({0x3C00, 0xC000, 0x0001, 0x7BFF}, DType::f16).values,
              ElementsAre(1, -2, std::ldexp(1.0, -24), 65504));
  EXPECT_THAT(numbers<std::uint16_t>({0x3F80, 0xC000, 0x7F80}, DType::bf16).values,
              ElementsAre(1, -2, std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(std::isnan(numbers<std::uint16_t>({0x7E00}, DType::f16).values[0]));
}

TEST(Numbers, IntegersAndBooleans) {
  EXPECT_THAT(numbers<std::uint8_t>({0, 255}, DType::u8).values, ElementsAre(0, 255));
  EXPECT_THAT(numbers<std::int8_t>({-128, 127}, DType::s8).values, ElementsAre(-128, 127));
  EXPECT_THAT(numbers<std::int8_t>({-8, 7}, DType::s4).values, ElementsAre(-8, 7));
  EXPECT_THAT(numbers<std::uint8_t>({0, 15}, DType::u4).values, ElementsAre(0, 15));
  EXPECT_THAT(numbers<std::int16_t>({-32768}, DType::s16).values, ElementsAre(-32768));
  EXPECT_THAT(numbers<std::uint16_t>({65535}, DType::u16).values, ElementsAre(65535));
  EXPECT_THAT(numbers<std::int32_t>({-2147483647 - 1}, DType::s32).values,
              ElementsAre(-2147483648.0));
  EXPECT_THAT(numbers<std::uint32_t>({4294967295u}, DType::u32).values, ElementsAre(4294967295.0));
  EXPECT_THAT(numbers<std::uint8_t>({0, 1, 2}, DType::boolean).values, ElementsAre(0, 1, 1));
  EXPECT_THAT(numbers<std::int64_t>({}, DType::s64).values, IsEmpty());
  EXPECT_THAT(numbers<std::int64_t>({-(1LL << 53), 7}, DType::s64).rest, IsEmpty());
}

TEST(Numbers, CodesAreWhatTheyStandFor) {
  EXPECT_THAT(
      numbers<std::uint8_t>({130, 128}, DType::u8, *QuantParams::per_tensor(0.5f, 128)).values,
      ElementsAre(1, 0));
}

// 2^60 and 2^60 + 1 are one double.
TEST(Numbers, WideIntegersStayApart) {
  const auto big = std::int64_t{1} << 60;
  const Numbers a = numbers<std::int64_t>({big, -big, std::numeric_limits<std::int64_t>::max()},
                                          DType::s64),
                b = numbers<std::int64_t>(
                    {big + 1, -big - 3, std::numeric_limits<std::int64_t>::max()}, DType::s64);
  EXPECT_EQ(a.to(b, 0), 1);
  EXPECT_EQ(a.to(b, 1), -3);
  EXPECT_EQ(a.to(b, 2), 0);
  ErrorMeter apart, same;
  ASSERT_TRUE(apart.add(a, b).ok());
  EXPECT_FALSE(apart.summary().exact);
  EXPECT_EQ(apart.summary().max_abs, 3);
  ASSERT_TRUE(same.add(b, b).ok());
  EXPECT_TRUE(same.summary().exact);
  const auto top = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(numbers<std::uint64_t>({top - 1}, DType::u64)
                .to(numbers<std::uint64_t>({top}, DType::u64), 0),
            1);
}

TEST(Numbers, AreMeteredLikeFloats) {
  const std::vector<float> r = {1, 2, -3, 0.25f}, g = {1.5f, 2, -3.25f, 0};
  ErrorMeter floats, doubles;
  ASSERT_TRUE(floats.add(r, g).ok());
  ASSERT_TRUE(doubles.add(numbers(r, DType::f32), numbers(g, DType::f32)).ok());
  const ErrorSummary a = floats.summary(), b = doubles.summary();
  EXPECT_EQ(a.sqnr_db, b.sqnr_db);
  EXPECT_EQ(a.cosine, b.cosine);
  EXPECT_EQ(a.max_abs, b.max_abs);
  EXPECT_EQ(a.bias, b.bias);
  EXPECT_EQ(a.elements, b.elements);
  const float nan = std::nanf("");
  const Status bad =
      doubles.add(numbers<float>({1, nan}, DType::f32), numbers<float>({1, 2}, DType::f32));
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message, HasSubstr("element 1 is nan"));
  EXPECT_FALSE(doubles.add(numbers(r, DType::f32), numbers<float>({1}, DType::f32)).ok());
}

constexpr const char* kTypes[] = {"f32", "f16", "bf16", "f64", "s8",  "u8",  "s16",
                                  "u16", "s32", "u32",  "s64", "u64", "bool"};

// y as `type`: x itself, or moved by one.
graph::Graph cast_to(const std::string& type, bool moved) {
  return parsed("x: f32[1,4]\nc = binary(x, f32[1]{" + std::string(moved ? "1" : "0") +
                "}) kind=add\ny = cast(c) to=" + type + "\nreturn y");
}

TEST(Compare, OutputsOfEveryType) {
  for (const std::string type : kTypes) {
    SCOPED_TRACE(type);
    MemorySamples samples({{tensor_of({1, 4}, {0, 2, 3, 4})}});
    const graph::Graph a = cast_to(type, false), b = cast_to(type, true);
    CompareOptions options;
    std::size_t seen = 0;
    options.on_output = [&](const OutputPair& p) {
      seen += p.reference.size();
      EXPECT_EQ(p.reference[0], 0);
      EXPECT_EQ(p.got[0], 1);
      return ok_status();
    };
    const auto c = compare(model_of(a), model_of(b), samples, options);
    ASSERT_TRUE(c.ok()) << c.error().message;
    ASSERT_EQ(c->outputs.size(), 1u);
    EXPECT_EQ(seen, 4u);
    EXPECT_EQ(c->outputs[0].error.elements, 4u);
    EXPECT_EQ(c->outputs[0].error.max_abs, 1);
    EXPECT_FALSE(c->outputs[0].error.exact);
    EXPECT_TRUE(c->outputs[0].error.sqnr_db);
    EXPECT_EQ(c->outputs[0].top1.has_value(), type.find('f') != std::string::npos);
    const auto same = compare(model_of(a), model_of(a), samples);
    ASSERT_TRUE(same.ok());
    EXPECT_TRUE(same->outputs[0].error.exact);
  }
}

TEST(Sensitivity, OutputsOfEveryType) {
  for (const std::string type : kTypes) {
    SCOPED_TRACE(type);
    const std::string end = "y = cast(l) to=" + type + "\nreturn y";
    const graph::Graph a = parsed("x: f32[1,2]\nl = linear(x, f32[2,2]{3,4, 5,-1})\n" + end),
                       b = parsed(
                           "x: f32[1,2]\nxq: u8[1,2] @(1,0) = quantize(x)\n"
                           "l = linear(xq, s8[2,2] @(1,0) {3,4, 5,-1})\n" +
                           end);
    // l: 11, 5 * 1.4 - 1 * 2 = 5 and, from codes 1 and 2, 11 and 3.
    MemorySamples samples({{tensor_of({1, 2}, {1.4f, 2})}});
    const auto s = sensitivity(model_of(a), model_of(b), samples, {});
    ASSERT_TRUE(s.ok()) << s.error().message;
    ASSERT_EQ(s->size(), 1u);
    EXPECT_EQ((*s)[0].alone_exact, type == "bool") << (*s)[0].why_missing;
    EXPECT_EQ((*s)[0].alone_db.has_value(), type != "bool");
  }
}

TEST(Sensitivity, OfEmptyOutputsNothingIsKnown) {
  const graph::Graph g = parsed("x: f32[n,2]\ny = linear(x, f32[2,2]{3,4, 5,-1})\nreturn y");
  MemorySamples samples({{tensor_of({0, 2}, {})}});
  const auto s = sensitivity(model_of(g), model_of(g), samples, {});
  ASSERT_TRUE(s.ok()) << s.error().message;
  ASSERT_EQ(s->size(), 1u);
  EXPECT_FALSE((*s)[0].alone_exact);
  EXPECT_FALSE((*s)[0].alone_db);
}

}  // namespace
}  // namespace fold8::quant
