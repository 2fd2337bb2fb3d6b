#include "runtime/core/parallel.h"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <atomic>
#include <vector>

namespace fold8 {
namespace {

TEST(ThreadPool, CoversEveryIndexOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (std::size_t n : {0u, 1u, 2u, 7u, 64u, 1001u}) {
      std::vector<std::atomic<int>> hits(n);
      pool.parallel_for(n, 1, [&](std::size_t b, std::size_t e, std::size_t part) {
        EXPECT_LT(part, static_cast<std::size_t>(threads));
        for (std::size_t i = b; i < e; ++i) ++hits[i];
      });
      for (auto& h : hits) EXPECT_EQ(h, 1);
    }
  }
}

TEST(ThreadPool, SmallWorkStaysOnTheCaller) {
  ThreadPool pool(4);
  std::atomic<int> parts{0};
  pool.parallel_for(100, 1000, [&](std::size_t, std::size_t, std::size_t) { ++parts; });
  EXPECT_EQ(parts, 1);
}

TEST(DefaultFloatMode, OverridesFlushToZeroAndRestoresIt) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // as a host with a -ffast-math library leaves it
  {
    DefaultFloatMode mode;
    volatile float tiny = 1e-40f;
    EXPECT_GT(tiny * 1.0f, 0.0f);
  }
  EXPECT_EQ(_mm_getcsr() & 0x8040, 0x8040u);
  _mm_setcsr(before);
}

TEST(ThreadPool, WorkersHaveTheDefaultFloatMode) {
  ThreadPool pool(3);
  std::atomic<int> wrong{0};
  pool.parallel_for(3, 1, [&](std::size_t, std::size_t, std::size_t part) {
    if (part > 0 && (_mm_getcsr() & 0x8040) != 0) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(UsableCpus, IsAtLeastOne) { EXPECT_GE(usable_cpus(), 1); }

}  // namespace
}  // namespace fold8
