#include <gtest/gtest.h>

#include "runtime/kernels/activation_ref.h"
#include "runtime/kernels/math_ref.h"
#include "tests/kernels/elementwise_support.h"

namespace fold8::kernels {
namespace {

using namespace testing;

TEST(Unary, EveryTargetGivesTheReferencesBitsAndStaysInside) {
  SeededRng rng;
  for (int k = 0; k <= static_cast<int>(UnaryKind::atanh); ++k)
    for (std::size_t n : awkward_lengths()) {
      GuardedBuffer<float> x(n), want(n), got(n);
      GuardedBuffer<std::uint8_t> want_q(n), got_q(n);
      copy_to(x, awkward_values(rng, n));
      UnaryArgs args{.kind = static_cast<UnaryKind>(k),
                     .n = n,
                     .x = x.data(),
                     .y = want.data(),
                     .a = 0.75f,
                     .b = 1.25f,
                     .q = want_q.data(),
                     .q_scale = 0.037f,
                     .q_zero_point = 113};
      reference_table().unary(args);
      for_each_vector_target([&](const KernelTable& table) {
        args.y = got.data(), args.q = got_q.data();
        table.unary(args);
        EXPECT_TRUE(same_bits(got.data(), want.data(), n)) << "kind " << k;
        EXPECT_TRUE(same_bits(got_q.data(), want_q.data(), n)) << "kind " << k;
        args.q = nullptr;
        table.unary(args);
        EXPECT_TRUE(same_bits(got.data(), want.data(), n)) << "kind " << k;
        args.q = got_q.data(), args.y = nullptr;
        table.unary(args);
        EXPECT_TRUE(same_bits(got_q.data(), want_q.data(), n)) << "kind " << k;
      });
    }
}

float one(UnaryKind kind, float x, float a = 0, float b = 0) {
  float y = 0;
  reference_table().unary({.kind = kind, .n = 1, .x = &x, .y = &y, .a = a, .b = b});
  return y;
}

TEST(Unary, MeansWhatOnnxSays) {
  using K = UnaryKind;
  EXPECT_EQ(one(K::clip, -0.0f, 0.0f, INFINITY), 0.0f);
  EXPECT_FALSE(std::signbit(one(K::clip, -0.0f, 0.0f, INFINITY)));
  EXPECT_TRUE(std::isnan(one(K::clip, NAN, 0.0f, 6.0f)));
  EXPECT_EQ(one(K::clip, 7.0f, 0.0f, 6.0f), 6.0f);
  EXPECT_EQ(one(K::leaky_relu, -2.0f, 0.1f), -0.2f);
  EXPECT_FLOAT_EQ(one(K::hard_sigmoid, 1.0f, 0.2f, 0.5f), 0.7f);
  EXPECT_FLOAT_EQ(one(K::hard_swish, 1.0f, 1.0f / 6, 0.5f), 2.0f / 3);
  EXPECT_EQ(one(K::hard_swish, 4.0f, 1.0f / 6, 0.5f), 4.0f);
  EXPECT_EQ(one(K::round, 2.5f), 2.0f);
  EXPECT_EQ(one(K::round, -3.5f), -4.0f);
  EXPECT_EQ(one(K::floor, -1.5f), -2.0f);
  EXPECT_EQ(one(K::ceil, -1.5f), -1.0f);
  EXPECT_EQ(one(K::sign, -3.0f), -1.0f);
  EXPECT_EQ(one(K::softsign, -3.0f), -0.75f);
  EXPECT_EQ(one(K::thresholded_relu, 0.5f, 1.0f), 0.0f);
  EXPECT_EQ(one(K::shrink, -3.0f, 1.5f, 1.0f), -2.0f);
  EXPECT_EQ(one(K::shrink, 1.0f, 1.5f, 1.0f), 0.0f);
  EXPECT_NEAR(one(K::gelu_erf, 1.0f), 0.8413447461, 2e-7);
  EXPECT_NEAR(one(K::gelu_tanh, 1.0f), 0.8411919906, 2e-7);
  EXPECT_NEAR(one(K::silu, -1.0f, 1.0f), -0.2689414214, 1e-7);
  EXPECT_NEAR(one(K::mish, 1.0f), 0.8650983883, 3e-7);
  EXPECT_NEAR(one(K::selu, -1.0f, 1.67326319f, 1.05070102f), -1.1113307, 3e-7);
  EXPECT_NEAR(one(K::celu, -1.0f, 2.0f), 2 * std::expm1(-0.5), 3e-7);
  EXPECT_NEAR(one(K::elu, -1.0f, 1.5f), 1.5 * std::expm1(-1.0), 2e-7);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(one(K::canonical_nan, -std::bit_cast<float>(0x7fc12345u))),
            0x7fc00000u);
}

// Operands of random shapes with broadcast axes, laid out densely, stepped through by strides.
struct Problem {
  std::vector<std::size_t> shape;
  std::vector<int> a_broadcast, b_broadcast;  // 1: this axis is broadcast
};

std::vector<Problem> problems() {
  return {
      {{37}, {0}, {0}},
      {{37}, {0}, {1}},
      {{37}, {1}, {0}},
      {{1}, {0}, {0}},
      {{5, 33}, {0, 0}, {1, 0}},
      {{5, 33}, {0, 0}, {0, 1}},
      {{5, 33}, {1, 0}, {0, 1}},
      {{2, 9, 24}, {0, 0, 0}, {0, 1, 0}},
      {{2, 9, 17}, {0, 1, 0}, {0, 0, 0}},
      {{2, 3, 4, 5}, {0, 1, 0, 1}, {1, 0, 1, 0}},
      {{2, 3, 1, 2, 2, 3, 2, 2}, {0, 0, 0, 1, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 1, 0, 1}},
      {{4, 3}, {0, 0}, {0, 0}},
      {{37, 3}, {0, 0}, {1, 0}},
      {{21, 5}, {1, 0}, {0, 0}},
      {{3, 13, 40}, {0, 0, 0}, {0, 1, 0}},
  };
}

std::size_t fill_strides(const Problem& p, const std::vector<int>& broadcast,
                         std::ptrdiff_t* stride) {
  std::ptrdiff_t step = 1;
  for (std::size_t i = p.shape.size(); i-- > 0;) {
    stride[i] = broadcast[i] ? 0 : step;
    if (!broadcast[i]) step *= static_cast<std::ptrdiff_t>(p.shape[i]);
  }
  return static_cast<std::size_t>(step);
}

std::size_t elements(const Problem& p) {
  std::size_t n = 1;
  for (std::size_t e : p.shape) n *= e;
  return n;
}

void compare_binary(const Problem& p, BinaryKind kind, int types, SeededRng& rng) {
  BinaryArgs args{.kind = kind, .rank = static_cast<int>(p.shape.size())};
  std::copy(p.shape.begin(), p.shape.end(), args.shape);
  const std::size_t na = fill_strides(p, p.a_broadcast, args.a.stride),
                    nb = fill_strides(p, p.b_broadcast, args.b.stride);
  const std::size_t n = elements(p);
  GuardedBuffer<float> a(na), b(nb), want(n), got(n);
  GuardedBuffer<std::uint8_t> qa(na), qb(nb), want_q(n), got_q(n);
  copy_to(a, awkward_values(rng, na));
  for (std::size_t i = 0; i < nb; ++i)
    b[i] = i % 5 == 0 ? 2.0f : special_values()[(i * 7) % special_values().size()];
  rng.fill_integers(qa.span(), 0, 255);
  rng.fill_integers(qb.span(), 0, 255);
  if (types & 1)
    args.a.u8 = qa.data(), args.a.scale = 0.3f, args.a.zero_point = 100;
  else
    args.a.f32 = a.data();
  if (types & 2)
    args.b.u8 = qb.data(), args.b.scale = 0.2f, args.b.zero_point = 7;
  else
    args.b.f32 = b.data();
  if (types & 4) args.activation = Activation::hard_swish, args.act_a = 1.0f / 6, args.act_b = 0.5f;
  args.begin = 0, args.end = n;
  args.y = want.data(), args.q = want_q.data(), args.q_scale = 0.11f, args.q_zero_point = 40;
  reference_table().binary(args);
  for_each_vector_target([&](const KernelTable& table) {
    args.y = got.data(), args.q = types & 8 ? got_q.data() : nullptr;
    for (std::size_t cut : {std::size_t{0}, n / 3, n}) {  // any split over threads
      args.begin = 0, args.end = cut;
      table.binary(args);
      args.begin = cut, args.end = n;
      table.binary(args);
      ASSERT_TRUE(same_bits(got.data(), want.data(), n))
          << "kind " << int(kind) << " types " << types;
      if (types & 8) {
        ASSERT_TRUE(same_bits(got_q.data(), want_q.data(), n));
      }
    }
  });
}

TEST(Binary, EveryTargetGivesTheReferencesBitsForEveryBroadcast) {
  SeededRng rng;
  for (const Problem& p : problems())
    for (int kind = 0; kind <= static_cast<int>(BinaryKind::mod); ++kind)
      for (int types : {0, 1, 2, 3, 4, 8, 15})
        compare_binary(p, static_cast<BinaryKind>(kind), types, rng);
}

// Codes times one value a channel, to codes (a squeeze-excitation block): every code under every
// gate, ordinary ones, ones whose products are half steps, and ones that are no numbers.
TEST(Binary, EveryTargetGivesTheReferencesCodesUnderAGate) {
  SeededRng rng;
  for (std::size_t channels : {3u, 5u, 16u, 40u, 128u, 200u, 1000u})
    for (float scale : {0.031f, 1e-35f, 2e-13f, 3e30f}) {
      const std::size_t pixels = 259, samples = 2, n = samples * pixels * channels;
      GuardedBuffer<std::uint8_t> a(n), want(n), got(n);
      GuardedBuffer<float> gate(samples * channels);
      const std::vector<float> special = special_values();
      for (std::size_t i = 0; i < n; ++i) a[i] = static_cast<std::uint8_t>(i / channels + i);
      for (std::size_t i = 0; i < gate.size(); ++i)
        gate[i] = i % 11 == 0   ? special[i / 11 % special.size()]
                  : i % 11 == 1 ? 0.5f
                                : rng.normal(0, 1);
      BinaryArgs args{.kind = BinaryKind::mul, .rank = 3, .shape = {samples, pixels, channels}};
      const auto step = static_cast<std::ptrdiff_t>(channels);
      args.a = {.u8 = a.data(), .scale = scale, .zero_point = 100};
      args.a.stride[0] = static_cast<std::ptrdiff_t>(pixels) * step;
      args.a.stride[1] = step, args.a.stride[2] = 1;
      args.b.f32 = gate.data(), args.b.stride[0] = step, args.b.stride[2] = 1;
      args.end = n, args.q = want.data(), args.q_scale = scale * 0.5f, args.q_zero_point = 40;
      reference_table().binary(args);
      for_each_vector_target([&](const KernelTable& table) {
        for (const bool turned : {false, true}) {
          BinaryArgs each = args;
          each.q = got.data();
          if (turned) std::swap(each.a, each.b);
          for (const auto& [begin, end] : {std::pair{std::size_t{0}, n / 3}, std::pair{n / 3, n}}) {
            each.begin = begin, each.end = end;
            table.binary(each);
          }
          EXPECT_TRUE(same_bits(got.data(), want.data(), n)) << channels << " channels, " << scale;
        }
        std::copy(a.data(), a.data() + n, got.data());  // in place
        BinaryArgs each = args;
        each.a.u8 = each.q = got.data();
        table.binary(each);
        EXPECT_TRUE(same_bits(got.data(), want.data(), n)) << channels << " channels, in place";
      });
    }
}

TEST(Binary, ExtremaAndPowersOfSpecialValues) {
  const auto f = [](BinaryKind kind, float p, float q) {
    float y = 0;
    BinaryArgs args{.kind = kind, .rank = 0, .begin = 0, .end = 1, .y = &y};
    args.a.f32 = &p, args.b.f32 = &q;
    for (const Target& t : targets())
      if (t.cpu_can_run()) t.kernels->binary(args);
    return y;
  };
  EXPECT_TRUE(std::isnan(f(BinaryKind::max, NAN, 1)) && std::isnan(f(BinaryKind::min, 1, NAN)));
  EXPECT_FALSE(std::signbit(f(BinaryKind::max, -0.0f, 0.0f)));
  EXPECT_TRUE(std::signbit(f(BinaryKind::min, 0.0f, -0.0f)));
  EXPECT_EQ(f(BinaryKind::pow, 3, 2), 9.0f);
  EXPECT_EQ(f(BinaryKind::pow, -2, 3), -8.0f);
  EXPECT_EQ(f(BinaryKind::pow, 2, 0.5f), 1.41421354f);
  EXPECT_TRUE(std::isnan(f(BinaryKind::pow, -2, 0.5f)));
  EXPECT_EQ(f(BinaryKind::mod, -7, 3), -1.0f);
  EXPECT_EQ(f(BinaryKind::prelu, -2, 0.25f), -0.5f);
}

TEST(BinaryU8, EveryTargetGivesTheReferencesBits) {
  SeededRng rng;
  for (const Problem& p : problems())
    for (BinaryU8Kind kind : {BinaryU8Kind::add, BinaryU8Kind::mul}) {
      BinaryU8Args args{.kind = kind, .rank = static_cast<int>(p.shape.size())};
      std::copy(p.shape.begin(), p.shape.end(), args.shape);
      const std::size_t na = fill_strides(p, p.a_broadcast, args.a_stride),
                        nb = fill_strides(p, p.b_broadcast, args.b_stride);
      const std::size_t n = elements(p);
      GuardedBuffer<std::uint8_t> a(na), b(nb), want(n), got(n);
      rng.fill_integers(a.span(), 0, 255);
      rng.fill_integers(b.span(), 0, 255);
      args.a = a.data(), args.b = b.data(), args.begin = 0, args.end = n, args.y = want.data();
      args.a_zero_point = 128, args.b_zero_point = 3, args.y_zero_point = 20;
      args.m_a = kind == BinaryU8Kind::add ? 0.71f : 0.013f, args.m_b = 0.33f, args.lo = -15.5f;
      reference_table().binary_u8(args);
      for_each_vector_target([&](const KernelTable& table) {
        args.y = got.data();
        table.binary_u8(args);
        EXPECT_TRUE(same_bits(got.data(), want.data(), n));
      });
    }
}

TEST(Affine, EveryTargetGivesTheReferencesBitsInBothLayouts) {
  SeededRng rng;
  for (std::size_t channels : {1u, 3u, 16u, 35u})
    for (std::size_t inner : {1u, 7u, 50u}) {
      const std::size_t n = 2 * channels * inner;
      GuardedBuffer<float> x(n), m(channels), b(channels), want(n), got(n);
      GuardedBuffer<std::uint8_t> want_q(n), got_q(n);
      copy_to(x, awkward_values(rng, n));
      rng.fill_normal(m.span());
      rng.fill_normal(b.span());
      AffineArgs args{.outer = 2,
                      .channels = channels,
                      .inner = inner,
                      .x = x.data(),
                      .m = m.data(),
                      .b = b.data(),
                      .activation = Activation::clip,
                      .act_a = 0,
                      .act_b = INFINITY,
                      .y = want.data(),
                      .q = want_q.data(),
                      .q_scale = 0.05f,
                      .q_zero_point = 3};
      reference_table().affine(args);
      for_each_vector_target([&](const KernelTable& table) {
        args.y = got.data(), args.q = got_q.data();
        table.affine(args);
        EXPECT_TRUE(same_bits(got.data(), want.data(), n));
        EXPECT_TRUE(same_bits(got_q.data(), want_q.data(), n));
      });
    }
}

}  // namespace
}  // namespace fold8::kernels
