// How conv_u8s8 reads a convolution of several taps without copying every input once per tap: the
// lines of input that a block of outputs needs are copied once, with their padding, and each output
// then reads `runs` runs of bytes from them, at the same distances for all outputs.
#pragma once

#include "runtime/kernels/conv_u8s8.h"

namespace fold8::kernels {

inline constexpr std::size_t kMostRuns = 256;

// A block is `lines` neighbouring lines of at most `columns` outputs each. Zero lines: the shape is
// not for this way (one tap, lines too long or too short, too many runs, channels that do not fill
// groups of 4).
struct ConvLines {
  std::int64_t lines = 0, columns = 0;
  std::int64_t planes = 0, rows = 0, pixels = 0;  // of the copy: [planes][rows][pixels][channels]
  std::int64_t channels = 0;                      // of one group of the convolution
  std::size_t runs = 0, run_depth = 0;            // k of a run, a multiple of 4

  // Of the copy, with two bytes for each input byte: what the widest target takes. The slack is
  // read, but only zero weights meet it.
  constexpr std::size_t bytes() const {
    return lines == 0
               ? 0
               : (static_cast<std::size_t>(2 * planes * rows * pixels * channels) + 191) / 64 * 64;
  }
};

ConvLines conv_lines(const ConvShape& shape, const ConvPhase& phase);

}  // namespace fold8::kernels
