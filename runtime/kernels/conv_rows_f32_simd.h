// Which inputs a block of convolution outputs reads: row pointers per tap for the register tile (no im2col buffer).
// Include only from *_simd.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/conv_f32.h"
#include "runtime/kernels/gemm_f32_block.h"

namespace fold8::kernels::simd {

struct ConvRowF32 {
  std::int64_t b = 0, o[3] = {0, 0, 0};
};

// One register tile: its rows, and the runs of products they read. Runs that are padding for every row are left out.
struct ConvTileF32 {
  std::size_t first = 0, rows = 0;         // rows of the block
  std::size_t taps = 0, depth = 0;         // runs, and products of each
  const float** x = nullptr;               // [taps][rows]
  std::size_t* w_offsets = nullptr;        // [taps]
};

template <class Arch>
struct ConvRowsF32 {
  const ConvF32Args& args;
  const float* zeros;                      // kernel[2] * in_channels of them
  std::size_t count = 0;
  ConvRowF32 row[kBlockRowsF32];
  std::size_t m[kBlockRowsF32];

  // The input position of tap t along an axis, or -1.
  std::int64_t input(int axis, std::int64_t o, std::int64_t t) const {
    const ConvShape& s = args.shape;
    std::int64_t i = o * s.stride[axis] - s.pad_begin[axis] + t * s.dilation[axis];
    if (s.transposed) {
      i = o + s.pad_begin[axis] - t * s.dilation[axis];
      if (i < 0 || (s.stride[axis] != 1 && i % s.stride[axis] != 0)) return -1;
      i /= s.stride[axis];
    }
    return i >= 0 && i < s.in[axis] ? i : -1;
  }

  // Whether every row of the tile sees all taps of a kernel line side by side in memory: they are one run then.
  bool lines_are_runs(const ConvTileF32& tile) const {
    const ConvShape& s = args.shape;
    if (s.transposed || s.groups != 1 || s.dilation[2] != 1 ||
        args.x_stride != static_cast<std::size_t>(s.in_channels))
      return false;
    for (std::size_t r = tile.first; r < tile.first + tile.rows; ++r) {
      const std::int64_t i = row[r].o[2] * s.stride[2] - s.pad_begin[2];
      if (i < 0 || i + s.kernel[2] > s.in[2]) return false;
    }
    return true;
  }

  // Fills tile.x, w_offsets, taps and depth for its rows.
  void point(ConvTileF32& tile) const {
    const ConvShape& s = args.shape;
    const std::int64_t channels = s.in_channels / s.groups;
    const bool runs = lines_are_runs(tile);
    tile.depth = static_cast<std::size_t>(runs ? s.kernel[2] * channels : channels);
    tile.taps = 0;
    std::int64_t line[kBlockRowsF32];  // first pixel of the input line, or -1
    for (std::int64_t kd = 0; kd < s.kernel[0]; ++kd)
      for (std::int64_t kh = 0; kh < s.kernel[1]; ++kh) {
        bool any = false;
        for (std::size_t r = 0; r < tile.rows; ++r) {
          const ConvRowF32& at = row[tile.first + r];
          const std::int64_t i0 = input(0, at.o[0], kd), i1 = input(1, at.o[1], kh);
          line[r] = i0 < 0 || i1 < 0 ? -1 : ((at.b * s.in[0] + i0) * s.in[1] + i1) * s.in[2];
          any = any || line[r] >= 0;
        }
        if (!any) continue;
        for (std::int64_t kw = 0; kw < (runs ? 1 : s.kernel[2]); ++kw)
          point_tap(tile, line, kw, ((kd * s.kernel[1] + kh) * s.kernel[2] + kw) * channels);
      }
  }

 private:
  void point_tap(ConvTileF32& tile, const std::int64_t* line, std::int64_t kw, std::int64_t k) const {
    const float** x = tile.x + tile.taps * tile.rows;
    bool any = false;
    for (std::size_t r = 0; r < tile.rows; ++r) {
      const std::int64_t i = line[r] < 0 ? -1 : input(2, row[tile.first + r].o[2], kw);
      x[r] = i < 0 ? zeros : args.x + static_cast<std::size_t>(line[r] + i) * args.x_stride;
      any = any || i >= 0;
    }
    if (!any) return;
    tile.w_offsets[tile.taps++] = static_cast<std::size_t>(k) * kPanelF32;
  }
};

}  // namespace fold8::kernels::simd
