#include "runtime/core/parallel.h"

#include <gtest/gtest.h>
#include <time.h>
#include <xmmintrin.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
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

// Jobs of one to four parts in quick succession, inside a run (workers look out for work) and
// outside.
TEST(ThreadPool, JobsOfChangingSizesFollowEachOther) {
  ThreadPool pool(4);
  for (const bool in_run : {true, false}) {
    const auto run = in_run ? std::make_unique<DefaultFloatMode>() : nullptr;
    for (std::size_t i = 0; i < 600; ++i) {
      std::vector<int> hits(i % 23);  // parts write apart from each other
      pool.parallel_for(hits.size(), i % 5, [&](std::size_t b, std::size_t e, std::size_t) {
        for (std::size_t k = b; k < e; ++k) ++hits[k];
      });
      EXPECT_EQ(hits, std::vector<int>(hits.size(), 1));
    }
  }
}

TEST(ThreadPool, PoolsTakeTurnsInOneRun) {
  ThreadPool a(2), b(3);
  const DefaultFloatMode run;
  std::atomic<int> parts{0};
  for (int i = 0; i < 200; ++i)
    (i % 2 == 0 ? a : b).parallel_for(2, 1, [&](std::size_t, std::size_t, std::size_t) {
      ++parts;
    });
  EXPECT_EQ(parts, 400);
}

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

TEST(ThreadPool, SleepsBetweenRuns) {
  ThreadPool pool(8);
  {
    const DefaultFloatMode run;
    pool.parallel_for(8, 1, [](std::size_t, std::size_t, std::size_t) {});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(cpu_seconds() - before, 0.05);  // seven workers that spin would take 0.2 or more
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
