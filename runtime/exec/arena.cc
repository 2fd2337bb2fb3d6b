#include "runtime/exec/arena.h"

#include <algorithm>
#include <numeric>

namespace fold8::exec {

Packing pack(const std::vector<Lifetime>& buffers) {
  std::vector<std::size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
    return buffers[a].bytes > buffers[b].bytes;
  });

  Packing packing;
  packing.offsets.assign(buffers.size(), 0);
  std::vector<std::size_t> placed;  // by offset
  for (std::size_t i : by_size) {
    const Lifetime& b = buffers[i];
    const std::size_t bytes = round_up(b.bytes, kAlignment);
    std::size_t at = 0;
    for (std::size_t j : placed) {
      const Lifetime& other = buffers[j];
      if (other.last < b.first || b.last < other.first) continue;
      if (packing.offsets[j] >= at + bytes) break;  // fits in the gap in front of it
      at = std::max(at, packing.offsets[j] + round_up(other.bytes, kAlignment));
    }
    packing.offsets[i] = at;
    packing.bytes = std::max(packing.bytes, at + bytes);
    const auto place = std::upper_bound(
        placed.begin(), placed.end(), at,
        [&](std::size_t offset, std::size_t j) { return offset < packing.offsets[j]; });
    placed.insert(place, i);
  }
  return packing;
}

std::byte* Arena::reserve(std::size_t bytes) {
  if (bytes > bytes_ || memory_ == nullptr) {
    memory_.reset();
    bytes_ = 0;
    memory_ = allocate_aligned(bytes);
    bytes_ = bytes;
  }
  return memory_.get();
}

}  // namespace fold8::exec
