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
  std::size_t first_channel, width;    // channels [first_channel, first_channel + width)
  std::int64_t outputs;                // outputs * width <= lanes
  const std::uint8_t* weights;         // steps * kEntryBytes
  const std::uint8_t* taps;            // likewise, 1 for every tap: sums of x; with weight zero points only
  const std::int32_t* init;            // [lanes], -x_zero_point * sum of weights
  const std::int32_t* taps_init;       // [lanes], -x_zero_point * taps
  const float* multiplier;             // [lanes], for the short epilogue
  const float* offset;
};

// A line of the input, or padding (x null).
struct DepthwiseLine {
  const std::uint8_t* x;
  std::int64_t in, channels, stride;   // positions, bytes between them, positions between neighbouring outputs
  std::uint8_t fill;
};

// The entries of a chunk of outputs: rows (planes x pieces) of row_entries each. Group g at step (row, t) meets entry
// g * group_step + t * reach_step of the row.
struct DepthwiseChunk {
  std::uint8_t* entries;
  std::size_t rows, row_entries, group_step, reach, reach_step;
};

}  // namespace fold8::kernels::simd
