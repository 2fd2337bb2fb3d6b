// conv_u8s8.h for the vector targets: blocks of output positions times packed weights
// (gemm_u8s8_block.h). Their inputs are read as they lie (pointwise), from lines copied once
// (conv_lines.h), or gathered row by row.
#pragma once

#include "runtime/kernels/conv_gather_simd.h"
#include "runtime/kernels/conv_lines_simd.h"
#include "runtime/kernels/conv_u8s8.h"
#include "runtime/kernels/epilogue_shift.h"
#include "runtime/kernels/gemm_u8s8_block.h"

namespace fold8::kernels::simd {

namespace conv_detail {

// One phase of a call.
struct Part {
  const ConvU8S8Args* args;
  const Epilogue* epilogue;           // of all columns
  const std::int32_t* w_zero_points;  // of all columns, or null
  std::uint8_t* scratch;
  ConvPhase phase;
  ConvLines lines;  // lines.lines == 0: not this way
  const std::int8_t* w;
  std::size_t k, columns;  // of one group
  bool rows_are_input;     // a pointwise convolution reads x as it lies
  bool lines_are_input;    // neighbouring rows of a line read neighbouring positions
  bool spread, dense;      // u8s8_spread > 1; then: whether a row of columns is one piece of y
  const EpilogueU8* fast;  // of all columns, or null
  EpilogueSumsFn* finish;  // the other way to finish, or null
};

struct Rows {  // output positions of the phase that a block computes
  ConvBlockStart start;
  std::size_t count;                     // of each line
  std::size_t first_row, row_step;       // in the output
  std::size_t lines = 1, line_step = 0;  // lines.lines > 0: output rows from line to line
};

static inline bool reads_x_as_it_lies(const ConvPhase& phase) {
  for (const ConvAxis& x : phase.axis)
    if (x.taps != 1 || x.in_base != 0 || x.in_stride != 1 || x.in != x.out || x.out_step != 1)
      return false;
  return true;
}

// The epilogue of group g, with row 0 at output row first_row.
struct GroupEpilogue {
  Epilogue general;
  EpilogueU8 fast;

  void set(const Part& part, std::size_t n, std::size_t first_row, std::size_t row_step) {
    general = epilogue_at(*part.epilogue, first_row, n, row_step);
    if (part.fast) fast = epilogue_u8_at(*part.fast, first_row, n, row_step);
  }
};

// What the blocks of all ways have in common.
static inline BlockU8S8 block_of(const Part& part, std::size_t group) {
  const ConvU8S8Args& a = *part.args;
  BlockU8S8 b;
  b.k = part.k;
  b.x_zero_point = a.x_zero_point;
  b.n = part.columns;
  b.panel_end = s8_panels(part.columns);
  b.w = part.w + group * packed_s8_bytes(part.columns, part.k);
  b.finish = part.finish;
  b.w_zero_points = part.w_zero_points ? part.w_zero_points + group * part.columns : nullptr;
  return b;
}

// Where in x the rows of a block begin, if they are a part of it; else null. (Rows of a transposed
// convolution never run over the end of a line.)
static inline const std::uint8_t* rows_in_x(const Part& part, const Rows& rows) {
  const ConvU8S8Args& a = *part.args;
  if (part.rows_are_input)
    return a.x + static_cast<std::int64_t>(rows.first_row) * a.shape.in_channels;
  if (!part.lines_are_input) return nullptr;
  std::int64_t at = rows.start.sample;
  for (int i = 0; i < 3; ++i) {
    const ConvAxis& x = part.phase.axis[i];
    const std::int64_t first = x.in_base + x.in_stride * rows.start.j[i],
                       last = first + (i == 2 ? static_cast<std::int64_t>(rows.count) - 1 : 0);
    if (first < 0 || last >= x.in) return nullptr;
    at = at * x.in + first;
  }
  return a.x + at * a.shape.in_channels;
}

// Gathered, or as x lies.
template <class Arch>
void block(const Part& part, const Rows& rows) {
  const ConvU8S8Args& a = *part.args;
  const ConvShape& s = a.shape;
  const auto& [d, h, w] = part.phase.axis;
  const std::int64_t positions_in = d.in * h.in * w.in;
  Gather gather{.phase = &part.phase,
                .x = a.x,
                .x_end = a.x + s.batch * positions_in * s.in_channels,
                .in_channels = s.in_channels,
                .channels = s.in_channels / s.groups,
                .fill = static_cast<std::uint8_t>(a.x_zero_point),
                .line_bytes = u8s8_line_depth(s, part.phase),
                .row_bytes = conv_gather_row_bytes(part.k)};
  std::uint8_t* gathered = part.scratch;
  const std::uint8_t* in_x = rows_in_x(part, rows);
  float row_scale[kMostBlockRows];
  if (a.epilogue.row_scale)
    for (std::size_t r = 0; r < rows.count; ++r)
      row_scale[r] = a.epilogue.row_scale[rows.start.sample];
  for (std::int64_t g = 0; g < s.groups; ++g) {
    BlockU8S8 b = block_of(part, static_cast<std::size_t>(g));
    b.rows = rows.count;
    b.scratch = gathered + conv_gather_bytes(part.k);
    gather.channel_begin = g * gather.channels;
    if (in_x != nullptr) {
      b.x = in_x + gather.channel_begin;
      b.x_stride = static_cast<std::size_t>(s.in_channels);
      b.k = static_cast<std::size_t>(gather.channels);
    } else {
      const auto& j = rows.start.j;
      gather_rows<Arch>(gather, rows.start.sample, j[0], j[1], j[2], rows.count, gathered);
      b.x = gathered;
      b.x_stride = gather.row_bytes;
    }
    GroupEpilogue e;
    e.set(part, static_cast<std::size_t>(g) * part.columns, rows.first_row, rows.row_step);
    if (e.general.row_scale) e.general.row_scale = row_scale;
    b.epilogue = &e.general;
    b.fast = part.fast ? &e.fast : nullptr;
    gemm_u8s8_block<Arch>(b);
  }
}

// From copied lines.
template <class Arch>
void line_block(const Part& part, const Rows& rows) {
  const ConvU8S8Args& a = *part.args;
  const ConvShape& s = a.shape;
  const ConvLines& l = part.lines;
  const ConvAxis& w = part.phase.axis[2];
  std::uint8_t* copied = part.scratch;
  ConvCopy copy{.phase = &part.phase,
                .lines = &l,
                .x = a.x,
                .in_channels = s.in_channels,
                .fill = static_cast<std::uint8_t>(a.x_zero_point)};
  const std::int64_t pixels =
      (static_cast<std::int64_t>(rows.count) - 1) * w.in_stride + (w.taps - 1) * w.in_step + 1;
  std::ptrdiff_t offsets[kMostRuns];
  run_offsets<Arch>(part.phase, l, offsets);
  const auto position = static_cast<std::size_t>(l.channels * kCopyBytes<Arch>);
  const bool adjoin = rows.row_step == 1 && rows.line_step == rows.count;
  for (std::int64_t g = 0; g < s.groups; ++g, copy.x += l.channels) {
    copy_lines<Arch>(copy, rows.start, static_cast<std::int64_t>(rows.lines), pixels, copied);
    BlockU8S8 b = block_of(part, static_cast<std::size_t>(g));
    b.prepared = true;
    b.rows = rows.count;
    b.runs = l.runs;
    b.run_depth = l.run_depth;
    b.run_offsets = offsets;
    b.x_stride = position * static_cast<std::size_t>(w.in_stride);
    b.line_bytes = position * static_cast<std::size_t>(l.pixels * part.phase.axis[1].in_stride);
    b.lines = adjoin ? rows.lines : 1;
    b.scratch = copied + l.bytes();
    for (std::size_t line = 0; line < rows.lines; line += b.lines) {
      GroupEpilogue e;
      e.set(part, static_cast<std::size_t>(g) * part.columns,
            rows.first_row + line * rows.line_step, rows.row_step);
      b.x = copied + line * b.line_bytes;
      b.epilogue = &e.general;
      b.fast = part.fast ? &e.fast : nullptr;
      gemm_u8s8_block<Arch>(b);
    }
  }
}

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
