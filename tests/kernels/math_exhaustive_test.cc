// exp, erf and tanh over all 2^32 floats: equal bits on every vector target this CPU can run. Where
// it can run only one, that one is compared with the reference at every 256th input.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/kernels/elementwise_support.h"

namespace fold8::kernels {
namespace {

using namespace testing;

constexpr std::size_t kBlock = 4096;

struct Pair {
  const KernelTable* a;
  const KernelTable* b;
  UnaryKind kind;
  std::uint64_t stride;
};

// Inputs first, first + stride, ...: the number whose bits differ.
std::size_t differences(const Pair& p, std::uint64_t first, float* x, float* ya, float* yb) {
  std::uint32_t pattern[kBlock];
  for (std::size_t i = 0; i < kBlock; ++i)
    pattern[i] = static_cast<std::uint32_t>(first + i * p.stride);
  std::memcpy(x, pattern, sizeof pattern);
  p.a->unary({.kind = p.kind, .n = kBlock, .x = x, .y = ya});
  p.b->unary({.kind = p.kind, .n = kBlock, .x = x, .y = yb});
  if (std::memcmp(ya, yb, sizeof pattern) == 0) return 0;
  std::size_t n = 0;
  for (std::size_t i = 0; i < kBlock; ++i) n += !same_bits(ya[i], yb[i]);
  return n;
}

std::size_t differences_over_all(const Pair& p) {
  std::atomic<std::size_t> total{0};
  std::vector<std::thread> threads;
  const std::uint64_t workers = std::max(1u, std::thread::hardware_concurrency());
  for (std::uint64_t w = 0; w < workers; ++w)
    threads.emplace_back([&, w] {
      std::vector<float> x(kBlock), ya(kBlock), yb(kBlock);
      for (std::uint64_t at = w * kBlock * p.stride; at < (1ull << 32);
           at += workers * kBlock * p.stride)
        total += differences(p, at, x.data(), ya.data(), yb.data());
    });
  for (std::thread& t : threads) t.join();
  return total;
}

TEST(MathExhaustive, EveryFloatGivesTheSameBitsOnEveryVectorTarget) {
  std::vector<const KernelTable*> tables;
  for_each_vector_target([&](const KernelTable& table) { tables.push_back(&table); });
  ASSERT_FALSE(tables.empty());
  for (UnaryKind kind : {UnaryKind::exp, UnaryKind::erf, UnaryKind::tanh}) {
    for (std::size_t i = 1; i < tables.size(); ++i)
      EXPECT_EQ(differences_over_all({tables[0], tables[i], kind, 1}), 0u) << "kind " << int(kind);
    EXPECT_EQ(differences_over_all({tables[0], &reference_table(), kind, 256}), 0u)
        << "kind " << int(kind);
  }
}

}  // namespace
}  // namespace fold8::kernels
