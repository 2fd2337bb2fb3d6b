#include "bench/int8_peak.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>

namespace fold8::bench {

namespace {

constexpr int kTurns = 20000;

// 24 independent sums, as the largest tile has. The asm keeps the loop from being folded.
__attribute__((target("avx512f,avx512vnni"))) void vnni_turns() {
  __m512i acc[24];
  for (__m512i& a : acc) a = _mm512_setzero_si512();
  __m512i x = _mm512_set1_epi32(0x01010101);
  for (int i = 0; i < kTurns; ++i) {
    asm volatile("" : "+v"(x));
#pragma GCC unroll 24
    for (int j = 0; j < 24; ++j) acc[j] = _mm512_dpbusd_epi32(acc[j], x, x);
  }
#pragma GCC unroll 24
  for (int j = 0; j < 24; ++j) asm volatile("" : : "v"(acc[j]));
}

__attribute__((target("avx2"))) void avx2_turns() {
  __m256i acc[12];
  for (__m256i& a : acc) a = _mm256_setzero_si256();
  __m256i x = _mm256_set1_epi32(0x00010001);
  for (int i = 0; i < kTurns; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) {
      asm volatile("" : "+x"(x));
      acc[j] = _mm256_add_epi32(acc[j], _mm256_madd_epi16(x, x));
    }
  }
#pragma GCC unroll 12
  for (int j = 0; j < 12; ++j) asm volatile("" : : "x"(acc[j]));
}

__attribute__((target("avx512f,avx512bw"))) void avx512_turns() {
  __m512i acc[24];
  for (__m512i& a : acc) a = _mm512_setzero_si512();
  __m512i x = _mm512_set1_epi32(0x00010001);
  for (int i = 0; i < kTurns; ++i) {
#pragma GCC unroll 24
    for (int j = 0; j < 24; ++j) {
      asm volatile("" : "+v"(x));
      acc[j] = _mm512_add_epi32(acc[j], _mm512_madd_epi16(x, x));
    }
  }
#pragma GCC unroll 24
  for (int j = 0; j < 24; ++j) asm volatile("" : : "v"(acc[j]));
}

__attribute__((target("avx2,avxvnni"))) void avx_vnni_turns() {
  __m256i acc[12];
  for (__m256i& a : acc) a = _mm256_setzero_si256();
  __m256i x = _mm256_set1_epi32(0x01010101);
  for (int i = 0; i < kTurns; ++i) {
    asm volatile("" : "+x"(x));
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) acc[j] = _mm256_dpbusd_avx_epi32(acc[j], x, x);
  }
#pragma GCC unroll 12
  for (int j = 0; j < 12; ++j) asm volatile("" : : "x"(acc[j]));
}

struct Turns {
  void (*run)();
  double macs;
};

Turns turns_of(std::string_view target) {
  if (target == "avx512_vnni") return {vnni_turns, 24.0 * 64 * kTurns};
  if (target == "avx_vnni") return {avx_vnni_turns, 12.0 * 32 * kTurns};
  if (target == "avx512") return {avx512_turns, 24.0 * 32 * kTurns};
  return {avx2_turns, 12.0 * 16 * kTurns};
}

}  // namespace

double int8_peak_macs_per_second(std::string_view target) {
  const Turns turns = turns_of(target);
  double best = 0;
  for (int i = 0; i < 200; ++i) {
    const auto start = std::chrono::steady_clock::now();
    turns.run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::max(best, turns.macs / took.count());
  }
  return best;
}

double int8_turns(std::string_view target) {
  const Turns turns = turns_of(target);
  turns.run();
  return turns.macs;
}

}  // namespace fold8::bench
