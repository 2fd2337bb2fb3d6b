// Brings the inputs of output positions together as rows of depth k, so that a convolution becomes
// a block of a matrix product. Only one block of rows exists at a time. For shapes that
// conv_lines.h does not cover. Include only from *_simd.h.
#pragma once

#include <cstring>

#include "runtime/kernels/arch.h"
#include "runtime/kernels/conv_phase.h"
#include "runtime/kernels/conv_u8s8.h"

namespace fold8::kernels::simd {

struct Gather {
  const ConvPhase* phase = nullptr;
  const std::uint8_t* x = nullptr;  // of the whole batch
  const std::uint8_t* x_end = nullptr;
  std::int64_t in_channels = 0;                  // bytes between neighbouring positions
  std::int64_t channel_begin = 0, channels = 0;  // those of the group
  std::uint8_t fill = 0;                         // what padding holds: the zero point
  std::size_t line_bytes = 0;                    // u8s8_line_depth
  std::size_t row_bytes = 0;                     // conv_gather_row_bytes(k)
};

#ifdef __AVX512F__
using CopyVector = __m512i;
#else
using CopyVector = __m256i;
#endif

// Runs are written from left to right but line by line: what one writes too much of may only fall
// behind the row.
static_assert(sizeof(CopyVector) <= conv_gather_row_bytes(0));

// Whole vectors: writes up to one vector too much, reads too much only before `end`.
template <class Arch>
[[gnu::always_inline]] inline void copy_run(std::uint8_t* to, const std::uint8_t* from,
                                            std::size_t bytes, const std::uint8_t* end) {
  constexpr std::size_t kStep = sizeof(CopyVector);
  if (static_cast<std::size_t>(end - from) < bytes + kStep) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t i = 0; i < bytes; i += kStep) {
    CopyVector v;
    std::memcpy(&v, from + i, kStep);
    std::memcpy(to + i, &v, kStep);
  }
}

template <class Arch>
[[gnu::always_inline]] inline void fill_run(std::uint8_t* to, std::uint8_t value,
                                            std::size_t bytes) {
  constexpr std::size_t kStep = sizeof(CopyVector);
  CopyVector v;
  std::memset(&v, value, kStep);
  for (std::size_t i = 0; i < bytes; i += kStep) std::memcpy(to + i, &v, kStep);
}

// Neighbouring rows of one line of the output: for each tap line (t0, t1), the runs of all rows.
struct GatherLine {
  std::int64_t i0, i1, i2;  // first tap of the first row
  std::size_t rows;
};

template <class Arch>
void gather_line(const Gather& gather, const std::uint8_t* sample, const GatherLine& l,
                 std::uint8_t* to) {
  const Gather g = gather;  // a copy that stores through `to` cannot touch
  const ConvAxis a = g.phase->axis[0], b = g.phase->axis[1], c = g.phase->axis[2];
  const std::size_t run = static_cast<std::size_t>(g.channels),
                    line = static_cast<std::size_t>(c.taps) * run;
  const bool merged = c.in_step == 1 && g.channels == g.in_channels;
  const std::int64_t step = c.in_stride * g.in_channels;
  for (std::int64_t t0 = 0; t0 < a.taps; ++t0)
    for (std::int64_t t1 = 0; t1 < b.taps; ++t1, to += g.line_bytes) {
      const std::int64_t p0 = l.i0 + t0 * a.in_step, p1 = l.i1 + t1 * b.in_step;
      std::uint8_t* at = to;
      if (p0 < 0 || p0 >= a.in || p1 < 0 || p1 >= b.in) {
        for (std::size_t r = 0; r < l.rows; ++r, at += g.row_bytes)
          fill_run<Arch>(at, g.fill, g.line_bytes);
        continue;
      }
      const std::uint8_t* from =
          sample + ((p0 * b.in + p1) * c.in + l.i2) * g.in_channels + g.channel_begin;
      std::int64_t i2 = l.i2;
      for (std::size_t r = 0; r < l.rows; ++r, at += g.row_bytes, from += step, i2 += c.in_stride) {
        const bool whole = merged && i2 >= 0 && i2 + c.taps <= c.in;
        if (whole) copy_run<Arch>(at, from, line, g.x_end);
        for (std::int64_t t2 = 0; !whole && t2 < c.taps; ++t2) {
          const std::int64_t p2 = i2 + t2 * c.in_step;
          std::uint8_t* one = at + static_cast<std::size_t>(t2) * run;
          if (p2 < 0 || p2 >= c.in)
            fill_run<Arch>(one, g.fill, run);
          else
            copy_run<Arch>(one, from + t2 * c.in_step * g.in_channels, run, g.x_end);
        }
        // Zero weights meet these; the sums for weight zero points must not see them.
        for (std::size_t i = line; i < g.line_bytes; ++i) at[i] = g.fill;
      }
    }
}

// `rows` positions of the phase, in order, from (sample, j0, j1, j2) on.
template <class Arch>
void gather_rows(const Gather& g, std::int64_t sample, std::int64_t j0, std::int64_t j1,
                 std::int64_t j2, std::size_t rows, std::uint8_t* to) {
  const auto& [a, b, c] = g.phase->axis;
  const std::int64_t sample_bytes = a.in * b.in * c.in * g.in_channels;
  while (rows > 0) {
    const std::size_t left = static_cast<std::size_t>(c.out - j2),
                      count = rows < left ? rows : left;
    gather_line<Arch>(g, g.x + sample * sample_bytes,
                      {a.in_base + j0 * a.in_stride, b.in_base + j1 * b.in_stride,
                       c.in_base + j2 * c.in_stride, count},
                      to);
    rows -= count;
    to += count * g.row_bytes;
    j2 = 0;
    if (++j1 < b.out) continue;
    j1 = 0;
    if (++j0 < a.out) continue;
    j0 = 0;
    ++sample;
  }
}

}  // namespace fold8::kernels::simd
