// Packs buffers with known lifetimes into one block of memory.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/core/aligned.h"

namespace fold8::exec {

// Bytes that must not overlap others between the steps `first` and `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0, last = 0;
};

struct Packing {
  std::vector<std::size_t> offsets;  // of each buffer, multiples of 64
  std::size_t bytes = 0;             // of the whole
};

// Greedy: the largest buffer first, each at the lowest offset free during its life; where that
// leaves gaps, other orders are tried and the smallest result is taken. Deterministic. Lives begin
// at 0 or later.
Packing pack(const std::vector<Lifetime>& buffers);

// The most bytes that live at one step: no packing needs less.
std::size_t least_bytes(const std::vector<Lifetime>& buffers);

// Memory that only grows; what it held is lost when it does.
class Arena {
 public:
  std::byte* reserve(std::size_t bytes);  // throws std::bad_alloc
  std::byte* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  AlignedBytes memory_;
  std::size_t bytes_ = 0;
};

}  // namespace fold8::exec
