// The instruction sets as types: vector bodies are templates on one of these. Include only from
// *_simd.h, which in turn are included only from targets/*.cc.
#pragma once

#include <immintrin.h>

#include <xsimd/xsimd.hpp>

namespace fold8::kernels {

// AVX2 and FMA: 16 registers of 8 floats. INT8 products through sign extension to 16 bits and
// vpmaddwd: exact.
struct Avx2 {
  using Base = Avx2;  // the set without VNNI: for code that multiplies no bytes, to exist once
  using xsimd_arch = xsimd::fma3<xsimd::avx2>;
  using f32 = xsimd::batch<float, xsimd_arch>;
  using s32 = xsimd::batch<std::int32_t, xsimd_arch>;
};

#ifdef __AVXVNNI__
// Avx2 with the 256-bit vpdpbusd: exact INT8 products of bytes as they are.
struct AvxVnni : Avx2 {};
#endif

#ifdef __AVX512F__
// AVX-512 F, CD, DQ, BW, VL: 32 registers of 16 floats. INT8 products as on Avx2, twice as wide.
struct Avx512 {
  using Base = Avx512;
  using xsimd_arch = xsimd::avx512bw;
  using f32 = xsimd::batch<float, xsimd_arch>;
  using s32 = xsimd::batch<std::int32_t, xsimd_arch>;
};
#endif

#ifdef __AVX512VNNI__
// Avx512 with the 512-bit vpdpbusd.
struct Avx512Vnni : Avx512 {};
#endif

// The instruction sets of one register width: a set and the one that adds VNNI to it.
template <class Arch>
concept Width256 = Arch::f32::size == 8;
template <class Arch>
concept Width512 = Arch::f32::size == 16;

}  // namespace fold8::kernels
