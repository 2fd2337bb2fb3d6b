#include "runtime/kernels/cpu.h"

#include <cpuid.h>

#include <cstdint>
#include <cstring>

namespace fold8::kernels {
namespace {

std::uint64_t xgetbv0() {
  std::uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (std::uint64_t{hi} << 32) | lo;
}

constexpr bool bit(unsigned r, int n) { return (r >> n) & 1u; }

CpuFeatures detect() {
  CpuFeatures f;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
  const bool fma = bit(c, 12), osxsave = bit(c, 27), avx = bit(c, 28), f16c = bit(c, 29);
  if (!osxsave || !avx) return f;
  const std::uint64_t state = xgetbv0();
  const bool ymm = (state & 0x06) == 0x06, zmm = (state & 0xe6) == 0xe6;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
  f.avx2_fma = ymm && fma && f16c && bit(b, 5);
  f.avx512 =
      f.avx2_fma && zmm && bit(b, 16) && bit(b, 17) && bit(b, 28) && bit(b, 30) && bit(b, 31);
  f.avx512_vnni = f.avx512 && bit(c, 11);
  if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) f.avx_vnni = f.avx2_fma && bit(a, 4);
  return f;
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

std::string cpu_brand() {
  unsigned r[12] = {};
  for (unsigned i = 0; i < 3; ++i)
    if (!__get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]))
      return "x86-64";
  char text[49] = {};
  std::memcpy(text, r, 48);
  std::string brand(text);
  while (!brand.empty() && brand.back() == ' ') brand.pop_back();
  return brand.substr(
      brand.find_first_not_of(' ') == std::string::npos ? 0 : brand.find_first_not_of(' '));
}

}  // namespace fold8::kernels
