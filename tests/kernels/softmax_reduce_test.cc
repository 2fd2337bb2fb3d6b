#include "runtime/kernels/reduce.h"
#include "runtime/kernels/softmax.h"
#include "tests/kernels/elementwise_support.h"

namespace fold8::kernels {
namespace {

using namespace testing;

TEST(Softmax, EveryTargetGivesTheReferencesBits) {
  SeededRng rng;
  for (std::size_t axis : awkward_lengths())
    for (std::size_t inner : {1u, 2u, 16u, 19u})
      for (bool log : {false, true})
        for (bool special : {false, true}) {
          const std::size_t n = 3 * axis * inner;
          GuardedBuffer<float> x(n), want(n), got(n);
          rng.fill_normal(x.span(), 0, 4);
          if (special) copy_to(x, awkward_values(rng, n));
          SoftmaxArgs args{.outer = 3,
                           .axis = axis,
                           .inner = inner,
                           .log = log,
                           .x = x.data(),
                           .y = want.data()};
          reference_table().softmax(args);
          for_each_vector_target([&](const KernelTable& table) {
            args.y = got.data();
            table.softmax(args);
            EXPECT_TRUE(same_bits(got.data(), want.data(), n)) << axis << " x " << inner;
          });
          if (special) continue;
          double sum = 0;
          for (std::size_t j = 0; j < axis; ++j)
            sum += log ? std::exp(double{want[j * inner]}) : double{want[j * inner]};
          EXPECT_NEAR(sum, 1, 1e-5);
        }
}

TEST(Softmax, TheLayoutOfTheAxisDoesNotChangeTheResult) {
  SeededRng rng;
  const std::size_t axis = 50, inner = 20;
  std::vector<float> rows(axis * inner), columns(axis * inner), a(axis * inner), b(axis * inner);
  rng.fill_normal(rows);
  for (std::size_t i = 0; i < inner; ++i)
    for (std::size_t j = 0; j < axis; ++j) columns[j * inner + i] = rows[i * axis + j];
  for (const Target& t : targets()) {
    if (!t.cpu_can_run()) continue;
    t.kernels->softmax({.outer = inner, .axis = axis, .inner = 1, .x = rows.data(), .y = a.data()});
    // In two parts of inner, as two threads would.
    t.kernels->softmax(
        {.axis = axis, .inner = 7, .axis_stride = inner, .x = columns.data(), .y = b.data()});
    t.kernels->softmax({.axis = axis,
                        .inner = 13,
                        .axis_stride = inner,
                        .x = columns.data() + 7,
                        .y = b.data() + 7});
    for (std::size_t i = 0; i < inner; ++i)
      for (std::size_t j = 0; j < axis; ++j) ASSERT_EQ(a[i * axis + j], b[j * inner + i]);
  }
}

TEST(Softmax, MaskedAndBrokenRows) {
  for (const Target& t : targets()) {
    if (!t.cpu_can_run()) continue;
    float x[] = {1, -INFINITY, 1, -3.4e38f}, y[4];
    t.kernels->softmax({.axis = 4, .x = x, .y = y});
    EXPECT_EQ(std::vector<float>(y, y + 4), (std::vector<float>{0.5f, 0, 0.5f, 0}));
    float nan[] = {1, NAN, 2, 3};
    t.kernels->softmax({.axis = 4, .x = nan, .y = nan});
    for (float v : nan) EXPECT_TRUE(std::isnan(v));
  }
}

TEST(Reduce, EveryTargetGivesTheReferencesBits) {
  SeededRng rng;
  std::vector<std::size_t> lengths = awkward_lengths();
  lengths.push_back(0);
  for (std::size_t axis : lengths)
    for (std::size_t inner : {1u, 3u, 16u, 21u})
      for (SumRule rule : {SumRule::lanes, SumRule::chain})
        for (int kind = 0; kind <= static_cast<int>(ReduceKind::log_sum_exp); ++kind)
          for (bool special : {false, true}) {
            const std::size_t outer = inner == 1 ? 18 : 2, n = outer * axis * inner;
            GuardedBuffer<float> x(n), want(outer * inner), got(outer * inner);
            rng.fill_normal(x.span(), 1, 2);
            if (special && n > 0) copy_to(x, awkward_values(rng, n));
            ReduceArgs args{
                static_cast<ReduceKind>(kind), rule, outer, axis, inner, x.data(), want.data()};
            reference_table().reduce(args);
            for_each_vector_target([&](const KernelTable& table) {
              args.y = got.data();
              table.reduce(args);
              EXPECT_TRUE(same_bits(got.data(), want.data(), outer * inner))
                  << "kind " << kind << " axis " << axis << " inner " << inner;
            });
          }
}

float one(ReduceKind kind, std::vector<float> x) {
  float y = 0;
  reference_table().reduce({kind, SumRule::lanes, 1, x.size(), 1, x.data(), &y});
  return y;
}

TEST(Reduce, MeansWhatOnnxSays) {
  using K = ReduceKind;
  EXPECT_EQ(one(K::sum, {1, 2, 3.5f}), 6.5f);
  EXPECT_EQ(one(K::mean, {1, 2, 6}), 3.0f);
  EXPECT_EQ(one(K::prod, {2, 3, -4}), -24.0f);
  EXPECT_EQ(one(K::l1, {2, -3}), 5.0f);
  EXPECT_EQ(one(K::l2, {3, -4}), 5.0f);
  EXPECT_EQ(one(K::sum_square, {3, -4}), 25.0f);
  EXPECT_NEAR(one(K::log_sum, {1, 2}), std::log(3.0), 1e-7);
  EXPECT_NEAR(one(K::log_sum_exp, {1000, 1000}), 1000 + std::log(2.0), 1e-4);
  EXPECT_EQ(one(K::log_sum_exp, {-INFINITY, -INFINITY}), -INFINITY);
  EXPECT_EQ(one(K::log_sum_exp, {INFINITY, 0}), INFINITY);
  EXPECT_TRUE(std::isnan(one(K::max, {1, NAN, 2})));
  EXPECT_FALSE(std::signbit(one(K::max, {-0.0f, 0.0f, -0.0f})));
  EXPECT_EQ(one(K::sum, {}), 0.0f);
  EXPECT_EQ(one(K::max, {}), -INFINITY);
  EXPECT_EQ(one(K::min, {}), INFINITY);
  EXPECT_EQ(one(K::prod, {}), 1.0f);
}

TEST(Reduce, TheLayoutOfTheAxisDoesNotChangeASum) {
  SeededRng rng;
  const std::size_t axis = 77, inner = 18;
  std::vector<float> rows(axis * inner), columns(axis * inner), a(inner), b(inner);
  rng.fill_normal(rows);
  for (std::size_t i = 0; i < inner; ++i)
    for (std::size_t j = 0; j < axis; ++j) columns[j * inner + i] = rows[i * axis + j];
  for (SumRule rule : {SumRule::lanes, SumRule::chain})
    for (const Target& t : targets()) {
      if (!t.cpu_can_run()) continue;
      t.kernels->reduce({ReduceKind::sum, rule, inner, axis, 1, rows.data(), a.data()});
      t.kernels->reduce({ReduceKind::sum, rule, 1, axis, inner, columns.data(), b.data()});
      EXPECT_EQ(a, b);
    }
}

TEST(ArgReduce, EveryTargetGivesTheReferencesIndex) {
  SeededRng rng;
  for (std::size_t axis : awkward_lengths())
    for (std::size_t inner : {1u, 3u, 17u})
      for (bool largest : {false, true})
        for (bool last : {false, true})
          for (bool with_nan : {false, true}) {
            const std::size_t outer = 2, n = outer * axis * inner;
            GuardedBuffer<float> x(n);
            GuardedBuffer<std::int64_t> want(outer * inner), got(outer * inner);
            for (float& v : x.span()) v = static_cast<float>(rng.integer(-3, 3));  // many ties
            if (with_nan) x[n / 2] = x[n - 1] = NAN;
            ArgReduceArgs args{largest, last, outer, axis, inner, x.data(), want.data()};
            reference_table().arg_reduce(args);
            for_each_vector_target([&](const KernelTable& table) {
              args.index = got.data();
              table.arg_reduce(args);
              EXPECT_TRUE(same_bits(got.data(), want.data(), outer * inner))
                  << axis << " " << inner << " " << largest << last;
            });
          }
}

TEST(ArgReduce, TiesGoToTheLowestIndexUnlessAskedOtherwise) {
  const float x[] = {1, 3, 3, -1, -1}, nan[] = {1, NAN, 5, NAN, 0};
  const auto arg = [](const float* v, bool largest, bool last) {
    std::int64_t i = -1;
    reference_table().arg_reduce({largest, last, 1, 5, 1, v, &i});
    return i;
  };
  EXPECT_EQ(arg(x, true, false), 1);
  EXPECT_EQ(arg(x, true, true), 2);
  EXPECT_EQ(arg(x, false, false), 3);
  EXPECT_EQ(arg(x, false, true), 4);
  EXPECT_EQ(arg(nan, true, false), 1);
  EXPECT_EQ(arg(nan, false, true), 3);
}

TEST(ReduceIntegers, AreExactAndWrap) {
  const std::int64_t x[] = {5, -7, 3, 9, 2, -4};  // [2, 3]: columns (5,9) (-7,2) (3,-4)
  std::int64_t y[3];
  reduce_s64(ReduceKind::sum, 1, 2, 3, x, y);
  EXPECT_EQ(std::vector<std::int64_t>(y, y + 3), (std::vector<std::int64_t>{14, -5, -1}));
  reduce_s64(ReduceKind::min, 1, 2, 3, x, y);
  EXPECT_EQ(std::vector<std::int64_t>(y, y + 3), (std::vector<std::int64_t>{5, -7, -4}));
  reduce_s64(ReduceKind::mean, 2, 3, 1, x, y);
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 2);
  const std::int32_t big[] = {2147483647, 1};
  std::int32_t z;
  reduce_s32(ReduceKind::sum, 1, 2, 1, big, &z);
  EXPECT_EQ(z, -2147483647 - 1);
  reduce_s32(ReduceKind::max, 1, 2, 1, big, &z);
  EXPECT_EQ(z, 2147483647);
}

}  // namespace
}  // namespace fold8::kernels
