// Accuracy of fold8's own functions against the C library, special values, and equal bits on every
// target.
#include "runtime/kernels/math_ref.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/elementwise_support.h"

namespace fold8::kernels {
namespace {

using namespace testing;

double ulps(float got, double want) {
  const float w = static_cast<float>(want);
  if (std::isnan(w)) return std::isnan(got) ? 0 : 1e9;
  if (std::isinf(w) || std::isinf(got)) return w == got ? 0 : 1e9;
  int e;
  std::frexp(w, &e);
  return std::fabs(got - want) / std::ldexp(1.0, std::max(e - 24, -149));
}

// Every 1021st bit pattern: 4.2 million inputs of each sign and size.
template <class F, class G>
void expect_accuracy(const char* name, F f, G g, double limit) {
  double worst = 0;
  float at = 0;
  for (std::uint64_t i = 0; i < (1ull << 32); i += 1021) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(i));
    const double u = ulps(f(x), g(static_cast<double>(x)));
    if (u > worst) worst = u, at = x;
  }
  EXPECT_LE(worst, limit) << name << " at " << at;
}

TEST(Math, FloatFunctionsAreWithinTheirStatedErrors) {
  expect_accuracy(
      "exp", exp_f32, [](double x) { return std::exp(x); }, 1.1);
  expect_accuracy(
      "log", log_f32, [](double x) { return std::log(x); }, 1.0);
  expect_accuracy(
      "erf", erf_f32, [](double x) { return std::erf(x); }, 6);
  expect_accuracy(
      "tanh", tanh_f32, [](double x) { return std::tanh(x); }, 6);
  expect_accuracy(
      "softplus", softplus_f32,
      [](double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }, 3);
  expect_accuracy(
      "sigmoid", [](float x) { return x < -88.7f ? 0.0f : sigmoid_f32(x); },
      [](double x) { return x < -88.7f ? 0.0 : 1 / (1 + std::exp(-x)); }, 3);
}

TEST(Math, SpecialValues) {
  const float inf = INFINITY;
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-inf), 0.0f);
  EXPECT_EQ(exp_f32(inf), inf);
  EXPECT_EQ(exp_f32(88.73f), inf);
  EXPECT_EQ(exp_f32(-103.9f), 1e-45f);
  EXPECT_EQ(log_f32(1.0f), 0.0f);
  EXPECT_EQ(log_f32(0.0f), -inf);
  EXPECT_EQ(log_f32(-0.0f), -inf);
  EXPECT_EQ(log_f32(inf), inf);
  EXPECT_TRUE(std::isnan(log_f32(-1.0f)));
  for (float x : {4.0f, 10.0f, 1e30f, inf}) {
    EXPECT_EQ(erf_f32(x), 1.0f);
    EXPECT_EQ(erf_f32(-x), -1.0f);
    EXPECT_EQ(tanh_f32(4 * x), 1.0f);
    EXPECT_EQ(tanh_f32(-4 * x), -1.0f);
  }
  EXPECT_TRUE(std::signbit(erf_f32(-0.0f)) && std::signbit(tanh_f32(-0.0f)));
  EXPECT_EQ(sigmoid_f32(-inf), 0.0f);
  EXPECT_EQ(sigmoid_f32(inf), 1.0f);
  EXPECT_FALSE(std::signbit(max_f32(-0.0f, 0.0f)) || std::signbit(max_f32(0.0f, -0.0f)));
  EXPECT_TRUE(std::signbit(min_f32(-0.0f, 0.0f)) && std::signbit(min_f32(0.0f, -0.0f)));
  EXPECT_TRUE(std::isnan(max_f32(NAN, 1.0f)) && std::isnan(max_f32(1.0f, NAN)));
  EXPECT_TRUE(std::isnan(min_f32(NAN, 1.0f)) && std::isnan(min_f32(1.0f, NAN)));
}

// In steps of one `stride` over all bit patterns, equal bits on two targets.
void expect_same_over_all_floats(const KernelTable& a, const KernelTable& b, UnaryKind kind,
                                 std::uint64_t stride) {
  constexpr std::size_t kBlock = 4096;
  std::vector<float> x(kBlock), ya(kBlock), yb(kBlock);
  for (std::uint64_t first = 0; first < (1ull << 32); first += kBlock * stride) {
    for (std::size_t i = 0; i < kBlock; ++i)
      x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first + i * stride));
    UnaryArgs args{.kind = kind, .n = kBlock, .x = x.data(), .y = ya.data(), .a = 1.0f, .b = 0.5f};
    a.unary(args);
    args.y = yb.data();
    b.unary(args);
    for (std::size_t i = 0; i < kBlock; ++i)
      if (!same_bits(ya[i], yb[i]))
        FAIL() << "kind " << int(kind) << " at " << x[i] << ": " << ya[i] << " and " << yb[i];
  }
}

constexpr UnaryKind kCore[] = {UnaryKind::exp, UnaryKind::erf, UnaryKind::tanh};

TEST(Math, EveryTargetGivesTheReferencesBits) {
  for_each_vector_target([](const KernelTable& table) {
    for (UnaryKind kind : kCore) expect_same_over_all_floats(table, reference_table(), kind, 1021);
    for (int k = 0; k <= static_cast<int>(UnaryKind::affine); ++k)
      expect_same_over_all_floats(table, reference_table(), static_cast<UnaryKind>(k), 16411);
  });
}

TEST(Math, VectorTargetsAgree) {
  const KernelTable* first = nullptr;
  for_each_vector_target([&](const KernelTable& table) {
    if (first == nullptr)
      first = &table;
    else
      for (UnaryKind kind : kCore) expect_same_over_all_floats(*first, table, kind, 1u << 6);
  });
}

double ulps64(double got, long double want) {
  const double w = static_cast<double>(want);
  if (std::isnan(w)) return std::isnan(got) ? 0 : 1e9;
  if (std::isinf(w) || std::isinf(got)) return w == got ? 0 : 1e9;
  int e;
  std::frexp(w, &e);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) /
                             std::ldexp(1.0L, std::max(e - 53, -1074)));
}

struct DoubleCase {
  const char* name;
  double (*f)(double);
  long double (*g)(long double);
  double lo, hi, limit;
};

TEST(Math, DoubleFunctionsAreWithinTheirStatedErrors) {
  const DoubleCase cases[] = {
      {"exp", exp_f64, expl, -745, 710, 1},  {"exp", exp_f64, expl, -1, 1, 1},
      {"log", log_f64, logl, 0, 10, 0.6},    {"log1p", log1p_f64, log1pl, -1, 3, 2.5},
      {"log2", log2_f64, log2l, 0, 10, 0.6}, {"log10", log10_f64, log10l, 0, 10, 0.6},
      {"sin", sin_f64, sinl, -10, 10, 1},    {"sin", sin_f64, sinl, -1e6, 1e6, 1},
      {"cos", cos_f64, cosl, -10, 10, 1},    {"cos", cos_f64, cosl, -1e6, 1e6, 1},
      {"tan", tan_f64, tanl, -10, 10, 2.5},  {"asin", asin_f64, asinl, -1, 1, 4},
      {"acos", acos_f64, acosl, -1, 1, 4},   {"atan", atan_f64, atanl, -5, 5, 1.5},
      {"sinh", sinh_f64, sinhl, -3, 3, 2.5}, {"cosh", cosh_f64, coshl, -3, 3, 2.5},
      {"tanh", tanh_f64, tanhl, -3, 3, 2.5}, {"asinh", asinh_f64, asinhl, -3, 3, 3},
      {"acosh", acosh_f64, acoshl, 1, 5, 4}, {"atanh", atanh_f64, atanhl, -1, 1, 3},
      {"erf", erf_f64, erfl, -6, 6, 8.5}};
  SeededRng rng;
  for (const DoubleCase& c : cases)
    for (int i = 0; i < 20000; ++i) {
      const double x =
          c.lo + (c.hi - c.lo) * (static_cast<double>(rng.integer(0, 1ll << 53)) * 0x1p-53);
      ASSERT_LE(ulps64(c.f(x), c.g(static_cast<long double>(x))), c.limit) << c.name << " at " << x;
    }
}

TEST(Math, TrigonometryOfHugeArguments) {
  SeededRng rng;
  for (int i = 0; i < 20000; ++i) {
    const double x = std::bit_cast<double>(
        static_cast<std::uint64_t>(rng.integer(0x3ff0000000000000, 0x7fefffffffffffff)));
    ASSERT_LE(ulps64(sin_f64(x), sinl(x)), 1) << x;
    ASSERT_LE(ulps64(cos_f64(-x), cosl(x)), 1) << x;
  }
  EXPECT_EQ(sin_f32(0x1p100f), static_cast<float>(sinl(0x1p100L)));
}

TEST(Math, PowerHasTheSpecialValuesOfAnnexF) {
  const double values[] = {0.0, -0.0, 1,        -1,        2,   -2,    3,      -3,
                           0.5, -0.5, INFINITY, -INFINITY, NAN, 1e300, -1e300, 5e-324};
  for (double x : values)
    for (double y : values) {
      const double got = pow_f64(x, y), want = std::pow(x, y);
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got)) << x << " ^ " << y;
      else
        EXPECT_TRUE(ulps64(got, want) <= 1 && std::signbit(got) == std::signbit(want))
            << x << " ^ " << y << " = " << got;
    }
  SeededRng rng;
  for (int i = 0; i < 20000; ++i) {
    const float x = std::exp(rng.uniform(-20, 20)), y = rng.uniform(-4, 4);
    ASSERT_LE(ulps(pow_f32(x, y), std::pow(static_cast<double>(x), y)), 0.5001) << x << " ^ " << y;
  }
}

}  // namespace
}  // namespace fold8::kernels
