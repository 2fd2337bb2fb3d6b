// The part of a sliding window that lies inside the input, per axis. Include only from *_simd.h.
#pragma once

#include <cstdint>

namespace fold8::kernels::simd {

struct Span {
  std::int64_t begin = 0, end = 0;
  [[gnu::always_inline]] std::int64_t size() const { return end - begin; }
  [[gnu::always_inline]] bool has(std::int64_t k) const { return k >= begin && k < end; }
};

// The k in [0, kernel) with  0 <= start + k * dilation < limit.
template <class Arch>
inline Span inside(std::int64_t start, std::int64_t kernel, std::int64_t dilation,
                   std::int64_t limit) {
  Span s;
  if (dilation == 1) {  // no division in the usual case
    s.begin = start >= 0 ? 0 : -start;
    s.end = start >= limit ? 0 : limit - start;
  } else {
    s.begin = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
    s.end = start >= limit ? 0 : (limit - start + dilation - 1) / dilation;
  }
  if (s.end > kernel) s.end = kernel;
  if (s.begin > s.end) s.begin = s.end;
  return s;
}

}  // namespace fold8::kernels::simd
