#include "runtime/kernels/gemm_u8s8.h"

#include <gtest/gtest.h>

#include "tests/kernels/int8_cases.h"

namespace fold8::kernels {
namespace {

using testing::GuardedBuffer;
using testing::SeededRng;

// One product with everything it reads and writes behind guard pages.
class Product {
 public:
  Product(SeededRng& rng, std::size_t m, std::size_t n, std::size_t k, const EpilogueKind& kind,
          bool w_zero_points = false)
      : m_(m),
        n_(n),
        k_(k),
        x_stride_(k + static_cast<std::size_t>(rng.integer(0, 2))),
        x_(m ? (m - 1) * x_stride_ + k : 0),
        w_(n * k),
        w_zero_points_(n),
        packed_(guarded_size(packed_s8_bytes(n, k))),
        scratch_(guarded_size(gemm_u8s8_scratch_bytes(k))),
        inputs_(rng, kind, m, n, m, 255.0 * 60 * std::sqrt(double(k) + 1)),
        x_zero_point_(random_zero_point(rng)) {
    fill_activations(rng, x_.span());
    fill_weights(rng, w_.span());
    rng.fill_integers(w_zero_points_.span(), -128, 127);
    pack_s8(w_.data(), k, n, k, packed_.data());
    has_w_zero_points_ = w_zero_points;
  }

  GemmU8S8Args args(void* y) {
    GemmU8S8Args a;
    a.m = m_, a.n = n_, a.k = k_;
    a.x = x_.data(), a.x_stride = x_stride_, a.x_zero_point = x_zero_point_;
    a.w = packed_.data();
    a.w_zero_points = has_w_zero_points_ ? w_zero_points_.data() : nullptr;
    a.epilogue = inputs_.with_output(y);
    a.scratch = scratch_.data();
    a.m_end = m_, a.panel_end = s8_panels(n_);
    return a;
  }

  std::vector<std::uint8_t> run(gemm_u8s8_fn* kernel) {
    GuardedBuffer<std::uint8_t> y(inputs_.y_bytes());
    kernel(args(y.data()));
    return {y.data(), y.data() + y.size()};
  }

  // An independent computation of one sum.
  std::int64_t sum(std::size_t m, std::size_t n) const {
    std::int64_t acc = 0;
    for (std::size_t k = 0; k < k_; ++k) {
      const std::int64_t w =
          w_.data()[n * k_ + k] - (has_w_zero_points_ ? w_zero_points_.data()[n] : 0);
      acc += (std::int64_t{x_.data()[m * x_stride_ + k]} - x_zero_point_) * w;
    }
    return acc;
  }
  std::span<std::uint8_t> x() { return x_.span(); }
  void fill(std::uint8_t x, std::int8_t w) {
    std::fill(x_.span().begin(), x_.span().end(), x);
    std::fill(w_.span().begin(), w_.span().end(), w);
    pack_s8(w_.data(), k_, n_, k_, packed_.data());
  }
  EpilogueInputs& inputs() { return inputs_; }

 private:
  std::size_t m_, n_, k_, x_stride_;
  GuardedBuffer<std::uint8_t> x_;
  GuardedBuffer<std::int8_t> w_;
  GuardedBuffer<std::int32_t> w_zero_points_;
  GuardedBuffer<std::int8_t> packed_;
  GuardedBuffer<std::uint8_t> scratch_;
  EpilogueInputs inputs_;
  std::int32_t x_zero_point_;
  bool has_w_zero_points_ = false;
};

TEST(PackS8, KeepsEveryWeightAndItsSums) {
  SeededRng rng;
  for (std::size_t n : {1, 15, 16, 17, 40})
    for (std::size_t k : {0, 1, 3, 4, 5, 70}) {
      std::vector<std::int8_t> w(n * (k + 2)), back(n * k);
      fill_weights(rng, w);
      GuardedBuffer<std::int8_t> packed(packed_s8_bytes(n, k));
      pack_s8(w.data(), k + 2, n, k, packed.data());
      unpack_s8(packed.data(), n, k, back.data());
      for (std::size_t o = 0; o < n; ++o) {
        std::int32_t sum = 0;
        for (std::size_t i = 0; i < k; ++i) {
          ASSERT_EQ(back[o * k + i], w[o * (k + 2) + i]);
          sum += w[o * (k + 2) + i];
        }
        EXPECT_EQ(packed_s8_sums(packed.data(), n, k)[o], sum);
      }
    }
}

TEST(GemmU8S8, ReferenceIsTheNaiveSum) {
  SeededRng rng;
  for (int i = 0; i < 200; ++i) {
    const std::size_t m = rng.integer(1, 5), n = rng.integer(1, 40), k = rng.integer(0, 70);
    Product p(rng, m, n, k, {}, rng.integer(0, 1));
    const auto y = p.run(reference::gemm_u8s8);
    const std::size_t stride = p.inputs().with_output(nullptr).y_stride;
    for (std::size_t r = 0; r < m; ++r)
      for (std::size_t o = 0; o < n; ++o) {
        std::int32_t got;
        std::memcpy(&got, y.data() + (r * stride + o) * 4, 4);
        ASSERT_EQ(got, p.sum(r, o)) << m << "x" << n << "x" << k;
      }
  }
}

class GemmU8S8Target : public ::testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (!GetParam().cpu_can_run()) GTEST_SKIP() << "this CPU cannot run " << GetParam().name;
  }
  void expect_reference(Product& p) {
    ASSERT_EQ(p.run(GetParam().kernels->gemm_u8s8), p.run(reference::gemm_u8s8));
  }
};

TEST_P(GemmU8S8Target, AwkwardShapesAreExact) {
  SeededRng rng;
  for (std::size_t m : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 17, 18, 25, 49, 97, 130})
    for (std::size_t n : {1, 15, 16, 17, 31, 32, 33, 48, 64, 65, 80, 100})
      for (std::size_t k : {1, 2, 3, 4, 7, 16, 33, 130}) {
        SCOPED_TRACE(::testing::Message() << m << "x" << n << "x" << k);
        Product p(rng, m, n, k, {}, (m + n + k) % 5 == 0);
        expect_reference(p);
      }
}

// Where pairs of products are added in 16 bits, these saturate.
TEST_P(GemmU8S8Target, TheLargestProductsAreExact) {
  SeededRng rng;
  for (std::size_t m : {1, 3, 8, 40})
    for (std::size_t k : {2, 4, 31, 256})
      for (std::int8_t w : {127, -128, -127}) {
        SCOPED_TRACE(::testing::Message() << m << "x" << k << " times " << int(w));
        Product p(rng, m, 20, k, {});
        p.fill(255, w);
        expect_reference(p);
      }
}

TEST_P(GemmU8S8Target, EveryEpilogueHasTheReferencesBits) {
  SeededRng rng;
  for (int i = 0; i < 800; ++i) {
    const EpilogueKind kind = random_kind(rng);
    const std::size_t m = rng.integer(1, 30), n = rng.integer(1, 90), k = rng.integer(0, 200);
    SCOPED_TRACE(::testing::Message() << m << "x" << n << "x" << k << " " << kind);
    Product p(rng, m, n, k, kind, rng.integer(0, 7) == 0);
    expect_reference(p);
  }
}

TEST_P(GemmU8S8Target, AnySplitGivesTheSameBytes) {
  SeededRng rng;
  for (int i = 0; i < 50; ++i) {
    EpilogueKind kind = random_kind(rng);
    const std::size_t m = rng.integer(1, 60), n = rng.integer(1, 150), k = rng.integer(1, 100);
    Product p(rng, m, n, k, kind);
    const auto whole = p.run(GetParam().kernels->gemm_u8s8);
    GuardedBuffer<std::uint8_t> y(whole.size());
    GemmU8S8Args a = p.args(y.data());
    const std::size_t row = rng.integer(0, m), panel = rng.integer(0, s8_panels(n));
    for (int part = 0; part < 4; ++part) {
      a.m_begin = part & 1 ? row : 0, a.m_end = part & 1 ? m : row;
      a.panel_begin = part & 2 ? panel : 0, a.panel_end = part & 2 ? s8_panels(n) : panel;
      GetParam().kernels->gemm_u8s8(a);
    }
    ASSERT_EQ((std::vector<std::uint8_t>{y.data(), y.data() + y.size()}), whole);
  }
}

TEST_P(GemmU8S8Target, SumsBeyondInt32AreExact) {
  SeededRng rng;
  for (std::size_t k : {33026, 65793, 65794, 100003})
    for (bool w_zero_points : {false, true})
      for (OutputKind output : {OutputKind::f32, OutputKind::s32}) {
        SCOPED_TRACE(::testing::Message() << k << " " << w_zero_points);
        EpilogueKind kind;
        kind.output = output;
        Product p(rng, 3, 17, k, kind, w_zero_points);
        std::fill(p.x().begin(), p.x().end(), std::uint8_t{255});  // the largest sums there are
        expect_reference(p);
      }
}

// Values next to where the code of their quotient changes, for divisors of all sizes.
TEST_P(GemmU8S8Target, QuotientsRoundLikeADivision) {
  SeededRng rng;
  EpilogueKind kind;
  kind.output = OutputKind::u8;
  kind.divisor = true;
  for (int i = 0; i < 400; ++i) {
    const float d = std::ldexp(rng.uniform(1, 2), static_cast<int>(rng.integer(-126, 126)));
    const std::size_t n = 512;
    Product p(rng, 1, n, 4, kind);
    std::fill(p.inputs().multiplier().begin(), p.inputs().multiplier().end(), 0.0f);
    fill_next_to_halves(rng, d, p.inputs().offset());
    p.inputs().set_divisor(d);
    SCOPED_TRACE(::testing::Message() << d);
    expect_reference(p);
  }
}

// The same behind a gate that is open, or half open.
TEST_P(GemmU8S8Target, QuotientsOfHardSwishRoundLikeADivision) {
  SeededRng rng;
  EpilogueKind kind;
  kind.output = OutputKind::u8;
  kind.activation = Activation::hard_swish;
  kind.divisor = true;
  for (int i = 0; i < 100; ++i) {
    const float d = std::ldexp(rng.uniform(1, 2), static_cast<int>(rng.integer(-9, 5)));
    Product p(rng, 9, 70, 4, kind);
    std::fill(p.inputs().multiplier().begin(), p.inputs().multiplier().end(), 0.0f);
    if (i % 2 == 0)
      fill_gated_next_to_halves(rng, d, p.inputs().offset());
    else
      fill_next_to_halves(rng, d, p.inputs().offset());
    p.inputs().set_divisor(d);
    SCOPED_TRACE(::testing::Message() << d);
    expect_reference(p);
  }
}

TEST_P(GemmU8S8Target, NotANumberBecomesTheZeroPoint) {
  SeededRng rng;
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EpilogueKind kind;
    kind.output = OutputKind::u8;
    Product p(rng, 9, 40, 30, kind);
    p.inputs().multiplier()[17] = bad;
    expect_reference(p);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, GemmU8S8Target,
                         ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace fold8::kernels
