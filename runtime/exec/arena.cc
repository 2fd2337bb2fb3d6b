#include "runtime/exec/arena.h"

#include <algorithm>
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

namespace {

// Bytes that live at each step; those behind the last first step are those at it, or fewer.
std::vector<std::size_t> live_bytes(const std::vector<Lifetime>& buffers) {
  int steps = 0;
  for (const Lifetime& b : buffers) steps = std::max(steps, b.first + 1);
  std::vector<std::size_t> live(static_cast<std::size_t>(steps) + 1, 0);  // first the changes
  for (const Lifetime& b : buffers) {
    const std::size_t bytes = round_up(b.bytes, kAlignment);
    live[static_cast<std::size_t>(b.first)] += bytes;
    if (b.last < steps) live[static_cast<std::size_t>(b.last) + 1] -= bytes;  // wraps, sums do not
  }
  for (std::size_t s = 1; s < live.size(); ++s) live[s] += live[s - 1];
  return live;
}

std::size_t largest(const std::vector<std::size_t>& v) {
  return v.empty() ? 0 : *std::max_element(v.begin(), v.end());
}

// In the given order, each at the lowest offset free during its life.
Packing pack_in_order(const std::vector<Lifetime>& buffers, const std::vector<std::size_t>& order) {
  Packing packing;
  packing.offsets.assign(buffers.size(), 0);
  std::vector<Placed> placed;
  placed.reserve(buffers.size());
  for (std::size_t i : order) {
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

// Buffers by descending key(i).
template <class Key>
std::vector<std::size_t> descending(std::size_t n, Key key) {
  std::vector<std::pair<decltype(key(std::size_t{0})), std::size_t>> keyed(n);
  for (std::size_t i = 0; i < n; ++i) keyed[i] = {key(i), i};
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = keyed[i].second;
  return order;
}

constexpr double kGoodEnough = 1.05;  // of the lower bound: more orders cost more than they save

}  // namespace

Packing pack(const std::vector<Lifetime>& buffers) {
  const std::size_t n = buffers.size();
  Packing best =
      pack_in_order(buffers, descending(n, [&](std::size_t i) { return buffers[i].bytes; }));
  const std::vector<std::size_t> live = live_bytes(buffers);
  const std::size_t least = largest(live);
  const auto good = [&] {
    return static_cast<double>(best.bytes) <= kGoodEnough * static_cast<double>(least);
  };
  if (good()) return best;
  const auto last = [&](const Lifetime& b) {
    return std::min(b.last, static_cast<int>(live.size()) - 2);
  };
  const auto length = [&](const Lifetime& b) { return last(b) - b.first; };
  const auto try_order = [&](const std::vector<std::size_t>& order) {
    Packing p = pack_in_order(buffers, order);
    if (p.bytes < best.bytes) best = std::move(p);
  };
  // What lives at the fullest steps, the longest lives first: they fill the arena from below.
  try_order(descending(n, [&](std::size_t i) {
    const Lifetime& b = buffers[i];
    return std::pair(*std::max_element(live.begin() + b.first, live.begin() + last(b) + 1),
                     length(b));
  }));
  if (good()) return best;
  try_order(descending(
      n, [&](std::size_t i) { return std::pair(length(buffers[i]), buffers[i].bytes); }));
  return best;
}

std::size_t least_bytes(const std::vector<Lifetime>& buffers) {
  return largest(live_bytes(buffers));
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
