#include "runtime/kernels/matmul_f32.h"

#include <vector>

#include "runtime/core/aligned.h"
#include "tests/kernels/f32_test_support.h"

namespace fold8::kernels {
namespace {

using testing::GuardedBuffer;
using testing::SeededRng;

class MatmulF32 : public TargetTest {
 protected:
  void compare(SeededRng& rng, std::size_t m, std::size_t n, std::size_t k, bool a_transposed,
               bool b_transposed) {
    SCOPED_TRACE(::testing::Message()
                 << m << "x" << n << "x" << k << " " << a_transposed << b_transposed);
    GuardedBuffer<float> a(m * k), b(n * k), want(m * n), got(m * n);
    fill_wild(rng, a.span());
    fill_wild(rng, b.span());
    MatmulF32Args args;
    args.m = args.row_end = m;
    args.n = n;
    args.k = k;
    args.a = a.data();
    args.a_row_stride = a_transposed ? 1 : k;
    args.a_col_stride = a_transposed ? m : 1;
    args.b = b.data();
    args.b_row_stride = b_transposed ? 1 : n;
    args.b_col_stride = b_transposed ? k : 1;
    args.alpha = 0.125f * 1.1f;
    const AlignedBytes scratch = allocate_aligned(matmul_f32_scratch_bytes(args));
    args.scratch = scratch.get();
    args.epilogue.y_stride = n;
    args.epilogue.y = want.data();
    reference::matmul_f32(args);
    args.epilogue.y = got.data();
    args.row_end = m / 2;  // in two parts
    kernels().matmul_f32(args);
    args.row_begin = m / 2;
    args.row_end = m;
    kernels().matmul_f32(args);
    ASSERT_TRUE(same_bits(got.span(), want.span()));
  }
};

TEST_P(MatmulF32, GivesTheBitsOfTheReferenceForAnyStrides) {
  SeededRng rng;
  for (std::size_t m : {1, 2, 5, 13, 100})
    for (std::size_t n : {1, 16, 23, 64, 135})
      for (std::size_t k : {1, 8, 21, 64})
        for (int t = 0; t < 4; ++t) compare(rng, m, n, k, t & 1, t & 2);
  compare(rng, 9, 70, 530, false, true);
}

TEST_P(MatmulF32, AStrideOfZeroBroadcasts) {
  const float a[3] = {1, 2, 3}, b = 2;
  float y[32];
  alignas(64) float scratch[8 * 16 * 3];
  MatmulF32Args args;
  args.m = args.row_end = 2;
  args.n = 16;
  args.k = 3;
  args.a = a;
  args.a_row_stride = 0;
  args.b = &b;
  args.b_row_stride = args.b_col_stride = 0;
  args.scratch = scratch;
  ASSERT_LE(matmul_f32_scratch_bytes(args), sizeof(scratch));
  args.epilogue.y = y;
  args.epilogue.y_stride = 16;
  kernels().matmul_f32(args);
  for (float v : y) EXPECT_EQ(v, 12);
}

FOLD8_FOR_ALL_TARGETS(MatmulF32);

}  // namespace
}  // namespace fold8::kernels
