// 16-bit floating point formats as bit patterns: conversion only, round to nearest even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace fold8::ops {

inline float bfloat_to_float(std::uint16_t h) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}

inline std::uint16_t float_to_bfloat(float f) {
  const auto u = std::bit_cast<std::uint32_t>(f);
  if (f != f) return static_cast<std::uint16_t>((u >> 16) | 0x40);
  return static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

inline float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000) << 16,
                      exponent = (h >> 10) & 31, fraction = h & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float tiny = static_cast<float>(fraction) * 0x1p-24f;  // subnormal: exact
  return sign ? -tiny : tiny;
}

inline std::uint16_t double_to_half(double d) {
  const auto sign = static_cast<std::uint16_t>(std::bit_cast<std::uint64_t>(d) >> 63 << 15);
  const double a = d < 0 ? -d : d;
  if (a != a) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (a >= 65520.0) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (a < 0x1p-14)
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::rint(a * 0x1p24)));
  const auto u = std::bit_cast<std::uint64_t>(a);
  const std::uint64_t rounded = u + ((std::uint64_t{1} << 41) - 1) + ((u >> 42) & 1);
  return static_cast<std::uint16_t>(sign | ((rounded >> 42) - (std::uint64_t{1008} << 10)));
}

}  // namespace fold8::ops
