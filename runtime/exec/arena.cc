#include "runtime/exec/arena.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

namespace fold8::exec {

namespace {

struct Placed {
  std::size_t begin, end;  // bytes
  int first, last;         // steps
};

// The lowest offset at which `bytes` are free during [first, last]. `placed` is sorted by offset.
std::size_t lowest_gap(const std::vector<Placed>& placed, std::size_t bytes, int first, int last) {
  std::size_t at = 0;
  for (const Placed& p : placed) {
    if (p.last < first || last < p.first) continue;
    if (p.begin >= at + bytes) break;  // fits in front of it
    at = std::max(at, p.end);
  }
  return at;
}

}  // namespace

Packing pack(const std::vector<Lifetime>& buffers) {
  std::vector<std::size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
    return buffers[a].bytes > buffers[b].bytes;
  });
  Packing packing;
  packing.offsets.assign(buffers.size(), 0);
  std::vector<Placed> placed;
  placed.reserve(buffers.size());
  for (std::size_t i : by_size) {
    const Lifetime& b = buffers[i];
    const std::size_t bytes = round_up(b.bytes, kAlignment);
    const std::size_t at = lowest_gap(placed, bytes, b.first, b.last);
    packing.offsets[i] = at;
    packing.bytes = std::max(packing.bytes, at + bytes);
    const auto place =
        std::upper_bound(placed.begin(), placed.end(), at,
                         [](std::size_t offset, const Placed& p) { return offset < p.begin; });
    placed.insert(place, {at, at + bytes, b.first, b.last});
  }
  return packing;
}

std::size_t least_bytes(const std::vector<Lifetime>& buffers) {
  std::vector<std::pair<int, std::ptrdiff_t>> changes;  // step, bytes more from it on
  for (const Lifetime& b : buffers) {
    const auto bytes = static_cast<std::ptrdiff_t>(round_up(b.bytes, kAlignment));
    changes.emplace_back(b.first, bytes);
    if (b.last < INT32_MAX) changes.emplace_back(b.last + 1, -bytes);
  }
  std::sort(changes.begin(), changes.end());  // ends come first: they are negative
  std::ptrdiff_t live = 0, most = 0;
  for (const auto& [step, bytes] : changes) most = std::max(most, live += bytes);
  return static_cast<std::size_t>(most);
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
