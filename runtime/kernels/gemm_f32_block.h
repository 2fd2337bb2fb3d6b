// Block sizes of the f32 matrix kernels, shared by their scratch sizes and vector bodies. They
// order the work and never touch a result.
#pragma once

#include <cstddef>

#include "runtime/kernels/pack_f32.h"

namespace fold8::kernels {

// A block of outputs whose chains are built up in memory before the epilogue runs. Its rows of x
// stay in the L2 cache while all panels pass by, and the weights of one depth step while all its
// rows pass by.
inline constexpr std::size_t kBlockRowsF32 = 192;  // at most
inline constexpr std::size_t kBlockPanelsF32 = 4;  // of a block with more than one row
inline constexpr std::size_t kMaxPanelsF32 = 8;    // of a block with a single row
inline constexpr std::size_t kBlockFloatsF32 = kBlockRowsF32 * kBlockPanelsF32 * kPanelF32;
inline constexpr std::size_t kBlockTilesF32 = kBlockRowsF32 / 2;  // of a block, at most
inline constexpr std::size_t kDepthStepF32 = 256;

// How many of `left` rows that read `floats` of x each make the next block, `most` at most: as many
// as the cache holds, in blocks of about one size.
constexpr std::size_t block_rows_f32(std::size_t left, std::size_t floats, std::size_t most) {
  constexpr std::size_t kCacheFloats = 96 * 1024, kRound = 6, kLeast = 48;
  std::size_t fits = floats > 0 ? kCacheFloats / floats / kRound * kRound : most;
  if (fits < kLeast) fits = kLeast;
  if (fits > most) fits = most;
  if (left <= fits) return left;
  const std::size_t blocks = (left + fits - 1) / fits;
  const std::size_t rows = ((left + blocks - 1) / blocks + kRound - 1) / kRound * kRound;
  return rows < fits ? rows : fits;
}

// How many of `left` panels to take at once, at most `most`, in parts of about one size.
constexpr std::size_t balanced_part(std::size_t left, std::size_t most) {
  const std::size_t parts = (left + most - 1) / most;
  return (left + parts - 1) / parts;
}

// The most rows of a convolution's block: its table of pointers stays small.
constexpr std::size_t conv_block_rows_f32(std::size_t taps) {
  constexpr std::size_t kPointers = 8192, kLeast = 48;
  const std::size_t rows = kPointers / taps / kLeast * kLeast;
  return rows < kLeast ? kLeast : rows < kBlockRowsF32 ? rows : kBlockRowsF32;
}

}  // namespace fold8::kernels
