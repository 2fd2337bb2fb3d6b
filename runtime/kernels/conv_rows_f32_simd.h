// Which inputs a block of convolution outputs reads: pointers per tap for the register tile (no
// im2col buffer). Include only from *_simd.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/conv_f32.h"
#include "runtime/kernels/conv_phase.h"
#include "runtime/kernels/gemm_f32_block.h"
#include "runtime/kernels/window_simd.h"

namespace fold8::kernels::simd {

// Neighbouring outputs of a phase: positions j[2] .. j[2] + count - 1 of one line.
struct ConvLineF32 {
  std::int64_t b, j[3], count;
};

// One register tile: its rows, and the runs of products they read. Runs that are padding for every
// row are left out.
struct ConvTileF32 {
  std::size_t first, rows;  // rows of the block
  std::size_t taps, depth;  // runs, and products of each
  bool consecutive;         // the rows follow each other in the output
  std::size_t row_step;     // floats from row to row if they are evenly apart, else 0
  const float** x;          // row_step ? [taps] : [taps][rows]
  std::size_t* w_offsets;   // [taps]
};

// A block of outputs of one phase, cut into register tiles: outputs of a line whose windows are
// whole along it are evenly apart; what is left at the borders is collected into tiles of its own.
template <class Arch>
class ConvBlockF32 {
 public:
  ConvBlockF32(const ConvF32Args& args, const float* zeros, const float** x, std::size_t* w_offsets)
      : args_(args), zeros_(zeros), x_(x), w_offsets_(w_offsets) {}

  void start(const ConvPhase& phase) {
    phase_ = phase;
    last_lines_ = 0;
    const ConvAxis& c = phase.axis[2];
    const std::int64_t reach = (c.taps - 1) * c.in_step, low = reach < 0 ? reach : 0,
                       high = reach > 0 ? reach : 0;
    // in_base + in_stride * j + [low, high] inside [0, in)
    const std::int64_t from = -c.in_base - low, to = c.in - c.in_base - high;
    whole_.begin = from > 0 ? (from + c.in_stride - 1) / c.in_stride : 0;
    whole_.end = to > 0 ? (to + c.in_stride - 1) / c.in_stride : 0;
    if (whole_.end > c.out) whole_.end = c.out;
    const ConvShape& s = args_.shape;
    if (c.taps == 0) whole_.end = whole_.begin;
    merged_ = s.groups == 1 && c.taps > 0 && (c.in_step == 1 || c.taps == 1) && c.tap_step == 1 &&
              args_.x_stride == static_cast<std::size_t>(s.in_channels);
  }

  std::size_t rows = 0;          // so far
  std::size_t m[kBlockRowsF32];  // the output row of each, in tile order
  std::size_t tiles = 0;
  ConvTileF32 tile[kBlockTilesF32];

  void clear() { rows = lines_ = 0; }
  void push(const ConvLineF32& line) {
    line_[lines_++] = line;
    rows += static_cast<std::size_t>(line.count);
  }

  // Tiles of at most `most` rows, `most_loose` where they are not evenly apart.
  void cut(std::size_t most, std::size_t most_loose) {
    if (move_last(most, most_loose)) return;
    last_lines_ = 0;
    cut_lines(most, most_loose);
    if (lines_ > kLastLines) return;
    last_lines_ = lines_, last_most_ = most, last_loose_ = most_loose;
    for (std::size_t i = 0; i < lines_; ++i) last_[i] = line_[i];
  }

 private:
  static constexpr std::int64_t kLeastRun = 4;
  static constexpr std::size_t kLastLines = 4;

  // Few lines that are the last block's, further along axis 1, all of the kernel inside along it:
  // the tiles are its tiles, elsewhere.
  bool move_last(std::size_t most, std::size_t most_loose) {
    if (lines_ != last_lines_ || most != last_most_ || most_loose != last_loose_) return false;
    const std::int64_t distance = line_[0].j[1] - last_[0].j[1];
    for (std::size_t i = 0; i < lines_; ++i) {
      const ConvLineF32 &a = last_[i], &b = line_[i];
      if (a.b != b.b || a.j[0] != b.j[0] || a.j[2] != b.j[2] || a.count != b.count ||
          b.j[1] - a.j[1] != distance || !whole_along_1(a) || !whole_along_1(b))
        return false;
    }
    const ConvAxis *const c = phase_.axis + 1, *const inner = phase_.axis + 2;
    const std::int64_t pixels = distance * c->in_stride * inner->in;
    const std::size_t outputs =
        static_cast<std::size_t>(distance * c->out_step * args_.shape.out[2]);
    const float* const no_zeros = zeros_ + args_.shape.kernel[2] * args_.shape.in_channels;
    const std::ptrdiff_t floats = pixels * static_cast<std::int64_t>(args_.x_stride);
    for (std::size_t i = 0; i < used_x_; ++i)
      if (x_[i] < zeros_ || x_[i] >= no_zeros) x_[i] += floats;
    for (std::size_t i = 0; i < placed_; ++i) m[i] += outputs;
    for (std::size_t i = 0; i < lines_; ++i) last_[i] = line_[i];
    return true;
  }
  bool whole_along_1(const ConvLineF32& line) const {
    const std::int64_t taps = phase_.axis[1].taps;
    return taps == 0 ||
           (inside_axis(1, in(1, line.j[1], 0)) && inside_axis(1, in(1, line.j[1], taps - 1)));
  }

  void cut_lines(std::size_t most, std::size_t most_loose) {
    tiles = used_x_ = used_w_ = placed_ = 0;
    std::size_t loose = 0;
    for (std::size_t i = 0; i < lines_; ++i) {
      const Span s = evenly(line_[i]);
      if (s.size() > 0) cut_line(line_[i], s, most);
    }
    for (std::size_t side = 0; side < 2; ++side)
      for (std::size_t i = 0; i < lines_; ++i) {
        const ConvLineF32& line = line_[i];
        const Span s = evenly(line);
        const std::int64_t end = line.j[2] + line.count;
        for (std::int64_t j = side == 0 ? line.j[2] : s.end; j < (side == 0 ? s.begin : end); ++j)
          place(line, j, 1), loose_[loose++] = {line.b, {line.j[0], line.j[1], j}, 1};
      }
    const std::size_t count = (loose + most_loose - 1) / most_loose;
    for (std::size_t i = 0, first = 0; i < count; ++i) {
      const std::size_t n = (loose - first + count - i - 1) / (count - i);
      cut_loose(loose_ + first, n, placed_ - loose + first);
      first += n;
    }
  }

  // The outputs of the line that are evenly apart in the input, if they are worth tiles of their
  // own; else an empty span at its end.
  Span evenly(const ConvLineF32& line) const {
    const std::int64_t end = line.j[2] + line.count;
    Span s{line.j[2] > whole_.begin ? line.j[2] : whole_.begin,
           end < whole_.end ? end : whole_.end};
    if (s.size() < kLeastRun) s.begin = s.end = end;
    return s;
  }

  // The next `n` rows are the outputs from position j of the line on.
  void place(const ConvLineF32& line, std::int64_t j, std::size_t n) {
    const ConvShape& s = args_.shape;
    const std::int64_t o[3] = {at(0, line.j[0]), at(1, line.j[1]), at(2, j)};
    const std::size_t first =
        static_cast<std::size_t>(((line.b * s.out[0] + o[0]) * s.out[1] + o[1]) * s.out[2] + o[2]);
    const std::size_t step = static_cast<std::size_t>(phase_.axis[2].out_step);
    for (std::size_t r = 0; r < n; ++r) m[placed_ + r] = first + r * step;
    placed_ += n;
  }
  std::int64_t at(int a, std::int64_t j) const {
    return phase_.axis[a].out_first + phase_.axis[a].out_step * j;
  }
  // Where tap i of axis a reads the input for output j; it may lie outside.
  std::int64_t in(int a, std::int64_t j, std::int64_t i) const {
    const ConvAxis& x = phase_.axis[a];
    return x.in_base + x.in_stride * j + x.in_step * i;
  }
  bool inside_axis(int a, std::int64_t i) const {
    return static_cast<std::uint64_t>(i) < static_cast<std::uint64_t>(phase_.axis[a].in);
  }
  const float* pixel(std::int64_t b, std::int64_t i0, std::int64_t i1, std::int64_t i2) const {
    const ConvAxis* a = phase_.axis;
    return args_.x + static_cast<std::size_t>(((b * a[0].in + i0) * a[1].in + i1) * a[2].in + i2) *
                         args_.x_stride;
  }

  ConvTileF32& add_tile(std::size_t first, std::size_t count, bool merged) {
    ConvTileF32& t = tile[tiles++];
    const ConvShape& s = args_.shape;
    const std::int64_t channels = s.in_channels / s.groups;
    t = {first,
         count,
         0,
         static_cast<std::size_t>(merged ? phase_.axis[2].taps * channels : channels),
         false,
         0,
         x_ + used_x_,
         w_offsets_ + used_w_};
    return t;
  }
  void add_tap(ConvTileF32& t, std::int64_t i0, std::int64_t i1, std::int64_t i2) {
    const ConvShape& s = args_.shape;
    const ConvAxis* a = phase_.axis;
    const std::int64_t k0 = a[0].tap_first + a[0].tap_step * i0,
                       k1 = a[1].tap_first + a[1].tap_step * i1,
                       k2 = a[2].tap_first + a[2].tap_step * i2;
    t.w_offsets[t.taps++] = static_cast<std::size_t>(((k0 * s.kernel[1] + k1) * s.kernel[2] + k2) *
                                                     (s.in_channels / s.groups)) *
                            kPanelF32;
    ++used_w_;
  }

  void cut_line(const ConvLineF32& line, Span s, std::size_t most) {
    const std::size_t total = static_cast<std::size_t>(s.size()), count = (total + most - 1) / most;
    const ConvTileF32* head = nullptr;  // of the line: the other tiles read alike, further on
    for (std::size_t i = 0, first = 0; i < count; ++i) {
      const std::size_t n = (total - first + count - i - 1) / (count - i), row = placed_;
      const std::int64_t j = s.begin + static_cast<std::int64_t>(first);
      place(line, j, n);
      ConvTileF32& t = add_tile(row, n, merged_);
      t.consecutive = phase_.axis[2].out_step == 1;
      t.row_step = static_cast<std::size_t>(phase_.axis[2].in_stride) * args_.x_stride;
      if (head) {
        follow(t, *head, first * t.row_step);
      } else {
        point_line(t, line, j);
        head = &t;
      }
      first += n;
    }
  }

  void follow(ConvTileF32& t, const ConvTileF32& head, std::size_t floats) {
    t.taps = head.taps;
    t.w_offsets = head.w_offsets;
    for (std::size_t i = 0; i < t.taps; ++i) t.x[i] = head.x[i] + floats;
    used_x_ += t.taps;
  }

  void point_line(ConvTileF32& t, const ConvLineF32& line, std::int64_t j) {
    for (std::int64_t i0 = 0; i0 < phase_.axis[0].taps; ++i0) {
      const std::int64_t p0 = in(0, line.j[0], i0);
      if (!inside_axis(0, p0)) continue;
      for (std::int64_t i1 = 0; i1 < phase_.axis[1].taps; ++i1) {
        const std::int64_t p1 = in(1, line.j[1], i1);
        if (!inside_axis(1, p1)) continue;
        for (std::int64_t i2 = 0; i2 < (merged_ ? 1 : phase_.axis[2].taps); ++i2) {
          t.x[t.taps] = pixel(line.b, p0, p1, in(2, j, i2));
          ++used_x_;
          add_tap(t, i0, i1, i2);
        }
      }
    }
  }

  void cut_loose(const ConvLineF32* row, std::size_t n, std::size_t first) {
    bool merged = merged_;
    for (std::size_t r = 0; r < n && merged; ++r) merged = whole_.has(row[r].j[2]);
    ConvTileF32& t = add_tile(first, n, merged);
    for (std::int64_t i0 = 0; i0 < phase_.axis[0].taps; ++i0)
      for (std::int64_t i1 = 0; i1 < phase_.axis[1].taps; ++i1)
        for (std::int64_t i2 = 0; i2 < (merged ? 1 : phase_.axis[2].taps); ++i2)
          if (point_loose(t, row, {i0, i1, i2})) add_tap(t, i0, i1, i2);
  }

  struct Tap {
    std::int64_t i0, i1, i2;
  };
  // Points one tap of all rows; false if it is padding for all of them.
  bool point_loose(ConvTileF32& t, const ConvLineF32* row, Tap tap) {
    const float** x = t.x + t.taps * t.rows;
    bool any = false;
    for (std::size_t r = 0; r < t.rows; ++r) {
      const std::int64_t p0 = in(0, row[r].j[0], tap.i0), p1 = in(1, row[r].j[1], tap.i1),
                         p2 = in(2, row[r].j[2], tap.i2);
      const bool in = inside_axis(0, p0) && inside_axis(1, p1) && inside_axis(2, p2);
      x[r] = in ? pixel(row[r].b, p0, p1, p2) : zeros_;
      any = any || in;
    }
    if (any) used_x_ += t.rows;
    return any;
  }

  const ConvF32Args& args_;
  const float* const zeros_;  // kernel[2] * in_channels of them
  const float** const x_;
  std::size_t* const w_offsets_;
  ConvPhase phase_;
  Span whole_;           // outputs of a line with all taps inside
  bool merged_ = false;  // such taps lie side by side in memory: a kernel line is one run
  std::size_t lines_ = 0, placed_ = 0, used_x_ = 0, used_w_ = 0;
  ConvLineF32 line_[kBlockRowsF32], loose_[kBlockRowsF32];
  std::size_t last_lines_ = 0, last_most_ = 0, last_loose_ = 0;  // of the last cut; 0: not known
  ConvLineF32 last_[kLastLines];
};

}  // namespace fold8::kernels::simd
