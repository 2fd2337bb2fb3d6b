// Which inputs a block of convolution outputs reads: row pointers per tap for the register tile (no
// im2col buffer). Include only from *_simd.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/conv_f32.h"
#include "runtime/kernels/gemm_f32_block.h"
#include "runtime/kernels/window_simd.h"

namespace fold8::kernels::simd {

struct ConvRowF32 {
  std::int64_t b = 0, o[3] = {0, 0, 0};
  // Not transposed: the pixel under tap 0 (it may lie outside), and the taps inside the input along
  // each axis.
  std::int64_t pixel = 0;
  Span k[3];
};

// One register tile: its rows, and the runs of products they read. Runs that are padding for every
// row are left out.
struct ConvTileF32 {
  std::size_t first = 0, rows = 0;   // rows of the block
  std::size_t taps = 0, depth = 0;   // runs, and products of each
  const float** x = nullptr;         // [taps][rows]
  std::size_t* w_offsets = nullptr;  // [taps]
};

template <class Arch>
struct ConvRowsF32 {
  const ConvF32Args& args;
  const float* zeros;  // kernel[2] * in_channels of them
  std::size_t count = 0;
  ConvRowF32 row[kBlockRowsF32];
  std::size_t m[kBlockRowsF32];

  // Takes in one more output row; its neighbour before it has most of the answers.
  void push(const ConvRowF32& at, std::size_t index) {
    const ConvShape& s = args.shape;
    ConvRowF32& r = row[count];
    const bool same_line = count > 0 && row[count - 1].b == at.b &&
                           row[count - 1].o[0] == at.o[0] && row[count - 1].o[1] == at.o[1];
    r = at;
    m[count] = index;
    if (!s.transposed) {
      std::int64_t pixel = at.b;
      for (int a = 0; a < 3; ++a) {
        const std::int64_t start = at.o[a] * s.stride[a] - s.pad_begin[a];
        pixel = pixel * s.in[a] + start;
        r.k[a] = same_line && a < 2 ? row[count - 1].k[a]
                                    : inside<Arch>(start, s.kernel[a], s.dilation[a], s.in[a]);
      }
      r.pixel = pixel;
    }
    ++count;
  }

  // Fills tile.x, w_offsets, taps and depth for its rows.
  void point(ConvTileF32& tile) const {
    const ConvShape& s = args.shape;
    const std::int64_t channels = s.in_channels / s.groups;
    const bool runs = lines_are_runs(tile);
    tile.depth = static_cast<std::size_t>(runs ? s.kernel[2] * channels : channels);
    tile.taps = 0;
    std::int64_t k[3];
    for (k[0] = 0; k[0] < s.kernel[0]; ++k[0])
      for (k[1] = 0; k[1] < s.kernel[1]; ++k[1])
        for (k[2] = 0; k[2] < (runs ? 1 : s.kernel[2]); ++k[2]) {
          const bool any = s.transposed ? point_transposed(tile, k) : point_tap(tile, k);
          if (!any) continue;
          const std::int64_t tap = (k[0] * s.kernel[1] + k[1]) * s.kernel[2] + k[2];
          tile.w_offsets[tile.taps++] = static_cast<std::size_t>(tap * channels) * kPanelF32;
        }
  }

 private:
  // Whether every row of the tile sees all taps of a kernel line side by side in memory: they are
  // one run then.
  bool lines_are_runs(const ConvTileF32& tile) const {
    const ConvShape& s = args.shape;
    if (s.transposed || s.groups != 1 || s.dilation[2] != 1 ||
        args.x_stride != static_cast<std::size_t>(s.in_channels))
      return false;
    for (std::size_t r = tile.first; r < tile.first + tile.rows; ++r)
      if (row[r].k[2].size() != s.kernel[2]) return false;
    return true;
  }

  // Points one tap of all rows; false if it is padding for all of them.
  bool point_tap(ConvTileF32& tile, const std::int64_t* k) const {
    const ConvShape& s = args.shape;
    const float** x = tile.x + tile.taps * tile.rows;
    const std::int64_t step =
        (k[0] * s.dilation[0] * s.in[1] + k[1] * s.dilation[1]) * s.in[2] + k[2] * s.dilation[2];
    bool any = false;
    for (std::size_t r = 0; r < tile.rows; ++r) {
      const ConvRowF32& at = row[tile.first + r];
      const bool in = at.k[0].has(k[0]) && at.k[1].has(k[1]) && at.k[2].has(k[2]);
      x[r] = in ? args.x + static_cast<std::size_t>(at.pixel + step) * args.x_stride : zeros;
      any = any || in;
    }
    return any;
  }

  bool point_transposed(ConvTileF32& tile, const std::int64_t* k) const {
    const ConvShape& s = args.shape;
    const float** x = tile.x + tile.taps * tile.rows;
    bool any = false;
    for (std::size_t r = 0; r < tile.rows; ++r) {
      const ConvRowF32& at = row[tile.first + r];
      std::int64_t pixel = at.b;
      bool in = true;
      for (int a = 0; a < 3 && in; ++a) {
        const std::int64_t i = at.o[a] + s.pad_begin[a] - k[a] * s.dilation[a];
        in = i >= 0 && (s.stride[a] == 1 || i % s.stride[a] == 0) && i / s.stride[a] < s.in[a];
        pixel = pixel * s.in[a] + i / s.stride[a];
      }
      x[r] = in ? args.x + static_cast<std::size_t>(pixel) * args.x_stride : zeros;
      any = any || in;
    }
    return any;
  }
};

}  // namespace fold8::kernels::simd
