// Transposed INT8 convolutions phase by phase, and windows side by side as one product
// (u8s8_spread). Include only from conv_u8s8_simd.h.
#pragma once

#include "runtime/kernels/conv_u8s8_block.h"

namespace fold8::kernels::simd {

namespace conv_detail {

// Output rows [begin, end) of a window whose first is first_row: for windows that are cut off, or
// where y is not dense.
template <class Arch>
void spread_position(const Part& part, const ConvBlockStart& at, std::int64_t begin,
                     std::int64_t end, std::int64_t first_row) {
  const ConvU8S8Args& a = *part.args;
  const ConvShape& s = a.shape;
  Gather g{.phase = &part.phase,
           .x = a.x,
           .x_end = a.x + s.batch * s.in[0] * s.in[1] * s.in[2] * s.in_channels,
           .in_channels = s.in_channels,
           .channels = s.in_channels,
           .fill = static_cast<std::uint8_t>(a.x_zero_point),
           .line_bytes = u8s8_line_depth(s, part.phase),
           .row_bytes = conv_gather_row_bytes(part.k)};
  gather_rows<Arch>(g, at.sample, at.j[0], at.j[1], at.j[2], 1, part.scratch);
  const auto channels = static_cast<std::size_t>(s.out_channels);
  for (std::int64_t row = begin; row < end; ++row) {
    Epilogue e = epilogue_at(a.epilogue, static_cast<std::size_t>(row), 0);
    if (e.row_scale) e.row_scale += at.sample;
    for (std::size_t o = 0; o < channels; ++o) {
      const std::size_t n = static_cast<std::size_t>(row - first_row) * channels + o;
      const std::int8_t* w =
          part.w + n / kPanelColumns * s8_panel_bytes(part.k) + n % kPanelColumns * kGroupDepth;
      const std::int32_t zw = a.w_zero_points ? a.w_zero_points[o] : 0;
      std::int64_t acc = 0;
      for (std::size_t k = 0; k < part.k; ++k)
        acc += (part.scratch[k] - a.x_zero_point) *
               (w[k / kGroupDepth * kPanelColumns * kGroupDepth + k % kGroupDepth] - zw);
      epilogue_row_s64<Arch>(e, 0, o, &acc, 1);
    }
  }
}

// The positions of one phase of a transposed convolution that lie between two output rows, line by
// line of the output.
template <class Arch>
struct Scattered {
  const Part& part;
  const ConvU8S8Args& a = *part.args;
  const ConvAxis &d = part.phase.axis[0], &h = part.phase.axis[1], &w = part.phase.axis[2];

  std::int64_t line(std::int64_t sample, std::int64_t j0, std::int64_t j1) const {
    const ConvShape& s = a.shape;
    const std::int64_t o0 = d.out_first + d.out_step * j0, o1 = h.out_first + h.out_step * j1;
    return ((sample * s.out[0] + o0) * s.out[1] + o1) * s.out[2] + w.out_first;
  }
  // The first j2 of a line whose output row is `row` or later.
  std::int64_t first_at_least(std::int64_t line, std::int64_t row) const {
    return row <= line ? 0 : std::min(w.out, (row - line + w.out_step - 1) / w.out_step);
  }
  bool whole(std::int64_t line) const {
    return first_at_least(line, a.row_begin) == 0 && first_at_least(line, a.row_end) == w.out;
  }

  // A line of windows side by side (u8s8_spread).
  std::int64_t windows(std::int64_t sample, std::int64_t j0, std::int64_t j1) const {
    const std::int64_t at = line(sample, j0, j1), spread = w.out_step,
                       begin = std::max(a.row_begin, at),
                       end = std::min(a.row_end, at + a.shape.out[2]);
    if (begin >= end) return 1;
    const auto most = static_cast<std::int64_t>(u8s8_block_rows(part.k));
    const std::int64_t whole_end = part.dense ? (end - at) / spread : 0;
    for (std::int64_t j2 = (begin - at) / spread; at + j2 * spread < end;) {
      const std::int64_t first = at + j2 * spread;
      if (first < begin || j2 >= whole_end) {
        spread_position<Arch>(part, {sample, {j0, j1, j2}}, std::max(first, begin),
                              std::min(first + spread, end), first);
        ++j2;
        continue;
      }
      const std::int64_t count = std::min(whole_end - j2, most);
      block<Arch>(part, {.start = {sample, {j0, j1, j2}},
                         .count = static_cast<std::size_t>(count),
                         .first_row = static_cast<std::size_t>(first),
                         .row_step = static_cast<std::size_t>(spread)});
      j2 += count;
    }
    return 1;
  }

  // One line, or several that are whole; returns how many.
  std::int64_t lines_from(std::int64_t sample, std::int64_t j0, std::int64_t j1) const {
    const ConvLines& l = part.lines;
    const std::int64_t at = line(sample, j0, j1), end = first_at_least(at, a.row_end);
    const std::int64_t most =
        l.lines > 0 ? l.columns : static_cast<std::int64_t>(u8s8_block_rows(part.k));
    std::int64_t lines = 1;
    while (l.columns == w.out && lines < l.lines && j1 + lines < h.out && whole(at) &&
           whole(line(sample, j0, j1 + lines)))
      ++lines;
    for (std::int64_t j2 = first_at_least(at, a.row_begin); j2 < end;) {
      const std::int64_t count = std::min(end - j2, most);
      const Rows rows{.start = {sample, {j0, j1, j2}},
                      .count = static_cast<std::size_t>(count),
                      .first_row = static_cast<std::size_t>(at + w.out_step * j2),
                      .row_step = static_cast<std::size_t>(w.out_step),
                      .lines = static_cast<std::size_t>(lines),
                      .line_step = static_cast<std::size_t>(h.out_step * a.shape.out[2])};
      if (l.lines > 0)
        line_block<Arch>(part, rows);
      else
        block<Arch>(part, rows);
      j2 += count;
    }
    return lines;
  }

  void run() const {
    for (std::int64_t sample = 0; sample < a.shape.batch; ++sample)
      for (std::int64_t j0 = 0; j0 < d.out; ++j0)
        for (std::int64_t j1 = 0; j1 < h.out;)
          j1 += part.spread ? windows(sample, j0, j1) : lines_from(sample, j0, j1);
  }
};

// The epilogue's parameters once per column instead of once per channel (u8s8_spread), in scratch.
static inline Epilogue spread_epilogue(const ConvU8S8Args& a, Part& part) {
  const std::size_t channels = static_cast<std::size_t>(a.shape.out_channels),
                    columns = part.columns, each = conv_spread_bytes(a.shape) / 3;
  Epilogue e = a.epilogue;
  float* multiplier = reinterpret_cast<float*>(part.scratch);
  float* offset = reinterpret_cast<float*>(part.scratch + each);
  std::int32_t* zeros = reinterpret_cast<std::int32_t*>(part.scratch + 2 * each);
  for (std::size_t n = 0; n < columns; ++n) {
    multiplier[n] = a.epilogue.multiplier ? a.epilogue.multiplier[n % channels] : 1.0f;
    if (e.offset) offset[n] = a.epilogue.offset[n % channels];
    if (a.w_zero_points) zeros[n] = a.w_zero_points[n % channels];
  }
  e.multiplier = multiplier;
  if (e.offset) e.offset = offset;
  if (a.w_zero_points) part.w_zero_points = zeros;
  part.scratch += 3 * each;
  part.dense = e.y_stride == channels &&
               (e.residual_kind == ResidualKind::none || e.residual_stride == channels);
  return e;
}

}  // namespace conv_detail
}  // namespace fold8::kernels::simd
