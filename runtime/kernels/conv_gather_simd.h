// Brings the inputs of output positions together as rows of depth k, so that a convolution becomes a block of a matrix
// product. Only one block of rows exists at a time. Include only from *_simd.h.
#pragma once

#include <cstring>

#include "runtime/kernels/arch.h"
#include "runtime/kernels/conv_phase.h"

namespace fold8::kernels::simd {

struct Gather {
  const ConvPhase* phase = nullptr;
  const std::uint8_t* x = nullptr;       // of the whole batch
  const std::uint8_t* x_end = nullptr;
  std::int64_t in_channels = 0;          // bytes between neighbouring positions
  std::int64_t channel_begin = 0, channels = 0;  // those of the group
  std::uint8_t fill = 0;                 // what padding holds: the zero point
  std::size_t row_bytes = 0;             // k rounded up to whole groups of 4
};

#ifdef __AVX512F__
using CopyVector = __m512i;
#else
using CopyVector = __m256i;
#endif

// Whole vectors: writes up to one vector too much, reads too much only before `end`.
template <class Arch>
[[gnu::always_inline]] inline void copy_run(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes,
                                            const std::uint8_t* end) {
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
[[gnu::always_inline]] inline void fill_run(std::uint8_t* to, std::uint8_t value, std::size_t bytes) {
  constexpr std::size_t kStep = sizeof(CopyVector);
  CopyVector v;
  std::memset(&v, value, kStep);
  for (std::size_t i = 0; i < bytes; i += kStep) std::memcpy(to + i, &v, kStep);
}

// The taps of one output position whose first tap is at i0, i1, i2 of the sample at `sample`.
template <class Arch>
void gather_row(const Gather& g, const std::uint8_t* sample, std::int64_t i0, std::int64_t i1, std::int64_t i2,
                std::uint8_t* to) {
  const auto& [a, b, c] = g.phase->axis;
  const std::size_t run = static_cast<std::size_t>(g.channels), line = static_cast<std::size_t>(c.taps) * run;
  const bool merged = c.in_step == 1 && g.channels == g.in_channels;
  // Taps [first, last) of the innermost axis are inside.
  const std::int64_t first = i2 < 0 ? -i2 : 0, last = c.in - i2 < c.taps ? c.in - i2 : c.taps;
  for (std::int64_t t0 = 0; t0 < a.taps; ++t0) {
    const std::int64_t p0 = i0 + t0 * a.in_step;
    for (std::int64_t t1 = 0; t1 < b.taps; ++t1, to += line) {
      const std::int64_t p1 = i1 + t1 * b.in_step;
      if (p0 < 0 || p0 >= a.in || p1 < 0 || p1 >= b.in) {
        fill_run<Arch>(to, g.fill, line);
        continue;
      }
      const std::uint8_t* from = sample + ((p0 * b.in + p1) * c.in + i2) * g.in_channels + g.channel_begin;
      if (merged && first == 0 && last == c.taps) {
        copy_run<Arch>(to, from, line, g.x_end);
      } else if (merged) {
        if (first >= last) {
          fill_run<Arch>(to, g.fill, line);
          continue;
        }
        const std::size_t lead = static_cast<std::size_t>(first) * run, middle = static_cast<std::size_t>(last - first) * run;
        fill_run<Arch>(to, g.fill, lead);
        copy_run<Arch>(to + lead, from + lead, middle, g.x_end);
        fill_run<Arch>(to + lead + middle, g.fill, line - lead - middle);
      } else {
        for (std::int64_t t2 = 0; t2 < c.taps; ++t2) {
          const std::int64_t p2 = i2 + t2 * c.in_step;
          std::uint8_t* at = to + static_cast<std::size_t>(t2) * run;
          if (p2 < 0 || p2 >= c.in) fill_run<Arch>(at, g.fill, run);
          else copy_run<Arch>(at, from + t2 * c.in_step * g.in_channels, run, g.x_end);
        }
      }
    }
  }
}

// `rows` positions of the phase, in order, from (sample, j0, j1, j2) on.
template <class Arch>
void gather_rows(const Gather& g, std::int64_t sample, std::int64_t j0, std::int64_t j1, std::int64_t j2, std::size_t rows,
                 std::uint8_t* to) {
  const auto& [a, b, c] = g.phase->axis;
  const std::int64_t sample_bytes = a.in * b.in * c.in * g.in_channels;
  for (; rows > 0; --rows, to += g.row_bytes) {
    gather_row<Arch>(g, g.x + sample * sample_bytes, a.in_base + j0 * a.in_stride, b.in_base + j1 * b.in_stride,
                     c.in_base + j2 * c.in_stride, to);
    if (++j2 < c.out) continue;
    j2 = 0;
    if (++j1 < b.out) continue;
    j1 = 0;
    if (++j0 < a.out) continue;
    j0 = 0;
    ++sample;
  }
}

}  // namespace fold8::kernels::simd
