#include "runtime/kernels/gemm_f32.h"

#include <vector>

#include "runtime/core/aligned.h"
#include "tests/kernels/f32_test_support.h"

namespace fold8::kernels {
namespace {

using testing::GuardedBuffer;
using testing::SeededRng;

struct Gemm {
  Gemm(SeededRng& rng, std::size_t m, std::size_t n, std::size_t k, bool wild)
      : x(m * k),
        w_rows(n * k),
        packed(allocate_aligned(packed_f32_size(n, k) * 4)),
        offset(n),
        residual(m * n),
        y(m * n) {
    if (wild)
      fill_wild(rng, x.span());
    else
      rng.fill_normal(x.span());
    rng.fill_normal(w_rows);
    rng.fill_normal(offset.span());
    rng.fill_normal(residual.span());
    pack_f32(w_rows.data(), n, k, 1, reinterpret_cast<float*>(packed.get()));
    args.m = args.row_end = m;
    args.n = n;
    args.k = args.x_stride = k;
    args.panel_end = (n + 15) / 16;
    args.x = x.data();
    args.w = reinterpret_cast<const float*>(packed.get());
    args.epilogue.offset = offset.data();
    args.epilogue.y = y.data();
    args.epilogue.y_stride = n;
  }
  std::vector<float> run(gemm_f32_fn* kernel) {
    for (float& v : y.span()) v = -77;
    kernel(args);
    return {y.data(), y.data() + y.size()};
  }

  GuardedBuffer<float> x;
  std::vector<float> w_rows;
  AlignedBytes packed;
  GuardedBuffer<float> offset, residual, y;
  GemmF32Args args;
};

class GemmF32 : public TargetTest {};

TEST_P(GemmF32, GivesTheBitsOfTheReference) {
  SeededRng rng;
  for (std::size_t m : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 47, 48, 49, 97})
    for (std::size_t n : {1, 15, 16, 17, 33, 48, 63, 64, 65, 130})
      for (std::size_t k : {1, 7, 33}) {
        SCOPED_TRACE(::testing::Message() << m << "x" << n << "x" << k);
        Gemm g(rng, m, n, k, true);
        const auto want = g.run(reference::gemm_f32);
        ASSERT_TRUE(same_bits(g.run(kernels().gemm_f32), want));
      }
}

TEST_P(GemmF32, DepthStepsContinueTheSameChain) {
  SeededRng rng;
  for (std::size_t k : {0, 255, 256, 257, 511, 513, 1100}) {
    SCOPED_TRACE(k);
    Gemm g(rng, 7, 40, k, false);
    const auto want = g.run(reference::gemm_f32);
    ASSERT_TRUE(same_bits(g.run(kernels().gemm_f32), want));
  }
}

TEST_P(GemmF32, PartsMakeTheWholeAndTouchNothingElse) {
  SeededRng rng;
  Gemm g(rng, 61, 150, 20, true);
  const auto want = g.run(reference::gemm_f32);
  for (float& v : g.y.span()) v = -77;
  for (std::size_t row : {0, 1, 50})
    for (std::size_t panel : {0, 3, 9}) {
      g.args.row_begin = row;
      g.args.row_end = row == 0 ? 1 : row == 1 ? 50 : 61;
      g.args.panel_begin = panel;
      g.args.panel_end = panel == 0 ? 3 : panel == 3 ? 9 : 10;
      kernels().gemm_f32(g.args);
    }
  EXPECT_TRUE(same_bits(g.y.span(), want));

  for (float& v : g.y.span()) v = -77;
  g.args.row_begin = 10;
  g.args.row_end = 12;
  g.args.panel_begin = 2;
  g.args.panel_end = 3;
  kernels().gemm_f32(g.args);
  for (std::size_t i = 0; i < g.y.size(); ++i) {
    const std::size_t m = i / 150, n = i % 150;
    const bool inside = m >= 10 && m < 12 && n >= 32 && n < 48;
    ASSERT_EQ(g.y[i] == -77, !inside) << m << "," << n;
  }
}

TEST_P(GemmF32, AppliesEveryKindOfEpilogue) {
  SeededRng rng;
  for (int kind = 0; kind < 6; ++kind) {
    SCOPED_TRACE(kind);
    Gemm g(rng, 13, 70, 9, true);
    Epilogue& e = g.args.epilogue;
    if (kind == 0) e.offset = nullptr;
    if (kind == 1 || kind == 3) e.activation = Activation::clip, e.a = 0, e.b = 6;
    if (kind == 2 || kind == 3) {
      e.residual_kind = ResidualKind::f32;
      e.residual = g.residual.data();
      e.residual_stride = 70;
      e.residual_scale = 1.5f;
    }
    if (kind == 4) e.activation = Activation::gelu_erf;
    if (kind == 5) {
      e.output_kind = OutputKind::u8;
      e.y_zero_point = 100;
      e.y_divisor = 0.05f;
      const auto bytes = [&](gemm_f32_fn* kernel) {
        kernel(g.args);
        const auto* y = reinterpret_cast<const std::uint8_t*>(g.y.data());
        return std::vector<std::uint8_t>(y, y + 13 * 70);
      };
      EXPECT_EQ(bytes(kernels().gemm_f32), bytes(reference::gemm_f32));
      continue;
    }
    const auto want = g.run(reference::gemm_f32);
    EXPECT_TRUE(same_bits(g.run(kernels().gemm_f32), want));
  }
}

TEST_P(GemmF32, TheResidualMayBeTheOutput) {
  SeededRng rng;
  Gemm g(rng, 9, 33, 5, false);
  const auto product = g.run(reference::gemm_f32);
  g.args.epilogue.residual_kind = ResidualKind::f32;
  g.args.epilogue.residual = g.y.data();
  g.args.epilogue.residual_stride = 33;
  kernels().gemm_f32(g.args);
  for (std::size_t i = 0; i < product.size(); ++i)
    ASSERT_EQ(g.y[i], std::fma(product[i], 1.0f, product[i]));
}

// A chain of K roundings of at most half an ulp of a partial sum, which |x|.|w| bounds.
TEST(GemmF32Reference, StaysWithinTheErrorOfAChain) {
  SeededRng rng;
  Gemm g(rng, 5, 20, 300, false);
  const auto got = g.run(reference::gemm_f32);
  for (std::size_t m = 0; m < 5; ++m)
    for (std::size_t n = 0; n < 20; ++n) {
      double sum = 0, size = std::fabs(g.offset[n]);
      for (std::size_t k = 0; k < 300; ++k) {
        const double product = double(g.x[m * 300 + k]) * g.w_rows[n * 300 + k];
        sum += product;
        size += std::fabs(product);
      }
      EXPECT_NEAR(got[m * 20 + n], sum + g.offset[n],
                  size * 301 * std::numeric_limits<float>::epsilon() / 2);
    }
}

FOLD8_FOR_ALL_TARGETS(GemmF32);

}  // namespace
}  // namespace fold8::kernels
