// A broadcast problem with as few axes as possible: extents of 1 dropped, neighbouring axes merged
// where both operands step through them alike. At least one axis; the innermost is a row.
#pragma once

#include <cstddef>

namespace fold8::kernels {

struct Broadcast {
  int rank = 1;
  std::size_t shape[8] = {1};
  std::ptrdiff_t a_stride[8] = {}, b_stride[8] = {};
};

Broadcast collapse(int rank, const std::size_t* shape, const std::ptrdiff_t* a,
                   const std::ptrdiff_t* b) noexcept;

// Where a run over output elements begins: the row's operand offsets, and how to go on to the next.
struct BroadcastCursor {
  std::size_t index[8] = {};
  std::ptrdiff_t a = 0, b = 0;  // offsets of the first element of the current row
  std::size_t column = 0;       // first element of interest in the current row
};

BroadcastCursor seek(const Broadcast& plan, std::size_t element) noexcept;
void next_row(const Broadcast& plan, BroadcastCursor& cursor) noexcept;  // column becomes 0

}  // namespace fold8::kernels
