#include "runtime/kernels/gemm_f32s8.h"

#include <vector>

#include "runtime/core/aligned.h"
#include "runtime/kernels/pack_s8.h"
#include "tests/kernels/f32_test_support.h"

namespace fold8::kernels {
namespace {

using testing::GuardedBuffer;
using testing::SeededRng;

struct Problem {
  Problem(SeededRng& rng, std::size_t m, std::size_t n, std::size_t k, std::size_t group)
      : x(m * k), offset(n), residual(m * n), y(m * n), scale((k + group - 1) / group * n) {
    rng.fill_normal(x.span());
    rng.fill_normal(offset.span());
    rng.fill_normal(residual.span());
    for (float& s : scale.span()) s = rng.uniform(0.001f, 0.02f);
    std::vector<std::int8_t> w(n * k);
    rng.fill_integers(std::span(w), -128, 127);
    std::size_t bytes = 0;
    for (std::size_t first = 0; first < k; first += group)
      bytes += packed_s8_bytes(n, std::min(group, k - first));
    packed = allocate_aligned(bytes);
    auto* at = reinterpret_cast<std::int8_t*>(packed.get());
    for (std::size_t first = 0; first < k; first += group) {
      const std::size_t depth = std::min(group, k - first);
      pack_s8(w.data() + first, k, n, depth, at);
      at += packed_s8_bytes(n, depth);
    }
    scratch = allocate_aligned(gemm_f32s8_scratch_bytes());
    args.m = args.row_end = m;
    args.n = n;
    args.k = args.x_stride = k;
    args.group = group;
    args.x = x.data();
    args.w = reinterpret_cast<const std::int8_t*>(packed.get());
    args.scale = scale.data();
    args.epilogue.offset = offset.data();
    args.epilogue.y = y.data();
    args.epilogue.y_stride = n;
    args.panel_end = s8_panels(n);
    args.scratch = scratch.get();
  }
  std::vector<float> run(gemm_f32s8_fn* kernel) {
    for (float& v : y.span()) v = -77;
    kernel(args);
    return {y.data(), y.data() + y.size()};
  }

  GuardedBuffer<float> x, offset, residual, y, scale;
  AlignedBytes packed, scratch;
  GemmF32S8Args args;
};

class GemmF32S8 : public TargetTest {};

TEST_P(GemmF32S8, GivesTheBitsOfTheReference) {
  SeededRng rng;
  for (std::size_t m : {1, 2, 5, 7, 49, 193})
    for (std::size_t n : {1, 15, 16, 17, 33, 64, 65, 130})
      for (std::size_t k : {1, 3, 4, 33, 260})
        for (std::size_t group : {k, std::size_t{32}}) {
          SCOPED_TRACE(::testing::Message() << m << "x" << n << "x" << k << " by " << group);
          Problem p(rng, m, n, k, group);
          if (n % 2 == 1) {
            p.args.epilogue.activation = Activation::silu;
            p.args.epilogue.a = 1;
            p.args.epilogue.residual_kind = ResidualKind::f32;
            p.args.epilogue.residual = p.residual.data();
            p.args.epilogue.residual_stride = n;
          }
          const auto want = p.run(reference::gemm_f32s8), got = p.run(kernels().gemm_f32s8);
          ASSERT_TRUE(same_bits(want, got));
        }
}

TEST_P(GemmF32S8, PartsAreTheWhole) {
  SeededRng rng;
  Problem p(rng, 9, 90, 70, 32);
  const auto want = p.run(reference::gemm_f32s8);
  for (float& v : p.y.span()) v = -77;
  for (const auto& [rb, re] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, 4}, {4, 9}})
    for (const auto& [pb, pe] : {std::pair<std::size_t, std::size_t>{0, 5}, {5, 6}}) {
      GemmF32S8Args part = p.args;
      part.row_begin = rb;
      part.row_end = re;
      part.panel_begin = pb;
      part.panel_end = pe;
      kernels().gemm_f32s8(part);
    }
  EXPECT_TRUE(same_bits(want, {p.y.data(), p.y.data() + p.y.size()}));
}

FOLD8_FOR_ALL_TARGETS(GemmF32S8);

}  // namespace
}  // namespace fold8::kernels
