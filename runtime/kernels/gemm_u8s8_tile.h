// One tile of the INT8 matrix product: a few rows of x against a few panels of w, sums in
// registers. The two engines (gemm_u8s8_vnni.h, gemm_u8s8_avx2.h) share this description of it.
// Include only from *_simd.h and its parts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/epilogue_u8_simd.h"
#include "runtime/kernels/pack_s8.h"

namespace fold8::kernels::simd {

inline constexpr std::ptrdiff_t kOneRun[1] = {0};

// A row of x is `runs` runs of k bytes, at the same distances in all rows; the weights follow each
// other, every run rounded up to whole groups of 4.
struct TileU8S8 {
  const std::uint8_t* x = nullptr;  // first row, as the engine wants it (vnni: u8; avx2: widened)
  std::size_t x_stride = 0;         // bytes between rows
  std::size_t k = 0;                // depth of a run
  std::size_t runs = 1;
  const std::ptrdiff_t* run_offsets = kOneRun;  // [runs] bytes from the start of a row
  const std::int8_t* w = nullptr;               // first panel, at the first k
  std::size_t panel_bytes = 0;                  // bytes between panels
  const std::int32_t* init = nullptr;  // [16 * panels] what the sums start from, 64-byte aligned
  std::size_t m = 0, n = 0;            // first row and column for the epilogue
  std::size_t columns = 0;             // valid columns, at most 16 a panel
  const EpilogueU8* fast = nullptr;    // finish here, or null:
  std::int32_t* acc = nullptr;         // leave the sums, [rows][16 * panels], 64-byte aligned
};

using TileU8S8Fn = void(const TileU8S8&);

}  // namespace fold8::kernels::simd
