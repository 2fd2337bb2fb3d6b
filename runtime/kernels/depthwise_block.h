// What the engines of depthwise_u8s8 share. Include only from *_simd.h and its parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/kernels/depthwise_u8s8.h"
#include "runtime/kernels/epilogue_u8_simd.h"

namespace fold8::kernels::simd {

// The channels that fill the lanes of an engine, for one output or for several neighbouring ones.
struct DepthwiseBlock {
  std::size_t first_channel, width;  // channels [first_channel, first_channel + width)
  std::int64_t outputs;              // outputs * width <= lanes
  std::uint64_t mask;                // of those lanes
  bool one_load;                     // the outputs' channels are neighbours in memory
  const std::uint8_t* weights;       // steps * kEntryBytes
  const std::uint8_t* taps;  // likewise, 1 for every tap: sums of x; with weight zero points only
  const std::int32_t* init;  // [lanes], -x_zero_point * sum of weights
  const std::int32_t* taps_init;  // [lanes], -x_zero_point * taps
  const float* multiplier;        // [lanes], for the short epilogue
  const float* offset;
};

// The four sources of the entries of one row (plane and piece): position `at` of source r is
// from[r] + (at * channels & inside[r]), where padding lines have inside = 0 and point at a vector
// of zero points.
struct DepthwiseSources {
  const std::uint8_t* from[4];
  std::int64_t inside[4];
  std::int64_t apart;  // source r is shifted by r * apart positions
  std::int64_t in, channels,
      stride;               // positions, bytes between them, positions between neighbouring outputs
  std::uint8_t fill;        // the zero point
  const std::uint8_t* end;  // of x
};

// The entries of a chunk of outputs: rows (planes x pieces) of row_entries each. Group g at step
// (row, t) meets entry g * group_step + t * reach_step of the row.
struct DepthwiseChunk {
  std::uint8_t* entries;
  std::size_t rows, row_entries, group_step, reach, reach_step;
};

}  // namespace fold8::kernels::simd
