// Copies the lines of conv_lines.h. Include only from *_simd.h.
#pragma once

#include <algorithm>
#include <cstring>

#include "runtime/kernels/conv_lines.h"
#include "runtime/kernels/gemm_u8s8_block.h"

namespace fold8::kernels::simd {

// The block of outputs whose inputs are copied: it begins at (sample, j0, j1, j2).
struct ConvBlockStart {
  std::int64_t sample, j[3];
};

// Bytes of the copy for each byte of x: an engine that widens gets 16-bit numbers.
template <class Arch>
inline constexpr std::int64_t kCopyBytes = EngineOf<Arch>::type::kWidened ? 2 : 1;

// n bytes at x, stored as the engine reads them.
template <class Arch>
[[gnu::always_inline]] inline void copy_bytes(const std::uint8_t* x, std::size_t n,
                                              std::uint8_t* to) {
  if constexpr (kCopyBytes<Arch> == 2)
    avx2_engine::widen<Arch>(x, n, to);
  else
    std::memcpy(to, x, n);
}

template <class Arch>
[[gnu::always_inline]] inline void fill_bytes(std::uint8_t value, std::size_t n, std::uint8_t* to) {
  if constexpr (kCopyBytes<Arch> == 2)
    for (std::size_t i = 0; i < n; ++i) to[2 * i] = value, to[2 * i + 1] = 0;
  else
    std::memset(to, value, n);
}

// One phase and group of a call.
struct ConvCopy {
  const ConvPhase* phase;
  const ConvLines* lines;
  const std::uint8_t* x;     // channel 0 of the group
  std::int64_t in_channels;  // bytes between neighbouring positions of x
  std::uint8_t fill;         // what padding holds: the zero point
};

// `pixels` positions of a line of x from `first` on (null: a line outside).
template <class Arch>
void copy_line(const ConvCopy& c, const std::uint8_t* line, std::int64_t first, std::int64_t pixels,
               std::uint8_t* to) {
  const std::int64_t in = c.phase->axis[2].in, channels = c.lines->channels;
  const auto clamp = [&](std::int64_t i) { return i < 0 ? 0 : i > pixels ? pixels : i; };
  const std::int64_t begin = line ? clamp(-first) : pixels,
                     end = line ? std::max(begin, clamp(in - first)) : pixels;
  const auto bytes = [&](std::int64_t n) { return static_cast<std::size_t>(n * channels); };
  const auto at = [&](std::int64_t i) { return to + i * channels * kCopyBytes<Arch>; };
  fill_bytes<Arch>(c.fill, bytes(begin), to);
  if (end > begin) {
    const std::uint8_t* from = line + (first + begin) * c.in_channels;
    if (channels == c.in_channels) {
      copy_bytes<Arch>(from, bytes(end - begin), at(begin));
    } else {
      for (std::int64_t i = begin; i < end; ++i, from += c.in_channels)
        copy_bytes<Arch>(from, bytes(1), at(i));
    }
  }
  fill_bytes<Arch>(c.fill, bytes(pixels - end), at(end));
}

// The inputs of `lines` output lines from `start` on, `pixels` of each line.
template <class Arch>
void copy_lines(const ConvCopy& copy, const ConvBlockStart& start, std::int64_t lines,
                std::int64_t pixels, std::uint8_t* to) {
  const auto& [a, b, c] = copy.phase->axis;
  const ConvLines& l = *copy.lines;
  const std::int64_t line_bytes = l.pixels * l.channels * kCopyBytes<Arch>,
                     rows = (lines - 1) * b.in_stride + (b.taps - 1) * b.in_step + 1;
  const std::int64_t i0 = a.in_base + start.j[0] * a.in_stride,
                     i1 = b.in_base + start.j[1] * b.in_stride,
                     i2 = c.in_base + start.j[2] * c.in_stride;
  for (std::int64_t t0 = 0; t0 < l.planes; ++t0) {
    const std::int64_t p0 = i0 + t0 * a.in_step;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t p1 = i1 + r;
      const bool inside = p0 >= 0 && p0 < a.in && p1 >= 0 && p1 < b.in;
      const std::uint8_t* line =
          inside ? copy.x + (((start.sample * a.in + p0) * b.in + p1) * c.in) * copy.in_channels
                 : nullptr;
      copy_line<Arch>(copy, line, i2, pixels, to + (t0 * l.rows + r) * line_bytes);
    }
  }
}

// Where the runs of an output begin, from its first input on.
template <class Arch>
void run_offsets(const ConvPhase& phase, const ConvLines& l, std::ptrdiff_t* offsets) {
  const auto& [a, b, c] = phase.axis;
  const std::int64_t each = static_cast<std::int64_t>(l.runs) / (a.taps * b.taps);
  for (std::int64_t t0 = 0; t0 < a.taps; ++t0)
    for (std::int64_t t1 = 0; t1 < b.taps; ++t1)
      for (std::int64_t t2 = 0; t2 < each; ++t2)
        *offsets++ = ((t0 * l.rows + t1 * b.in_step) * l.pixels + t2 * c.in_step) * l.channels *
                     kCopyBytes<Arch>;
}

}  // namespace fold8::kernels::simd
