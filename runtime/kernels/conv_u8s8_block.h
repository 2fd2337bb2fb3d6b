// A block of output positions of an INT8 convolution times its packed weights (gemm_u8s8_block.h).
// The inputs are read as they lie (pointwise), from lines copied once (conv_lines.h), or gathered
// row by row. Include only from conv_u8s8_simd.h and its parts.
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

}  // namespace conv_detail
}  // namespace fold8::kernels::simd
