// Vector body of conv_f32.h. Include only from targets/*.cc.
#pragma once

#include "runtime/kernels/conv_rows_f32_simd.h"
#include "runtime/kernels/finish_f32_simd.h"
#include "runtime/kernels/gemm_f32_simd.h"

namespace fold8::kernels::simd {

template <class Arch>
class ConvF32 {
 public:
  explicit ConvF32(const ConvF32Args& args)
      : args_(args),
        taps_(static_cast<std::size_t>(conv_taps(args.shape))),
        depth_(taps_ * static_cast<std::size_t>(args.shape.in_channels / args.shape.groups)),
        n_(static_cast<std::size_t>(args.shape.out_channels / args.shape.groups)),
        most_rows_(conv_block_rows_f32(taps_)),
        rows_{args, static_cast<const float*>(args.scratch), 0, {}, {}} {
    const std::size_t zeros =
        static_cast<std::size_t>(args.shape.kernel[2] * args.shape.in_channels);
    float* z = static_cast<float*>(args.scratch);
    for (std::size_t i = 0; i < zeros; ++i) z[i] = 0.0f;
    std::byte* at = static_cast<std::byte*>(args.scratch) + aligned(zeros * sizeof(float));
    x_ = reinterpret_cast<const float**>(at);
    w_offsets_ =
        reinterpret_cast<std::size_t*>(at + aligned(most_rows_ * taps_ * sizeof(const float*)));
  }

  // Outputs in row order; those of a transposed convolution phase by phase, since a phase shares
  // its taps.
  void run() {
    const ConvShape& s = args_.shape;
    std::int64_t step[3], phase[3];
    for (int a = 0; a < 3; ++a) step[a] = s.transposed ? s.stride[a] : 1;
    for (phase[0] = 0; phase[0] < step[0]; ++phase[0])
      for (phase[1] = 0; phase[1] < step[1]; ++phase[1])
        for (phase[2] = 0; phase[2] < step[2]; ++phase[2]) {
          walk(step, phase);
          flush();
        }
  }

 private:
  static std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

  // The size of a block when `left` rows are left; a row reads about stride pixels that its
  // neighbours do not.
  std::size_t block_rows(std::size_t left) const {
    const ConvShape& s = args_.shape;
    const std::int64_t pixels = s.transposed ? 1 : s.stride[0] * s.stride[1] * s.stride[2];
    const std::size_t rows = block_rows_f32(left, static_cast<std::size_t>(s.in_channels * pixels));
    return rows < most_rows_ ? rows : most_rows_;
  }

  void walk(const std::int64_t* step, const std::int64_t* phase) {
    const ConvShape& s = args_.shape;
    if (args_.row_begin >= args_.row_end) return;
    const std::int64_t begin = static_cast<std::int64_t>(args_.row_begin),
                       end = static_cast<std::int64_t>(args_.row_end);
    for (std::int64_t line = begin / s.out[2]; line <= (end - 1) / s.out[2]; ++line) {
      ConvRowF32 at;
      at.o[1] = line % s.out[1];
      at.o[0] = line / s.out[1] % s.out[0];
      at.b = line / (s.out[1] * s.out[0]);
      if (at.o[0] % step[0] != phase[0] || at.o[1] % step[1] != phase[1]) continue;
      for (std::int64_t o = phase[2]; o < s.out[2]; o += step[2]) {
        const std::int64_t m = line * s.out[2] + o;
        if (m < begin || m >= end) continue;
        at.o[2] = o;
        if (rows_.count == 0) block_ = block_rows(static_cast<std::size_t>(end - m));
        rows_.push(at, static_cast<std::size_t>(m));
        if (rows_.count == block_) flush();
      }
    }
  }

  // All panels of the rows collected so far.
  void flush() {
    if (rows_.count == 0) return;
    const std::size_t per_group = (n_ + kPanelF32 - 1) / kPanelF32;
    const std::size_t at_once = TileShapes<Arch>::panels_for(rows_.count);
    most_ = 0;
    for (std::size_t q = args_.panel_begin, count = 0; q < args_.panel_end; q += count) {
      const std::size_t g = q / per_group, p = q % per_group;
      count = at_once;
      if (count > per_group - p) count = per_group - p;
      if (count > args_.panel_end - q) count = args_.panel_end - q;
      arrange(TileShapes<Arch>::max_rows(count));
      const std::size_t n0 = p * kPanelF32, stride = count * kPanelF32,
                        cols = n_ - n0 < stride ? n_ - n0 : stride;
      StoreF32 store;
      const bool direct = make_store_f32<Arch>(args_.epilogue, g * n_ + n0, cols, store);
      multiply(g, q, count, direct ? &store : nullptr);
      if (!direct)
        finish_f32<Arch>(args_.epilogue,
                         {0, rows_.m, rows_.count, g * n_ + n0, cols, acc_, stride});
    }
    rows_.count = 0;
  }

  // Cuts the block into tiles of at most `most` rows, unless it is cut like that already.
  void arrange(std::size_t most) {
    if (most_ == most) return;
    most_ = most;
    tiles_ = (rows_.count + most - 1) / most;
    std::size_t first = 0;
    for (std::size_t i = 0; i < tiles_; ++i) {
      ConvTileF32& t = tile_[i];
      t.first = first;
      t.rows = (rows_.count - first + tiles_ - i - 1) / (tiles_ - i);
      t.x = x_ + first * taps_;
      t.w_offsets = w_offsets_ + i * taps_;
      rows_.point(t);
      first += t.rows;
    }
  }

  // The chains of `panels` panels from q on, one depth step of all tiles after the other.
  void multiply(std::size_t g, std::size_t q, std::size_t panels, StoreF32* store) {
    TileF32 t;
    t.panel_stride = depth_ * kPanelF32;
    t.acc_stride = panels * kPanelF32;
    const float* const w = args_.w + q * t.panel_stride;
    const std::size_t channel =
        g * static_cast<std::size_t>(args_.shape.in_channels / args_.shape.groups);
    bool more = true;
    for (std::size_t step = 0; more; ++step) {
      more = false;
      for (std::size_t i = 0; i < tiles_; ++i) {
        const ConvTileF32& tile = tile_[i];
        t.acc = acc_ + tile.first * t.acc_stride;
        const std::size_t runs = tile.depth < kDepthStepF32 ? kDepthStepF32 / tile.depth : 1;
        const std::size_t pieces = (tile.depth + kDepthStepF32 - 1) / kDepthStepF32;
        const std::size_t tap = step / pieces * runs, k0 = step % pieces * kDepthStepF32;
        if (tap >= tile.taps && step != 0) continue;
        t.first = step == 0;
        t.taps = tile.taps - tap < runs ? tile.taps - tap : runs;
        t.depth = tile.depth - k0 < kDepthStepF32 ? tile.depth - k0 : kDepthStepF32;
        t.rows = tile.x + tap * tile.rows;
        t.w_offsets = tile.w_offsets + tap;
        t.w = w + k0 * kPanelF32;
        t.offset = channel + k0;
        if (store) store->ms = rows_.m + tile.first;
        t.store = (step + 1) / pieces * runs >= tile.taps ? store : nullptr;
        TileShapes<Arch>::pick(tile.rows, panels)(t);
        more = true;
      }
    }
  }

  const ConvF32Args& args_;
  const std::size_t taps_, depth_, n_, most_rows_;
  ConvRowsF32<Arch> rows_;
  const float** x_;
  std::size_t* w_offsets_;
  std::size_t block_ = 0, most_ = 0, tiles_ = 0;
  ConvTileF32 tile_[kBlockTilesF32];
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
