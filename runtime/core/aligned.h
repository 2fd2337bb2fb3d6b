// Memory aligned to cache lines, with readable padding behind it so that vector tails may load past
// the end.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace fold8 {

inline constexpr std::size_t kAlignment = 64;
inline constexpr std::size_t kTailPadding = 64;

inline constexpr std::size_t round_up(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

struct FreeBytes {
  void operator()(std::byte* p) const { std::free(p); }
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeBytes>;

// Not zeroed. Throws std::bad_alloc: callers at an ABI edge turn it into an Error.
inline AlignedBytes allocate_aligned(std::size_t bytes) {
  void* p = std::aligned_alloc(kAlignment, round_up(bytes + kTailPadding, kAlignment));
  if (p == nullptr) throw std::bad_alloc();
  return AlignedBytes(static_cast<std::byte*>(p));
}

}  // namespace fold8
