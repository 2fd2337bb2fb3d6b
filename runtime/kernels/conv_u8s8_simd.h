// conv_u8s8.h for the vector targets.
#pragma once

#include "runtime/kernels/conv_u8s8_transposed.h"

namespace fold8::kernels::simd {

namespace conv_detail {

// Output rows in their order; a gathered block may run over the end of a line.
template <class Arch>
void plain(const Part& part) {
  const ConvU8S8Args& a = *part.args;
  const auto& [d, h, w] = part.phase.axis;
  const std::int64_t per_sample = d.out * h.out * w.out;
  const std::int64_t most = static_cast<std::int64_t>(u8s8_block_rows(part.k));
  for (std::int64_t row = a.row_begin; row < a.row_end;) {
    const std::int64_t sample = row / per_sample, j = row % per_sample;
    const ConvBlockStart start{sample, {j / (h.out * w.out), j / w.out % h.out, j % w.out}};
    Rows rows{
        .start = start, .count = 0, .first_row = static_cast<std::size_t>(row), .row_step = 1};
    std::int64_t end = a.epilogue.row_scale ? (sample + 1) * per_sample : a.row_end, count;
    if (end > a.row_end) end = a.row_end;
    if (part.lines.lines > 0) {
      const ConvLines& l = part.lines;
      count = std::min({end - row, w.out - start.j[2], l.columns});
      if (count == w.out)
        rows.lines =
            static_cast<std::size_t>(std::min({l.lines, h.out - start.j[1], (end - row) / w.out}));
      rows.count = rows.line_step = static_cast<std::size_t>(count);
      line_block<Arch>(part, rows);
      count *= static_cast<std::int64_t>(rows.lines);
    } else {
      const std::int64_t blocks = (end - row + most - 1) / most;
      count = (end - row + blocks - 1) / blocks;
      rows.count = static_cast<std::size_t>(count);
      block<Arch>(part, rows);
    }
    row += count;
  }
}

// What the phase decides.
static inline void set_phase(Part& part, std::int64_t index, const EpilogueU8* fast) {
  const ConvU8S8Args& a = *part.args;
  const ConvShape& s = a.shape;
  part.phase = u8s8_phase(s, index);
  part.k = u8s8_depth(s, part.phase);
  part.rows_are_input = !s.transposed && reads_x_as_it_lies(part.phase);
  part.lines_are_input =
      s.transposed && conv_taps(part.phase) == 1 && part.phase.axis[2].in_stride == 1;
  const bool fits = part.k <= gemm_u8s8_int32_depth(false);
  part.lines = {};
  if (!a.w_zero_points && !a.epilogue.row_scale && fits && !part.spread)
    part.lines = conv_lines(s, part.phase);
  part.fast = fits ? fast : nullptr;
}

}  // namespace conv_detail

template <class Arch>
void conv_u8s8(const ConvU8S8Args& a) {
  if (a.row_begin >= a.row_end) return;
  const ConvShape& s = a.shape;
  Epilogue epilogue = a.epilogue;
  conv_detail::Part part{.args = &a,
                         .epilogue = &epilogue,
                         .w_zero_points = a.w_zero_points,
                         .scratch = static_cast<std::uint8_t*>(a.scratch),
                         .w = a.w,
                         .columns = u8s8_columns(s),
                         .spread = u8s8_spread(s) > 1};
  if (part.spread) epilogue = conv_detail::spread_epilogue(a, part);
  part.finish = epilogue_sums_of<Arch>(epilogue);
  EpilogueU8 fast;
  const std::size_t groups = static_cast<std::size_t>(s.groups);
  const bool has_fast = a.w_zero_points == nullptr &&
                        epilogue_u8_tiles<Arch>(epilogue, 0, groups * part.columns, fast);
  for (std::int64_t p = 0; p < u8s8_phases(s); ++p) {
    conv_detail::set_phase(part, p, has_fast ? &fast : nullptr);
    if (s.transposed)
      conv_detail::Scattered<Arch>{part}.run();
    else
      conv_detail::plain<Arch>(part);
    part.w += groups * packed_s8_bytes(part.columns, part.k);
  }
}

}  // namespace fold8::kernels::simd
