#include "runtime/kernels/quantize.h"

#include <bit>

#include "runtime/kernels/quantize_ref.h"
#include "tests/kernels/elementwise_support.h"

namespace fold8::kernels {
namespace {

using namespace testing;

TEST(Quantize, TiesGoToEvenRangesSaturateNanIsTheZeroPoint) {
  for (const Target& t : targets()) {
    if (!t.cpu_can_run()) continue;
    SCOPED_TRACE(std::string(t.name));
    const float x[] = {0.25f,   0.75f,    1.25f,     -0.25f, -0.75f, 200.0f,
                       -200.0f, INFINITY, -INFINITY, NAN,    3.4e38f};
    const float s = 0.5f;
    const std::int32_t z = 10;
    std::uint8_t u[11];
    t.kernels->quantize(
        {.type = QType::u8, .inner = 11, .x = x, .q = u, .scales = &s, .zero_points = &z});
    EXPECT_EQ(std::vector<int>(u, u + 11),
              (std::vector<int>{10, 12, 12, 10, 8, 255, 0, 255, 0, 10, 255}));
    std::int8_t v[11];
    t.kernels->quantize({.type = QType::s8, .inner = 11, .x = x, .q = v, .scales = &s});
    EXPECT_EQ(std::vector<int>(v, v + 11),
              (std::vector<int>{0, 2, 2, 0, -2, 127, -128, 127, -128, 0, 127}));
  }
}

TEST(Quantize, DividesAndDoesNotMultiplyByTheReciprocal) {
  // 23.5 * 0.3f: the quotient is exactly a tie, the product with 1 / 0.3f is not.
  int differ = 0;
  for (int k = 0; k < 256; ++k)
    for (float s : {0.3f, 0.0137f, 0.007f}) {
      const float x = (static_cast<float>(k) + 0.5f) * s;
      std::uint8_t q;
      for_each_vector_target([&](const KernelTable& table) {
        table.quantize({.inner = 1, .x = &x, .q = &q, .scales = &s});
        EXPECT_EQ(q, std::min(255.0f, std::nearbyint(x / s)));
      });
      differ += std::nearbyint(x / s) != std::nearbyint(x * (1 / s));
    }
  EXPECT_GT(differ, 0);
}

TEST(Quantize, EveryTargetGivesTheReferencesBitsForEveryLayout) {
  SeededRng rng;
  for (QType type : {QType::u8, QType::s8})
    for (std::size_t channels : {1u, 5u, 16u, 33u})
      for (std::size_t inner : {1u, 3u, 16u, 49u}) {
        const std::size_t n = 2 * channels * inner;
        GuardedBuffer<float> x(n), scales(channels), want_y(n), got_y(n);
        GuardedBuffer<std::int32_t> zero(channels);
        GuardedBuffer<std::uint8_t> want(n), got(n);
        copy_to(x, awkward_values(rng, n));
        for (std::size_t c = 0; c < channels; ++c) {
          scales[c] = std::exp(rng.normal());
          zero[c] = static_cast<std::int32_t>(type == QType::u8 ? rng.integer(0, 255)
                                                                : rng.integer(-128, 127));
        }
        for (const std::int32_t* z : {static_cast<const std::int32_t*>(zero.data()),
                                      static_cast<const std::int32_t*>(nullptr)}) {
          QuantizeArgs q{type, 2, channels, inner, x.data(), want.data(), scales.data(), z};
          reference_table().quantize(q);
          DequantizeArgs d{type, 2, channels, inner, want.data(), want_y.data(), scales.data(), z};
          reference_table().dequantize(d);
          for_each_vector_target([&](const KernelTable& table) {
            q.q = got.data(), d.y = got_y.data();
            table.quantize(q);
            table.dequantize(d);
            EXPECT_TRUE(same_bits(got.data(), want.data(), n));
            EXPECT_TRUE(same_bits(got_y.data(), want_y.data(), n));
          });
        }
      }
}

// Quotients next to a half, where a product with the reciprocal often rounds the other way, and
// scales from one end of the range to the other.
TEST(Quantize, QuotientsNextToAHalfRoundAsTrueOnes) {
  SeededRng rng;
  std::vector<float> x(4096);
  std::vector<std::uint8_t> want(x.size()), got(x.size());
  for (int i = 0; i < 60; ++i) {
    const float s =
        std::ldexp(1 + static_cast<float>(rng.integer(0, (1 << 23) - 1)) * 0x1p-23f,
                   static_cast<int>(i < 50 ? rng.integer(-8, 8) : rng.integer(-125, 119)));
    const auto z = static_cast<std::int32_t>(rng.integer(0, 255));
    for (float& v : x) {
      v = (static_cast<float>(rng.integer(-300, 300)) + 0.5f) * s;
      for (auto steps = rng.integer(0, 3); steps > 0; --steps)
        v = std::nextafter(v, rng.integer(0, 1) ? INFINITY : -INFINITY);
    }
    QuantizeArgs q{
        .inner = x.size(), .x = x.data(), .q = want.data(), .scales = &s, .zero_points = &z};
    reference_table().quantize(q);
    for_each_vector_target([&](const KernelTable& table) {
      q.q = got.data();
      table.quantize(q);
      ASSERT_EQ(got, want) << "scale " << s << " zero point " << z;
    });
  }
}

TEST(QuantizeRelayout, EveryTargetGivesTheReferencesBits) {
  SeededRng rng;
  for (std::size_t channels : {1u, 2u, 3u, 4u, 5u, 16u, 19u, 40u})
    for (std::size_t pixels : {1u, 15u, 48u, 530u}) {
      const std::size_t n = 2 * channels * pixels;
      GuardedBuffer<float> x(n);
      GuardedBuffer<std::uint8_t> want(n), got(n);
      copy_to(x, awkward_values(rng, n));
      QuantizeRelayoutArgs q{2,
                             channels,
                             pixels,
                             x.data(),
                             want.data(),
                             std::exp(static_cast<float>(rng.normal())),
                             static_cast<std::int32_t>(rng.integer(0, 255)),
                             0,
                             2 * pixels};
      reference_table().quantize_relayout(q);
      for_each_vector_target([&](const KernelTable& table) {
        q.q = got.data();
        q.begin = 0,
        q.end = static_cast<std::size_t>(rng.integer(0, 2 * static_cast<std::int64_t>(pixels)));
        table.quantize_relayout(q);
        q.begin = q.end, q.end = 2 * pixels;
        table.quantize_relayout(q);
        ASSERT_TRUE(std::ranges::equal(got.span(), want.span())) << channels << " x " << pixels;
      });
    }
}

TEST(Dequantize, AccumulatorsAreConvertedOnce) {
  const std::int32_t acc[3] = {2147483647, -2147483647 - 1, 16777217};
  const float s = 0.5f;
  for (const Target& t : targets()) {
    if (!t.cpu_can_run()) continue;
    float y[3];
    t.kernels->dequantize({.type = QType::s32, .inner = 3, .q = acc, .y = y, .scales = &s});
    EXPECT_EQ(y[0], 1073741824.0f);
    EXPECT_EQ(y[1], -1073741824.0f);
    EXPECT_EQ(y[2], 8388608.0f);
  }
}

TEST(QuantizeRows, EveryTargetGivesTheReferencesBits) {
  SeededRng rng;
  for (std::size_t cols : awkward_lengths()) {
    const std::size_t rows = 6;
    GuardedBuffer<float> x(rows * cols), want_s(rows), got_s(rows);
    GuardedBuffer<std::uint8_t> want(rows * cols), got(rows * cols);
    rng.fill_normal(x.span());
    for (std::size_t j = 0; j < cols; ++j)
      x[j] = 0, x[cols + j] = 1e-42f;  // a row of zeros, a denormal one
    x[2 * cols + cols / 2] = NAN;
    x[3 * cols + cols - 1] = -INFINITY;
    QuantizeRowsArgs args{
        .rows = rows, .cols = cols, .x = x.data(), .q = want.data(), .scales = want_s.data()};
    reference_table().quantize_rows(args);
    EXPECT_EQ(want_s[0], 0x1p-126f);
    EXPECT_EQ(want[0], 128);
    EXPECT_TRUE(std::isnan(want_s[2]) && std::isnan(want_s[3]));
    EXPECT_EQ(want[2 * cols], 128);
    std::uint8_t lowest = 255, highest = 0;
    for (std::size_t j = 4 * cols; j < 5 * cols; ++j)
      lowest = std::min(lowest, want[j]), highest = std::max(highest, want[j]);
    EXPECT_TRUE(lowest == 1 || highest == 255);
    for_each_vector_target([&](const KernelTable& table) {
      args.q = got.data(), args.scales = got_s.data();
      table.quantize_rows(args);
      EXPECT_TRUE(same_bits(got.data(), want.data(), rows * cols));
      EXPECT_TRUE(same_bits(got_s.data(), want_s.data(), rows));
    });
  }
}

// H of core/rotation.h, as its header writes it.
int rotation(std::size_t i, std::size_t k) {
  const std::size_t signs = (k & (k >> 1) & 1) + ((k >> 2) & (k >> 3) & 1);
  return (std::popcount(i & k) + static_cast<int>(signs)) % 2 == 0 ? 1 : -1;
}

TEST(QuantizeRows, RotatedRowsAreThoseOfTheMatrix) {
  for (std::size_t i = 0; i < 16; ++i) {
    int flat = 0;
    for (std::size_t k = 0; k < 16; ++k) {
      int dot = 0;
      for (std::size_t j = 0; j < 16; ++j) dot += rotation(i, j) * rotation(k, j);
      EXPECT_EQ(dot, i == k ? 16 : 0);
      flat += rotation(i, k);
    }
    EXPECT_EQ(std::abs(flat), 4);  // of a row of equal elements
  }
  const std::size_t m = 3, cols = 16 * m;
  for (std::size_t at = 0; at < cols; ++at) {
    std::vector<float> x(cols), scratch(cols + 16);
    x[at] = 127;
    std::vector<std::uint8_t> q(cols);
    float s = 0;
    reference_table().quantize_rows({.rows = 1,
                                     .cols = cols,
                                     .x = x.data(),
                                     .q = q.data(),
                                     .scales = &s,
                                     .rotated = true,
                                     .scratch = scratch.data()});
    EXPECT_EQ(s, 1);
    for (std::size_t j = 0; j < cols; ++j)
      EXPECT_EQ(q[j] - 128, j % m == at % m ? 127 * rotation(j / m, at / m) : 0);
  }
}

TEST(QuantizeRows, EveryTargetRotatesToTheReferencesBits) {
  SeededRng rng;
  for (std::size_t m : {1u, 3u, 15u, 16u, 24u, 37u, 86u})
    for (bool scaled : {false, true}) {
      const std::size_t rows = 5, cols = 16 * m;
      GuardedBuffer<float> x(rows * cols), factors(cols), want_s(rows), got_s(rows),
          scratch(cols + 16);
      GuardedBuffer<std::uint8_t> want(rows * cols), got(rows * cols);
      rng.fill_normal(x.span());
      for (float& f : factors.span()) f = rng.uniform(0.05f, 3);
      for (std::size_t j = 0; j < cols; ++j) x[j] = 0;
      x[2 * cols + cols / 2] = NAN;
      x[3 * cols + cols - 1] = -INFINITY;
      QuantizeRowsArgs args{.rows = rows,
                            .cols = cols,
                            .x = x.data(),
                            .q = want.data(),
                            .scales = want_s.data(),
                            .factors = scaled ? factors.data() : nullptr,
                            .rotated = true,
                            .scratch = scratch.data()};
      reference_table().quantize_rows(args);
      EXPECT_EQ(want_s[0], 0x1p-126f);
      EXPECT_TRUE(std::isnan(want_s[2]) && std::isnan(want_s[3]));
      for_each_vector_target([&](const KernelTable& table) {
        args.q = got.data(), args.scales = got_s.data();
        table.quantize_rows(args);
        EXPECT_TRUE(same_bits(got.data(), want.data(), rows * cols));
        EXPECT_TRUE(same_bits(got_s.data(), want_s.data(), rows));
      });
    }
}

TEST(QuantizeRows, FactorsAreMultipliedFirst) {
  SeededRng rng;
  for (std::size_t cols : awkward_lengths()) {
    const std::size_t rows = 4;
    GuardedBuffer<float> x(rows * cols), factors(cols), want_s(rows), got_s(rows);
    GuardedBuffer<std::uint8_t> want(rows * cols), got(rows * cols);
    rng.fill_normal(x.span());
    for (float& f : factors.span()) f = rng.uniform(0.05f, 3);
    std::vector<float> product(rows * cols);
    for (std::size_t i = 0; i < product.size(); ++i) product[i] = x[i] * factors[i % cols];
    reference_table().quantize_rows({.rows = rows,
                                     .cols = cols,
                                     .x = product.data(),
                                     .q = want.data(),
                                     .scales = want_s.data()});
    const auto check = [&](const KernelTable& table) {
      table.quantize_rows({.rows = rows,
                           .cols = cols,
                           .x = x.data(),
                           .q = got.data(),
                           .scales = got_s.data(),
                           .factors = factors.data()});
      EXPECT_TRUE(same_bits(got.data(), want.data(), rows * cols));
      EXPECT_TRUE(same_bits(got_s.data(), want_s.data(), rows));
    };
    check(reference_table());
    for_each_vector_target(check);
  }
}

TEST(Requantize, EveryTargetGivesTheReferencesBits) {
  SeededRng rng;
  for (std::size_t cols : awkward_lengths()) {
    const std::size_t rows = 3;
    GuardedBuffer<std::int32_t> acc(rows * cols);
    GuardedBuffer<float> m(cols), b(cols), row(rows), want(rows * cols), got(rows * cols);
    GuardedBuffer<std::uint8_t> want_q(rows * cols), got_q(rows * cols);
    rng.fill_integers(acc.span(), -40000, 40000);
    for (float& v : m.span()) v = std::fabs(rng.normal()) * 0.01f;
    rng.fill_normal(b.span(), 0, 10);
    rng.fill_normal(row.span());
    for (int with : {0, 1, 2, 3}) {
      RequantizeArgs args{rows,
                          cols,
                          acc.data(),
                          m.data(),
                          with & 1 ? b.data() : nullptr,
                          with & 2 ? row.data() : nullptr,
                          want.data(),
                          want_q.data(),
                          117};
      reference_table().requantize(args);
      for_each_vector_target([&](const KernelTable& table) {
        args.y = got.data(), args.q = got_q.data();
        table.requantize(args);
        EXPECT_TRUE(same_bits(got.data(), want.data(), rows * cols));
        EXPECT_TRUE(same_bits(got_q.data(), want_q.data(), rows * cols));
      });
    }
  }
}

TEST(MapU8, AppliesTheTableInPlace) {
  std::uint8_t table[256];
  requantize_table(0.1f, 3, 0.2f, 128, table);
  EXPECT_EQ(table[3], 128);
  EXPECT_EQ(table[5], 129);
  EXPECT_EQ(table[4], 128);  // 0.5 goes to even
  EXPECT_EQ(table[255], 254);
  for (std::size_t n : awkward_lengths())
    for (const Target& t : targets()) {
      if (!t.cpu_can_run()) continue;
      GuardedBuffer<std::uint8_t> x(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<std::uint8_t>(i * 37);
      t.kernels->map_u8({n, x.data(), x.data(), table});
      for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(x[i], table[static_cast<std::uint8_t>(i * 37)]);
    }
}

TEST(DynamicQuantize, FollowsOnnx) {
  const float x[] = {0, 2, -3, -2.5f, 1.34f, 0.5f};  // the operator's own example
  float s;
  std::int32_t z;
  ASSERT_TRUE(dynamic_quantize_params(x, 6, &s, &z));
  EXPECT_NEAR(s, 0.0196078438, 1e-9);
  EXPECT_EQ(z, 153);
  const float positive[] = {1, 2.1f, 1.3f, 2.5f, 3.34f, 4};
  ASSERT_TRUE(dynamic_quantize_params(positive, 6, &s, &z));
  EXPECT_NEAR(s, 0.0156862754, 1e-9);
  EXPECT_EQ(z, 0);
  const float zeros[] = {0, -0.0f};
  ASSERT_TRUE(dynamic_quantize_params(zeros, 2, &s, &z));
  EXPECT_EQ(s, 1.0f);
  const float huge[] = {3e38f, -3e38f};
  ASSERT_TRUE(dynamic_quantize_params(huge, 2, &s, &z));
  EXPECT_LT(s, INFINITY);
  const float bad[] = {0, NAN};
  EXPECT_FALSE(dynamic_quantize_params(bad, 2, &s, &z));
}

}  // namespace
}  // namespace fold8::kernels
