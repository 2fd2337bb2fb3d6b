// Iteration over a dense output and operands that broadcast to it, each in its own layout.
#pragma once

#include "runtime/ops/common.h"

namespace fold8::ops {

// The output's extents in the order it lies in memory, unit axes dropped and neighbours merged
// where every operand allows it; stride[i][k]: elements of operand i along axis k (0: broadcast).
// rank >= 1.
struct Broadcast {
  static constexpr int kMaxOperands = 3;
  int rank = 1;
  std::size_t extent[Shape::kMaxRank] = {1};
  std::ptrdiff_t stride[kMaxOperands][Shape::kMaxRank] = {};
  std::size_t count = 0;
};
Broadcast make_broadcast(const TensorType& out, std::span<const TensorType* const> operands);

// f(first output element, elements, offset of each operand, stride of each operand along the line)
// for the lines (last axes) of [begin, end) output elements.
template <class F>
void each_line(const Broadcast& b, std::size_t begin, std::size_t end, const F& f) {
  const std::size_t line = b.extent[b.rank - 1];
  while (begin < end) {
    std::ptrdiff_t at[Broadcast::kMaxOperands] = {}, step[Broadcast::kMaxOperands];
    std::size_t left = begin;
    for (int k = b.rank - 1; k >= 0; --k) {
      const auto i = static_cast<std::ptrdiff_t>(left % b.extent[k]);
      left /= b.extent[k];
      for (int o = 0; o < Broadcast::kMaxOperands; ++o) at[o] += i * b.stride[o][k];
    }
    for (int o = 0; o < Broadcast::kMaxOperands; ++o) step[o] = b.stride[o][b.rank - 1];
    const std::size_t n = std::min(line - begin % line, end - begin);
    f(begin, n, at, step);
    begin += n;
  }
}

}  // namespace fold8::ops
