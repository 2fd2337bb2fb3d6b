// Vector body of conv_f32.h. Include only from targets/*.cc.
#pragma once

#include "runtime/kernels/conv_rows_f32_simd.h"
#include "runtime/kernels/finish_f32_simd.h"
#include "runtime/kernels/gemm_f32_simd.h"
#include "runtime/kernels/tile_groups_f32_simd.h"

namespace fold8::kernels::simd {

template <class Arch>
class ConvF32 {
 public:
  explicit ConvF32(const ConvF32Args& args)
      : args_(args),
        taps_(static_cast<std::size_t>(conv_taps(args.shape))),
        depth_(taps_ * static_cast<std::size_t>(args.shape.in_channels / args.shape.groups)),
        n_(static_cast<std::size_t>(args.shape.out_channels / args.shape.groups)),
        most_rows_(conv_block_rows_f32(taps_) < kBlockRowsF32 ? conv_block_rows_f32(taps_)
                                                              : kBlockRowsF32),
        block_(args, static_cast<const float*>(args.scratch), pointers(args),
               reinterpret_cast<std::size_t*>(pointers(args) + aligned(most_rows_ * taps_))) {
    const std::size_t zeros = zero_count(args.shape);
    float* z = static_cast<float*>(args.scratch);
    for (std::size_t i = 0; i < zeros; ++i) z[i] = 0.0f;
  }

  // Outputs in row order; those of a transposed convolution phase by phase, since a phase shares
  // its taps.
  void run() {
    if (args_.row_begin >= args_.row_end) return;
    const std::int64_t phases = conv_phases(args_.shape);
    for (std::int64_t i = 0; i < phases; ++i) {
      const ConvPhase phase = conv_phase(args_.shape, i);
      block_.start(phase);
      walk(phase);
      flush();
    }
  }

 private:
  static std::size_t zero_count(const ConvShape& s) {
    return static_cast<std::size_t>(s.kernel[2] * s.in_channels);
  }
  static std::size_t aligned(std::size_t words) { return (words + 7) / 8 * 8; }
  static const float** pointers(const ConvF32Args& args) {
    return reinterpret_cast<const float**>(args.scratch) +
           aligned((zero_count(args.shape) + 1) / 2);
  }

  // The size of a block when `left` rows are left; a row reads about as many pixels that its
  // neighbours do not as the window moves by.
  std::size_t block_rows(std::size_t left) const {
    const ConvShape& s = args_.shape;
    const std::int64_t pixels = s.transposed ? 1 : s.stride[0] * s.stride[1] * s.stride[2];
    const std::size_t rows =
        block_rows_f32(left, static_cast<std::size_t>(s.in_channels * pixels), most_rows_);
    // Whole lines, where that does not read the weights much more often.
    const std::size_t line = static_cast<std::size_t>(s.out[2]);
    return depth_ <= kDepthStepF32 && rows < left && rows > line ? rows / line * line : rows;
  }

  // All outputs of the phase among the rows asked for, line by line.
  void walk(const ConvPhase& p) {
    const ConvShape& s = args_.shape;
    const ConvAxis& c = p.axis[2];
    const std::int64_t begin = static_cast<std::int64_t>(args_.row_begin),
                       end = static_cast<std::int64_t>(args_.row_end);
    for (std::int64_t line = begin / s.out[2]; line <= (end - 1) / s.out[2]; ++line) {
      const std::int64_t o1 = line % s.out[1] - p.axis[1].out_first,
                         o0 = line / s.out[1] % s.out[0] - p.axis[0].out_first;
      if (o0 < 0 || o1 < 0 || o0 % p.axis[0].out_step != 0 || o1 % p.axis[1].out_step != 0)
        continue;
      // out_first + out_step * j within [begin, end) of the line
      const std::int64_t low = begin - line * s.out[2] - c.out_first,
                         high = end - line * s.out[2] - c.out_first;
      std::int64_t j = low > 0 ? (low + c.out_step - 1) / c.out_step : 0;
      std::int64_t stop = high > 0 ? (high + c.out_step - 1) / c.out_step : 0;
      if (stop > c.out) stop = c.out;
      while (j < stop) {
        if (block_.rows == 0)
          most_block_ =
              block_rows(static_cast<std::size_t>(end - line * s.out[2] - j * c.out_step));
        const std::int64_t room = static_cast<std::int64_t>(most_block_ - block_.rows),
                           count = stop - j < room ? stop - j : room;
        block_.push({line / (s.out[1] * s.out[0]),
                     {o0 / p.axis[0].out_step, o1 / p.axis[1].out_step, j},
                     count});
        j += count;
        if (block_.rows == most_block_) flush();
      }
    }
  }

  // All panels of the rows collected so far.
  void flush() {
    if (block_.rows == 0) return;
    const std::size_t per_group = (n_ + kPanelF32 - 1) / kPanelF32;
    const std::size_t at_once = TileShapes<Arch>::panels_for(block_.rows);
    std::size_t cut = 0, cut_loose = 0;
    for (std::size_t q = several_groups(), count = 0; q < args_.panel_end; q += count) {
      const std::size_t g = q / per_group, p = q % per_group;
      const std::size_t left =
          args_.panel_end - q < per_group - p ? args_.panel_end - q : per_group - p;
      count = balanced_part(left, at_once);
      const std::size_t n0 = p * kPanelF32, stride = count * kPanelF32,
                        cols = n_ - n0 < stride ? n_ - n0 : stride;
      const std::size_t vectors = TileShapes<Arch>::vectors(cols),
                        most = TileShapes<Arch>::max_rows(vectors),
                        most_loose = TileShapes<Arch>::max_loose_rows(vectors);
      if (most != cut || most_loose != cut_loose) block_.cut(most, most_loose);
      cut = most;
      cut_loose = most_loose;
      StoreF32 store;
      const bool direct = make_store_f32<Arch>(args_.epilogue, g * n_ + n0, cols, store);
      multiply({g, q, stride, vectors}, direct ? &store : nullptr);
      if (!direct)
        finish_f32<Arch>(args_.epilogue,
                         {0, block_.m, block_.rows, g * n_ + n0, cols, acc_, stride});
    }
    block_.clear();
  }

  // The panels that can be computed several groups at a time; returns the first that is left.
  std::size_t several_groups() {
    const std::size_t begin = args_.panel_begin, end = args_.panel_end;
    if constexpr (Width512<Arch>) {
      const std::size_t channels = n_, at_once = kPanelF32 / channels;
      StoreF32 store;
      if (!share_ || end - begin < at_once ||
          !make_store_f32<Arch>(args_.epilogue, begin * n_, kPanelF32, store))
        return begin;
      block_.cut(kGroupTileRows, kGroupTileRows);
      float* const weights = acc_ + kGroupTileRows * kPanelF32;
      std::size_t q = begin;
      for (; q + at_once <= end; q += at_once) {
        make_store_f32<Arch>(args_.epilogue, q * n_, kPanelF32, store);
        multiply_groups({channels, args_.w + q * depth_ * kPanelF32, depth_, weights}, q * channels,
                        store);
      }
      return q;
    }
    return begin;
  }

  void multiply_groups(const GroupTileF32<Arch>& groups, std::size_t channel, StoreF32& store) {
    TileF32 t;
    t.acc = acc_;
    t.acc_stride = kPanelF32;
    t.offset = channel;
    t.store = &store;
    for (std::size_t i = 0; i < block_.tiles; ++i) {
      const ConvTileF32& tile = block_.tile[i];
      t.taps = tile.taps;
      t.even = tile.row_step != 0;
      t.row_step = tile.row_step;
      t.rows = tile.x;
      t.w_offsets = tile.w_offsets;
      point_store(tile, store);
      pick_group_tile<Arch>(tile.rows)(t, groups);
    }
  }

  // At the outputs of a tile.
  void point_store(const ConvTileF32& tile, StoreF32& store) const {
    const std::size_t* const m = block_.m + tile.first;
    store.m = m[0];
    store.m_step = tile.rows > 1 ? m[1] - m[0] : 1;
    store.ms = tile.row_step != 0 || tile.rows == 1 ? nullptr : m;
  }

  // The part of a tile's chains that one depth step takes: `taps` runs from `tap` on, `depth`
  // products of each from k on.
  struct Part {
    std::size_t tap, taps, k, depth;
    bool last;
  };
  static bool part_of(const ConvTileF32& tile, std::size_t step, Part& part) {
    if (tile.taps * tile.depth <= kDepthStepF32) {
      part = {0, tile.taps, 0, tile.depth, true};
      return step == 0;
    }
    const std::size_t runs = tile.depth < kDepthStepF32 ? kDepthStepF32 / tile.depth : 1;
    const std::size_t pieces = (tile.depth + kDepthStepF32 - 1) / kDepthStepF32;
    part.tap = step / pieces * runs;
    part.k = step % pieces * kDepthStepF32;
    if (part.tap >= tile.taps) return false;
    part.taps = tile.taps - part.tap < runs ? tile.taps - part.tap : runs;
    part.depth = tile.depth - part.k < kDepthStepF32 ? tile.depth - part.k : kDepthStepF32;
    part.last = (step + 1) / pieces * runs >= tile.taps;
    return true;
  }

  // Panels from q on of a group.
  struct Columns {
    std::size_t group, q, count, vectors;
  };
  // Their chains, one depth step of all tiles after the other.
  void multiply(const Columns& columns, StoreF32* store) {
    TileF32 t;
    t.panel_stride = depth_ * kPanelF32;
    t.acc_stride = columns.count;
    const float* const w = args_.w + columns.q * t.panel_stride;
    const std::size_t channel =
        columns.group * static_cast<std::size_t>(args_.shape.in_channels / args_.shape.groups);
    bool more = true;
    for (std::size_t step = 0; more; ++step) {
      more = false;
      for (std::size_t i = 0; i < block_.tiles; ++i) {
        const ConvTileF32& tile = block_.tile[i];
        Part part;
        if (!part_of(tile, step, part)) continue;
        t.acc = acc_ + tile.first * t.acc_stride;
        t.first = step == 0;
        t.taps = part.taps;
        t.depth = part.depth;
        t.even = tile.row_step != 0;
        t.row_step = tile.row_step;
        t.rows = tile.x + part.tap * (tile.row_step ? 1 : tile.rows);
        t.w_offsets = tile.w_offsets + part.tap;
        t.w = w + part.k * kPanelF32;
        t.offset = channel + part.k;
        t.store = part.last ? store : nullptr;
        if (store) point_store(tile, *store);
        TileShapes<Arch>::pick(tile.rows, columns.vectors)(t);
        more = more || !part.last;
      }
    }
  }

  const ConvF32Args& args_;
  const std::size_t taps_, depth_, n_, most_rows_;
  const bool share_ = groups_share_f32<Arch>(depth_ / taps_, n_) && depth_ <= kGroupTileDepth;
  ConvBlockF32<Arch> block_;
  std::size_t most_block_ = 0;
  alignas(64) float acc_[kBlockFloatsF32];
};

template <class Arch>
void conv_f32(const ConvF32Args& args) {
  const ConvShape& s = args.shape;
  bool pointwise = s.groups == 1;
  for (int a = 0; a < 3; ++a)
    pointwise = pointwise && s.kernel[a] == 1 && s.stride[a] == 1 && s.pad_begin[a] == 0 &&
                s.out[a] == s.in[a];
  if (!pointwise) return ConvF32<Arch>(args).run();
  GemmF32Args gemm;
  gemm.m = static_cast<std::size_t>(conv_rows(s));
  gemm.n = static_cast<std::size_t>(s.out_channels);
  gemm.k = static_cast<std::size_t>(s.in_channels);
  gemm.x = args.x;
  gemm.x_stride = args.x_stride;
  gemm.w = args.w;
  gemm.epilogue = args.epilogue;
  gemm.row_begin = args.row_begin;
  gemm.row_end = args.row_end;
  gemm.panel_begin = args.panel_begin;
  gemm.panel_end = args.panel_end;
  gemm_f32<Arch>(gemm);
}

}  // namespace fold8::kernels::simd
