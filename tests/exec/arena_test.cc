#include "runtime/exec/arena.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/random.h"

namespace fold8 {
namespace {

using exec::Lifetime;

TEST(Arena, DisjointLivesShareMemory) {
  const auto p = exec::pack({{100, 0, 1}, {100, 2, 3}, {100, 4, 5}});
  EXPECT_EQ(p.bytes, 128u);
}

TEST(Arena, TouchingLivesDoNot) {
  // Step 1 reads the first and writes the second.
  const auto p = exec::pack({{64, 0, 1}, {64, 1, 2}});
  EXPECT_EQ(p.bytes, 128u);
}

TEST(Arena, FillsGaps) {
  const auto p = exec::pack({{256, 0, 9}, {64, 0, 1}, {64, 2, 9}, {64, 2, 3}});
  EXPECT_EQ(p.bytes, 256u + 128u);
}

TEST(Arena, EmptyAndNothing) {
  EXPECT_EQ(exec::pack({}).bytes, 0u);
  EXPECT_EQ(exec::pack({{0, 0, 5}, {0, 0, 5}}).bytes, 0u);
}

TEST(Arena, RandomLivesNeverOverlap) {
  testing::SeededRng rng;
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> lives;
    const auto n = static_cast<std::size_t>(rng.integer(1, 60));
    for (std::size_t i = 0; i < n; ++i) {
      const int first = static_cast<int>(rng.integer(0, 30));
      lives.push_back({static_cast<std::size_t>(rng.integer(0, 1000)), first,
                       first + static_cast<int>(rng.integer(0, 10))});
    }
    const auto p = exec::pack(lives);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(p.offsets[i] % 64, 0u);
      EXPECT_LE(p.offsets[i] + lives[i].bytes, p.bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
        const bool apart = p.offsets[i] + lives[i].bytes <= p.offsets[j] ||
                           p.offsets[j] + lives[j].bytes <= p.offsets[i];
        EXPECT_TRUE(!together || apart) << i << " " << j;
      }
    }
    EXPECT_GE(p.bytes, exec::least_bytes(lives));
    EXPECT_EQ(exec::pack(lives).offsets, p.offsets);
  }
}

TEST(Arena, LowerBoundIsTheFullestStep) {
  EXPECT_EQ(exec::least_bytes({}), 0u);
  EXPECT_EQ(exec::least_bytes({{100, 0, 1}, {64, 1, 2}, {64, 2, INT32_MAX}}), 192u);
  EXPECT_EQ(exec::least_bytes({{1, 0, 9}, {64, 3, 3}, {64, 4, 4}}), 128u);
}

// A Transformer block after another: q, k and v, scores as scratch, a residual that outlives them.
// Large buffers first would put the residual on top of what is free below.
TEST(Arena, ResidualStreamsLeaveNoGap) {
  constexpr std::size_t x = 302592, wide = 4 * x, qkv = 3 * x, scores = 931416;
  std::vector<Lifetime> lives;
  for (int block = 0; block < 6; ++block) {
    const int s = 20 * block;
    for (const Lifetime& b : std::vector<Lifetime>{{x, 0, 17},
                                                   {qkv, 3, 5},
                                                   {qkv, 5, 6},
                                                   {x, 6, 10},
                                                   {x, 6, 10},
                                                   {x, 6, 12},
                                                   {scores, 10, 12},
                                                   {x, 12, 13},
                                                   {x, 13, 15},
                                                   {x, 16, 17},
                                                   {x, 17, 21},
                                                   {wide, 18, 19},
                                                   {x, 19, 20},
                                                   {x, 20, 21}})
      lives.push_back({b.bytes, s + b.first, s + b.last});
  }
  EXPECT_LE(static_cast<double>(exec::pack(lives).bytes),
            1.05 * static_cast<double>(exec::least_bytes(lives)));
}

TEST(Arena, GrowsOnly) {
  exec::Arena a;
  const std::byte* small = a.reserve(0);
  EXPECT_NE(small, nullptr);
  a.reserve(1000);
  const std::byte* big = a.data();
  EXPECT_EQ(a.reserve(10), big);
  EXPECT_EQ(a.bytes(), 1000u);
}

}  // namespace
}  // namespace fold8
