// The instruction sets as types: vector bodies are templates on one of these. Include only from
// *_simd.h, which in turn are included only from targets/*.cc.
#pragma once

#include <immintrin.h>

#include <xsimd/xsimd.hpp>

namespace fold8::kernels {

// AVX2 and FMA: 16 registers of 8 floats. INT8 products through sign extension to 16 bits and
// vpmaddwd: exact.
struct Avx2 {
  using xsimd_arch = xsimd::fma3<xsimd::avx2>;
  using f32 = xsimd::batch<float, xsimd_arch>;
  using s32 = xsimd::batch<std::int32_t, xsimd_arch>;
  static constexpr bool has_vnni = false;
};

#ifdef __AVX512VNNI__
// AVX-512 F, CD, DQ, BW, VL and VNNI: 32 registers of 16 floats. INT8 products through vpdpbusd:
// exact.
struct Avx512Vnni {
  using xsimd_arch = xsimd::avx512bw;
  using f32 = xsimd::batch<float, xsimd_arch>;
  using s32 = xsimd::batch<std::int32_t, xsimd_arch>;
  static constexpr bool has_vnni = true;
};
#endif

}  // namespace fold8::kernels
