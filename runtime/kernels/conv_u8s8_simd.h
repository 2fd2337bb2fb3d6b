// conv_u8s8.h for the vector targets: blocks of output positions, gathered, times packed weights
// (gemm_u8s8_block.h).
#pragma once

#include "runtime/kernels/conv_gather_simd.h"
#include "runtime/kernels/conv_u8s8.h"
#include "runtime/kernels/epilogue_shift.h"
#include "runtime/kernels/gemm_u8s8_block.h"

namespace fold8::kernels::simd {

namespace conv_detail {

// One phase of a call.
struct Part {
  const ConvU8S8Args* args;
  ConvPhase phase;
  const std::int8_t* w;
  std::size_t k, columns;  // of one group
  bool rows_are_input;     // a pointwise convolution reads x as it lies
  const EpilogueU8* fast;  // of all output channels, or null
};

struct Rows {                 // output positions of the phase that a block computes
  std::int64_t sample, j[3];  // the first
  std::size_t count;
  std::size_t first_row, row_step;  // in the output
};

static inline bool reads_x_as_it_lies(const ConvPhase& phase) {
  for (const ConvAxis& x : phase.axis)
    if (x.taps != 1 || x.in_base != 0 || x.in_stride != 1 || x.in != x.out || x.out_step != 1)
      return false;
  return true;
}

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
                .row_bytes = conv_gather_row_bytes(part.k)};
  std::uint8_t* gathered = static_cast<std::uint8_t*>(a.scratch);
  BlockU8S8 b;
  b.x = gathered;
  b.x_stride = gather.row_bytes;
  b.rows = rows.count;
  // Behind a gathered row lies something that weights of 0 meet; row sums must not see it.
  b.k = part.rows_are_input || a.w_zero_points ? part.k : s8_groups(part.k) * kGroupDepth;
  b.x_zero_point = a.x_zero_point;
  b.n = part.columns;
  b.panel_end = s8_panels(part.columns);
  b.scratch = gathered + conv_gather_bytes(part.k);
  float row_scale[kMostBlockRows];
  if (a.epilogue.row_scale)
    for (std::size_t r = 0; r < rows.count; ++r) row_scale[r] = a.epilogue.row_scale[rows.sample];
  for (std::int64_t g = 0; g < s.groups; ++g) {
    const std::size_t n = static_cast<std::size_t>(g) * part.columns;
    gather.channel_begin = g * gather.channels;
    if (part.rows_are_input) {
      b.x = a.x + static_cast<std::int64_t>(rows.first_row) * s.in_channels + gather.channel_begin;
      b.x_stride = static_cast<std::size_t>(s.in_channels);
    } else {
      gather_rows<Arch>(gather, rows.sample, rows.j[0], rows.j[1], rows.j[2], rows.count, gathered);
    }
    Epilogue e = epilogue_at(a.epilogue, rows.first_row, n, rows.row_step);
    if (e.row_scale) e.row_scale = row_scale;
    EpilogueU8 fast;
    if (part.fast) fast = epilogue_u8_at(*part.fast, rows.first_row, n, rows.row_step);
    b.w = part.w + static_cast<std::size_t>(g) * packed_s8_bytes(part.columns, part.k);
    b.w_zero_points = a.w_zero_points ? a.w_zero_points + n : nullptr;
    b.epilogue = &e;
    b.fast = part.fast ? &fast : nullptr;
    gemm_u8s8_block<Arch>(b);
  }
}

// Output rows in their order; a block may run over the end of a line.
template <class Arch>
void plain(const Part& part) {
  const ConvU8S8Args& a = *part.args;
  const auto& [d, h, w] = part.phase.axis;
  const std::int64_t per_sample = d.out * h.out * w.out;
  const std::int64_t most = static_cast<std::int64_t>(u8s8_block_rows(part.k));
  for (std::int64_t row = a.row_begin; row < a.row_end;) {
    const std::int64_t sample = row / per_sample, j = row % per_sample;
    std::int64_t end = a.epilogue.row_scale ? (sample + 1) * per_sample : a.row_end;
    if (end > a.row_end) end = a.row_end;
    const std::int64_t blocks = (end - row + most - 1) / most,
                       count = (end - row + blocks - 1) / blocks;
    block<Arch>(part, {.sample = sample,
                       .j = {j / (h.out * w.out), j / w.out % h.out, j % w.out},
                       .count = static_cast<std::size_t>(count),
                       .first_row = static_cast<std::size_t>(row),
                       .row_step = 1});
    row += count;
  }
}

// The positions of one phase of a transposed convolution, a line of the output at a time.
template <class Arch>
void scattered(const Part& part) {
  const ConvU8S8Args& a = *part.args;
  const ConvShape& s = a.shape;
  const auto& [d, h, w] = part.phase.axis;
  const std::int64_t most = static_cast<std::int64_t>(u8s8_block_rows(part.k));
  for (std::int64_t sample = 0; sample < s.batch; ++sample)
    for (std::int64_t j0 = 0; j0 < d.out; ++j0)
      for (std::int64_t j1 = 0; j1 < h.out; ++j1) {
        const std::int64_t o0 = d.out_first + d.out_step * j0, o1 = h.out_first + h.out_step * j1;
        const std::int64_t line =
            ((sample * s.out[0] + o0) * s.out[1] + o1) * s.out[2] + w.out_first;
        const auto first_at_least = [&](std::int64_t row) {  // j2 with line + out_step * j2 >= row
          return row <= line ? 0 : (row - line + w.out_step - 1) / w.out_step;
        };
        std::int64_t j2 = first_at_least(a.row_begin), end = first_at_least(a.row_end);
        if (end > w.out) end = w.out;
        while (j2 < end) {
          const std::int64_t count = end - j2 < most ? end - j2 : most;
          block<Arch>(part, {.sample = sample,
                             .j = {j0, j1, j2},
                             .count = static_cast<std::size_t>(count),
                             .first_row = static_cast<std::size_t>(line + w.out_step * j2),
                             .row_step = static_cast<std::size_t>(w.out_step)});
          j2 += count;
        }
      }
}

}  // namespace conv_detail

template <class Arch>
void conv_u8s8(const ConvU8S8Args& a) {
  if (a.row_begin >= a.row_end) return;
  const ConvShape& s = a.shape;
  const std::size_t groups = static_cast<std::size_t>(s.groups),
                    out_channels = static_cast<std::size_t>(s.out_channels);
  EpilogueU8 fast;
  const bool has_fast =
      epilogue_u8<Arch>(a.epilogue, 0, out_channels, fast) && a.w_zero_points == nullptr;
  conv_detail::Part part{.args = &a,
                         .phase = {},
                         .w = a.w,
                         .k = 0,
                         .columns = out_channels / groups,
                         .rows_are_input = false,
                         .fast = nullptr};
  const std::int64_t phases = conv_phases(s);
  for (std::int64_t p = 0; p < phases; ++p) {
    part.phase = conv_phase(s, p);
    part.k = static_cast<std::size_t>(conv_taps(part.phase) * (s.in_channels / s.groups));
    part.rows_are_input = conv_detail::reads_x_as_it_lies(part.phase);
    part.fast = has_fast && part.k <= gemm_u8s8_int32_depth(false) ? &fast : nullptr;
    if (s.transposed)
      conv_detail::scattered<Arch>(part);
    else
      conv_detail::plain<Arch>(part);
    part.w += groups * packed_s8_bytes(part.columns, part.k);
  }
}

}  // namespace fold8::kernels::simd
