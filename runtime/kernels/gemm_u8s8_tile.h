// One tile of the INT8 matrix product: a few rows of x against a few panels of w, sums in
// registers. The engines (gemm_u8s8_{vnni,avx_vnni,avx512,avx2}.h) share this description of it.
// Include only from *_simd.h and its parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/kernels/epilogue_u8_simd.h"
#include "runtime/kernels/pack_s8.h"

namespace fold8::kernels::simd {

inline constexpr std::ptrdiff_t kOneRun[1] = {0};

// A row of x is `runs` runs of k bytes, at the same distances in all rows; the weights follow each
// other, every run rounded up to whole groups of 4.
struct TileU8S8 {
  const std::uint8_t* x = nullptr;  // first row, as the engine wants it (vnni: u8; others: widened)
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

// For the engines that read bytes as they are: a group of x.
[[gnu::always_inline]] static inline std::int32_t load_group(const std::uint8_t* x) {
  std::int32_t v;
  std::memcpy(&v, x, 4);
  return v;
}

// The 1 to 3 bytes behind the last whole group; the weights that meet the missing ones are 0.
[[gnu::always_inline]] static inline std::int32_t load_tail(const std::uint8_t* x,
                                                            std::size_t bytes) {
  std::uint32_t v = x[0];
  if (bytes > 1) v |= std::uint32_t{x[1]} << 8;
  if (bytes > 2) v |= std::uint32_t{x[2]} << 16;
  return static_cast<std::int32_t>(v);
}

}  // namespace fold8::kernels::simd
