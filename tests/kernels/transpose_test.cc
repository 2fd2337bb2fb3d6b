#include "runtime/kernels/transpose.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/kernels/f32_test_support.h"

namespace fold8::kernels {
namespace {

using testing::GuardedBuffer;
using testing::SeededRng;

// ONNX Transpose by its definition, from the unsimplified extents.
std::vector<std::uint8_t> expected(std::span<const std::uint8_t> x,
                                   std::span<const std::int64_t> extents, std::span<const int> perm,
                                   std::size_t size) {
  const std::size_t rank = extents.size();
  std::vector<std::size_t> stride(rank, 1);
  for (std::size_t i = rank; i-- > 1;)
    stride[i - 1] = stride[i] * static_cast<std::size_t>(extents[i]);
  std::vector<std::uint8_t> y;
  std::vector<std::int64_t> at(rank, 0);
  for (std::size_t n = 0; n < x.size() / size; ++n) {
    std::size_t from = 0;
    for (std::size_t i = 0; i < rank; ++i)
      from += static_cast<std::size_t>(at[i]) * stride[static_cast<std::size_t>(perm[i])];
    y.insert(y.end(), x.begin() + static_cast<std::ptrdiff_t>(from * size),
             x.begin() + static_cast<std::ptrdiff_t>((from + 1) * size));
    for (std::size_t i = rank; i-- > 0;) {
      if (++at[i] < extents[static_cast<std::size_t>(perm[i])]) break;
      at[i] = 0;
    }
  }
  return y;
}

class TransposeTest : public TargetTest {
 protected:
  void check(SeededRng& rng, const std::vector<std::int64_t>& extents, const std::vector<int>& perm,
             std::size_t size) {
    const std::size_t elements = static_cast<std::size_t>(
        std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>()));
    GuardedBuffer<std::uint8_t> x(elements * size), y(elements * size);
    rng.fill_integers(x.span(), 0, 255);
    TransposeArgs args{make_transpose_plan(extents, perm, size), x.data(), y.data(), 0, 0};
    const std::size_t whole = args.plan.extent[0];
    for (std::size_t part : {whole / 3, whole}) {
      args.end = part;
      kernels().transpose(args);
      args.begin = part;
    }
    ASSERT_TRUE(std::ranges::equal(y.span(), expected(x.span(), extents, perm, size)))
        << ::testing::PrintToString(extents) << ::testing::PrintToString(perm) << " size " << size;
  }
};

TEST_P(TransposeTest, EveryPermutationOfFourAxesAndEverySize) {
  SeededRng rng;
  std::vector<int> perm = {0, 1, 2, 3};
  do {
    for (std::size_t size : {1, 2, 4, 8}) {
      check(rng, {2, 3, 5, 4}, perm, size);
      check(rng, {1, 17, 2, 19}, perm, size);
    }
  } while (std::ranges::next_permutation(perm).found);
}

TEST_P(TransposeTest, MatricesOfAwkwardSizes) {
  SeededRng rng;
  for (std::size_t size : {1, 2, 4, 8})
    for (std::int64_t rows : {1, 3, 7, 8, 9, 16, 33, 65})
      for (std::int64_t cols : {1, 3, 8, 15, 16, 31, 64, 70})
        check(rng, {rows, cols}, {1, 0}, size);
}

TEST_P(TransposeTest, FewChannelsBothWays) {
  SeededRng rng;
  for (std::size_t size : {1, 2, 4})
    for (std::int64_t channels = 2; channels <= 18; ++channels)
      for (std::int64_t pixels : {1, 4, 5, 15, 16, 17, 31, 70}) {
        check(rng, {2, channels, pixels}, {0, 2, 1}, size);
        check(rng, {2, pixels, channels}, {0, 2, 1}, size);
        check(rng, {channels, pixels}, {1, 0}, size);
        check(rng, {pixels, channels}, {1, 0}, size);
      }
}

TEST_P(TransposeTest, RandomRanks) {
  SeededRng rng;
  for (int i = 0; i < 100; ++i) {
    const int rank = static_cast<int>(rng.integer(0, kMaxTransposeRank));
    std::vector<std::int64_t> extents;
    std::vector<int> perm;
    for (int a = 0; a < rank; ++a) {
      extents.push_back(rng.integer(rank > 5 || rng.integer(0, 30) > 0 ? 1 : 0, rank > 5 ? 3 : 6));
      perm.insert(perm.begin() + rng.integer(0, a), a);
    }
    check(rng, extents, perm, std::size_t{1} << rng.integer(0, 3));
  }
}

TEST(TransposePlanTest, DropsMergesAndWidens) {
  const std::int64_t extents[] = {1, 3, 5, 7, 4};
  const int perm[] = {0, 2, 3, 1, 4};  // NCHW4 to NHWC4
  const TransposePlan plan = make_transpose_plan(extents, perm, 2);
  EXPECT_EQ(plan.rank, 2);
  EXPECT_EQ(plan.extent[0], 35u);
  EXPECT_EQ(plan.extent[1], 3u);
  EXPECT_EQ(plan.element_size, 8u);
  EXPECT_EQ(plan.stride[0], 1u);
  EXPECT_EQ(plan.stride[1], 35u);
}

TEST(TransposePlanTest, ChannelsLastAndBack) {
  std::vector<float> x(2 * 3 * 5), y(x.size()), z(x.size());
  std::iota(x.begin(), x.end(), 0.0f);
  const TransposePlan there = to_channels_last(2, 3, 5, 4), back = to_channels_first(2, 3, 5, 4);
  reference::transpose({there, x.data(), y.data(), 0, there.extent[0]});
  EXPECT_EQ(y[1], 5);
  reference::transpose({back, y.data(), z.data(), 0, back.extent[0]});
  EXPECT_EQ(x, z);
}

FOLD8_FOR_ALL_TARGETS(TransposeTest);

}  // namespace
}  // namespace fold8::kernels
