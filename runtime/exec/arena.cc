#include "runtime/exec/arena.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace fold8::exec {
namespace {

struct Span {
  std::size_t begin, end;  // bytes
};

// The lowest offset with room for `bytes` between `taken`, which are sorted by offset.
std::size_t lowest_gap(std::span<const Span> taken, std::size_t bytes) {
  std::size_t at = 0;
  for (const Span& t : taken) {
    if (t.begin >= at + bytes) break;  // fits in front of it
    at = std::max(at, t.end);
  }
  return at;
}

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

// Which buffers live at the same time: a handful each, where a network is a chain.
class Neighbours {
 public:
  explicit Neighbours(const std::vector<Lifetime>& buffers) : begin_(buffers.size() + 1, 0) {
    const auto n = static_cast<std::uint32_t>(buffers.size());
    std::vector<std::uint32_t> by_first(n), alive;
    for (std::uint32_t i = 0; i < n; ++i) by_first[i] = i;
    if (!std::is_sorted(buffers.begin(), buffers.end(), begins_earlier))
      std::stable_sort(by_first.begin(), by_first.end(), [&](std::uint32_t a, std::uint32_t b) {
        return begins_earlier(buffers[a], buffers[b]);
      });
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
    pairs.reserve(8 * n);
    for (const std::uint32_t i : by_first) {
      std::erase_if(alive, [&](std::uint32_t j) { return buffers[j].last < buffers[i].first; });
      for (const std::uint32_t j : alive) pairs.emplace_back(i, j);
      alive.push_back(i);
    }
    for (const auto& [i, j] : pairs) ++begin_[i + 1], ++begin_[j + 1];
    for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    list_.resize(2 * pairs.size());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (const auto& [i, j] : pairs) list_[next[i]++] = j, list_[next[j]++] = i;
  }
  std::span<const std::uint32_t> of(std::size_t i) const {
    return {list_.data() + begin_[i], begin_[i + 1] - begin_[i]};
  }

 private:
  static bool begins_earlier(const Lifetime& a, const Lifetime& b) { return a.first < b.first; }
  std::vector<std::size_t> begin_;  // [buffers + 1]: into list_
  std::vector<std::uint32_t> list_;
};

// In the given order, each at the lowest offset free during its life.
Packing pack_in_order(const std::vector<Lifetime>& buffers, const Neighbours& neighbours,
                      const std::vector<std::uint32_t>& order) {
  constexpr std::size_t kNowhere = SIZE_MAX;
  Packing packing;
  packing.offsets.assign(buffers.size(), kNowhere);
  std::vector<Span> taken;  // by neighbours
  for (const std::uint32_t i : order) {
    taken.clear();
    for (const std::uint32_t j : neighbours.of(i)) {
      const std::size_t at = packing.offsets[j];
      if (at == kNowhere) continue;
      taken.push_back({at, at + round_up(buffers[j].bytes, kAlignment)});
    }
    std::sort(taken.begin(), taken.end(),
              [](const Span& a, const Span& b) { return a.begin < b.begin; });
    const std::size_t bytes = round_up(buffers[i].bytes, kAlignment);
    packing.offsets[i] = lowest_gap(taken, bytes);
    packing.bytes = std::max(packing.bytes, packing.offsets[i] + bytes);
  }
  return packing;
}

// All live at the same time: one behind the other.
Packing pack_side_by_side(const std::vector<Lifetime>& buffers) {
  Packing packing;
  packing.offsets.reserve(buffers.size());
  for (const Lifetime& b : buffers) {
    packing.offsets.push_back(packing.bytes);
    packing.bytes += round_up(b.bytes, kAlignment);
  }
  return packing;
}

// Buffers by descending key(i).
template <class Key>
std::vector<std::uint32_t> descending(std::size_t n, Key key) {
  std::vector<std::pair<decltype(key(std::size_t{0})), std::uint32_t>> keyed(n);
  for (std::size_t i = 0; i < n; ++i) keyed[i] = {key(i), static_cast<std::uint32_t>(i)};
  std::sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  });
  std::vector<std::uint32_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = keyed[i].second;
  return order;
}

constexpr double kGoodEnough = 1.05;  // of the lower bound: more orders cost more than they save

}  // namespace

Packing pack(const std::vector<Lifetime>& buffers) {
  const std::size_t n = buffers.size();
  const std::vector<std::size_t> live = live_bytes(buffers);
  const std::size_t least = largest(live);
  Packing best = pack_side_by_side(buffers);
  if (best.bytes == least) return best;
  const Neighbours neighbours(buffers);
  const auto try_order = [&](const std::vector<std::uint32_t>& order) {
    Packing p = pack_in_order(buffers, neighbours, order);
    if (p.bytes < best.bytes) best = std::move(p);
    return static_cast<double>(best.bytes) <= kGoodEnough * static_cast<double>(least);
  };
  const auto last = [&](const Lifetime& b) {
    return std::min(b.last, static_cast<int>(live.size()) - 2);
  };
  const auto length = [&](const Lifetime& b) { return last(b) - b.first; };
  if (try_order(descending(n, [&](std::size_t i) { return buffers[i].bytes; }))) return best;
  // What lives at the fullest steps, the longest lives first: they fill the arena from below.
  if (try_order(descending(n, [&](std::size_t i) {
        const Lifetime& b = buffers[i];
        return std::pair(*std::max_element(live.begin() + b.first, live.begin() + last(b) + 1),
                         length(b));
      })))
    return best;
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
