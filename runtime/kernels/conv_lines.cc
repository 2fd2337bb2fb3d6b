#include "runtime/kernels/conv_lines.h"

#include <algorithm>

namespace fold8::kernels {

namespace {

// Input bytes of a block: several lines stay in the second cache next to the weights.
constexpr std::int64_t kBlockBytes = std::int64_t{96} << 10, kMostBytes = std::int64_t{1} << 20;
constexpr std::int64_t kShortLine = 8, kLeastColumns = 12;

// Input positions from the first to the last that `count` outputs reach.
std::int64_t span(const ConvAxis& x, std::int64_t count) {
  return (count - 1) * x.in_stride + (x.taps - 1) * x.in_step + 1;
}

}  // namespace

ConvLines conv_lines(const ConvShape& s, const ConvPhase& phase) {
  const auto& [a, b, c] = phase.axis;
  ConvLines l{.channels = s.in_channels / s.groups};
  const bool merged = c.in_step == 1 || c.taps == 1;
  if (conv_taps(phase) <= 1 || a.out <= 0 || b.out <= 0 || c.out < kShortLine) return l;
  if (!merged && l.channels % 4 != 0) return l;
  if (a.taps > 64 || b.taps > 64 || c.taps > 64) return l;
  const std::size_t line = u8s8_line_depth(s, phase);
  l.runs =
      static_cast<std::size_t>(a.taps * b.taps) * (merged ? 1 : static_cast<std::size_t>(c.taps));
  l.run_depth = merged ? line : static_cast<std::size_t>(l.channels);
  if (l.runs > kMostRuns) return l;
  for (const ConvAxis& x : phase.axis)
    if (x.in_step > kMostBytes || x.in_stride > kMostBytes) return l;
  const std::int64_t height = span(b, 1),
                     most_pixels =
                         kMostBytes / std::max<std::int64_t>(1, l.channels * a.taps * height);
  const std::int64_t least = std::min(c.out, kLeastColumns);
  if (l.channels > kMostBytes || span(c, least) > most_pixels) return l;
  const auto bytes = [&](std::int64_t lines, std::int64_t columns) {
    return a.taps * span(b, lines) * span(c, columns) * l.channels;
  };
  l.columns = least;
  while (l.columns < c.out && bytes(1, std::min(c.out, 2 * l.columns)) <= 2 * kBlockBytes)
    l.columns = std::min(c.out, 2 * l.columns);
  l.lines = 1;
  if (l.columns == c.out)
    while (l.lines < b.out && bytes(l.lines + 1, l.columns) <= kBlockBytes) ++l.lines;
  l.planes = a.taps;
  l.rows = span(b, l.lines);
  l.pixels = span(c, l.columns);
  return l;
}

}  // namespace fold8::kernels
