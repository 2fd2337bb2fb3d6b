// Register-only loops. Vector extensions and one instruction of assembly each: headers of
// intrinsics belong to the kernels.
#include <algorithm>
#include <chrono>

#include "tools/cli/bench.h"

namespace fold8::cli {
namespace {

constexpr int kTurns = 20000;

using V512 = int __attribute__((vector_size(64)));
using V256 = int __attribute__((vector_size(32)));

// `Sums` independent chains, as the tiles of the kernels have; kTurns links each.
#define FOLD8_CHAINS(V, SUMS, INSTRUCTIONS)                                 \
  V sums[SUMS] = {};                                                        \
  V x = {};                                                                 \
  for (int i = 0; i < kTurns; ++i) {                                        \
    _Pragma("GCC unroll 24") for (int j = 0; j < (SUMS); ++j) asm volatile( \
        INSTRUCTIONS : "+v"(sums[j]) : "v"(x) : "xmm15");                   \
  }                                                                         \
  _Pragma("GCC unroll 24") for (int j = 0; j < (SUMS); ++j) asm volatile("" : : "v"(sums[j]))

__attribute__((target("avx512f"))) void int8_avx512_vnni() {
  FOLD8_CHAINS(V512, 24, "vpdpbusd %1, %1, %0");
}
__attribute__((target("avx2"))) void int8_avx_vnni() {
  FOLD8_CHAINS(V256, 12, "%{vex%} vpdpbusd %1, %1, %0");
}
__attribute__((target("avx512f"))) void int8_avx512() {
  FOLD8_CHAINS(V512, 12, "vpmaddwd %1, %1, %%zmm15\n\tvpaddd %%zmm15, %0, %0");
}
__attribute__((target("avx2"))) void int8_avx2() {
  FOLD8_CHAINS(V256, 12, "vpmaddwd %1, %1, %%ymm15\n\tvpaddd %%ymm15, %0, %0");
}
__attribute__((target("avx512f"))) void f32_avx512() {
  FOLD8_CHAINS(V512, 24, "vfmadd231ps %1, %1, %0");
}
__attribute__((target("avx2"))) void f32_avx2() {
  FOLD8_CHAINS(V256, 12, "vfmadd231ps %1, %1, %0");
}
#undef FOLD8_CHAINS

struct Loop {
  void (*run)();
  double macs_a_turn;
};

double best_rate(const Loop& loop) {
  double best = 0;
  for (int i = 0; i < 200; ++i) {
    const auto start = std::chrono::steady_clock::now();
    loop.run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::max(best, loop.macs_a_turn * kTurns / took.count());
  }
  return best;
}

Loop int8_loop(std::string_view target) {
  if (target == "avx512_vnni") return {int8_avx512_vnni, 24 * 64};
  if (target == "avx_vnni") return {int8_avx_vnni, 12 * 32};
  if (target == "avx512") return {int8_avx512, 12 * 32};
  return {int8_avx2, 12 * 16};
}

}  // namespace

// The reference target is measured against what AVX2 could do.
Peaks measure_peaks(std::string_view target) {
  const Loop f32 =
      target.starts_with("avx512") ? Loop{f32_avx512, 24 * 16} : Loop{f32_avx2, 12 * 8};
  return {best_rate(int8_loop(target)), best_rate(f32)};
}

}  // namespace fold8::cli
