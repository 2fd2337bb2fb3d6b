// The common depthwise layers (2-d, kernels up to 7 high, a reach of up to 16 pixels): what is the
// same for every instruction set. Include only from depthwise_strip_simd.h and its parts.
//
// Per line of outputs, up to 64 channels and a strip of pixels, the rows under the kernel are
// interleaved into "entries": one dword per input pixel and channel holds the pixel in several rows
// ("a piece": four bytes or two 16-bit numbers). A dot product of dwords then adds all rows of a
// tap. Where the kernel moves by one row, two lines of outputs share the entries: rows i .. i + kh,
// the second line's weights moved down by one. Pieces of nothing but padding are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/kernels/depthwise_u8s8.h"

namespace fold8::kernels::simd {

inline constexpr std::size_t kStripChannels = 64;  // of a vector of bytes

// What a call always needs.
struct StripPlan {
  int lines;                 // of outputs at once, 1 or 2
  int rows;                  // of inputs for so many lines
  int pieces;                // rows / rows of a piece, rounded up
  int taps;                  // kernel[2]
  std::size_t channels;      // of a strip, at most
  std::size_t weight_bytes;  // of 16 channels
};

// The vector of weights of a piece, tap and line.
[[gnu::always_inline]] static inline std::size_t strip_weight_at(const StripPlan& p, int piece,
                                                                 int tap, int line) {
  return static_cast<std::size_t>((piece * p.taps + tap) * p.lines + line);
}

// From piece to piece of the entries.
constexpr std::size_t strip_piece_bytes(int pieces) {
  return kDepthwiseStripBytes / static_cast<std::size_t>(pieces) / 256 * 256;
}

// Engine::kPieceRows: input rows of a dword.
template <class Engine>
StripPlan strip_plan(const ConvShape& s) {
  StripPlan p;
  p.lines = s.stride[1] == 1 && s.dilation[1] == 1 && s.out[1] > 1 ? 2 : 1;
  p.rows = static_cast<int>(s.kernel[1]) + p.lines - 1;
  p.pieces = (p.rows + Engine::kPieceRows - 1) / Engine::kPieceRows;
  p.taps = static_cast<int>(s.kernel[2]);
  // Narrow layers: the pixels of a line are one run of bytes.
  const auto all = static_cast<std::size_t>(s.in_channels);
  p.channels = all % 16 == 0 && all < kStripChannels ? all : kStripChannels;
  p.weight_bytes = static_cast<std::size_t>(p.taps * p.pieces * p.lines) * 64;
  return p;
}

// The entries of some channels of a strip, and the outputs they give: groups of 16 (or 8) channels.
struct StripGroup {
  const std::uint8_t* entries;  // of the first tap of the first output
  std::size_t output, tap;      // bytes from output to output, tap to tap
  std::size_t piece;            // bytes from piece to piece
  const std::uint8_t* weights;  // [all_pieces][taps][lines] vectors
  std::size_t weight_bytes;     // from group to group
  const std::uint8_t* init[2];  // of a line: what its sums begin with
  int taps, lines;
  int first_piece, pieces;  // the others are padding
  std::size_t pixels;
  std::size_t m, line_rows;  // output row of pixel 0, and from line to line
  std::size_t sample, channel, width;
};

// Neighbouring outputs of a line that are computed together, at most: where their inputs lie from
// the first's, and how far it is from result i to i + 1, in bytes.
inline constexpr int kStripPixels = 4;
template <int N>
struct StripOutputs {
  static constexpr int kPixels = N;
  std::size_t input_step, output_step;
  [[gnu::always_inline]] std::size_t input(int i) const {
    return static_cast<std::size_t>(i) * input_step;
  }
  [[gnu::always_inline]] std::size_t step(int) const { return output_step; }
  [[gnu::always_inline]] std::size_t count() const { return N; }
};
// Of which only some may exist: the others repeat the last one.
class StripSomeOutputs {
 public:
  static constexpr int kPixels = kStripPixels;
  [[gnu::always_inline]] StripSomeOutputs(std::size_t input_step, std::size_t output_step) {
    for (std::size_t i = 0; i < kPixels; ++i) input_[i] = i * input_step, step_[i] = output_step;
  }
  [[gnu::always_inline]] void end_after(std::size_t count) {
    count_ = count;
    for (std::size_t i = count; i < kPixels; ++i) input_[i] = input_[count - 1], step_[i - 1] = 0;
  }
  [[gnu::always_inline]] std::size_t input(int i) const { return input_[i]; }
  [[gnu::always_inline]] std::size_t step(int i) const { return step_[i]; }
  [[gnu::always_inline]] std::size_t count() const { return count_; }

 private:
  std::size_t input_[kPixels], step_[kPixels], count_ = kPixels;
};

// `count` lines of outputs from line y of a sample on, and pieces [first, end): those that are not
// all padding.
struct StripBand {
  std::int64_t sample, y;
  int count, first, end;
  std::size_t piece;    // bytes from piece to piece
  std::int64_t pixels;  // outputs of a strip, at most
};

// `count` runs of the rows of one piece, each of `width` bytes.
struct StripRows {
  const std::uint8_t* from[4];
  std::size_t step[4];  // from run to run; 0: a padding row
  std::size_t width, count;
  const std::uint8_t* end;  // of x
};

// Vectors of 16 bytes may reach beyond a run, but not beyond x: how many runs, of `rows` rows, are
// far enough from its end. (Rows of padding are long enough.)
[[gnu::always_inline]] static inline std::size_t strip_whole_runs(const StripRows& s, int rows) {
  const std::size_t reach = (s.width + 15) / 16 * 16;
  std::size_t runs = s.count;
  for (int r = 0; r < rows; ++r) {
    if (s.step[r] == 0) continue;
    const auto left = static_cast<std::size_t>(s.end - s.from[r]);
    const std::size_t most = left < reach ? 0 : (left - reach) / s.step[r] + 1;
    if (most < runs) runs = most;
  }
  return runs;
}
// `count` of the runs from run `first` on.
[[gnu::always_inline]] static inline StripRows strip_runs(StripRows s, std::size_t first,
                                                          std::size_t count) {
  for (int r = 0; r < 4; ++r) s.from[r] += first * s.step[r];
  s.count = count;
  return s;
}

}  // namespace fold8::kernels::simd
