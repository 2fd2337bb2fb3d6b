// One tile of the INT8 matrix product: a few rows of x against a few panels of w, sums in
// registers. The two engines (gemm_u8s8_vnni.h, gemm_u8s8_avx2.h) share this description of it.
// Include only from *_simd.h and its parts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/epilogue_u8_simd.h"
#include "runtime/kernels/pack_s8.h"

namespace fold8::kernels::simd {

struct TileU8S8 {
  const std::uint8_t* x = nullptr;  // first row, as the engine wants it (vnni: u8; avx2: widened)
  std::size_t x_stride = 0;         // bytes between rows
  std::size_t k = 0;                // depth of this call
  const std::int8_t* w = nullptr;   // first panel, at the first k
  std::size_t panel_bytes = 0;      // bytes between panels
  const std::int32_t* sums = nullptr;  // of the first panel's columns; null: no zero-point term
  std::int32_t x_zero_point = 0;
  std::size_t m = 0, n = 0;          // first row and column for the epilogue
  std::size_t columns = 0;           // valid columns, at most 16 a panel
  const EpilogueU8* fast = nullptr;  // finish here, or null:
  std::int32_t* acc = nullptr;       // leave the sums, [rows][16 * panels], 64-byte aligned
};

using TileU8S8Fn = void(const TileU8S8&);

}  // namespace fold8::kernels::simd
