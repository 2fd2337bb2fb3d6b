// A channels-last map with one value a channel (a gate, a scale, a shift): the values repeat along
// the map, so rows need not end at a pixel. Include only from *_simd.h.
#pragma once

#include "runtime/kernels/broadcast.h"
#include "runtime/kernels/vec16_simd.h"

namespace fold8::kernels::simd {

inline constexpr std::size_t kMostRepeated = 1024;

// `period` values over and over.
template <class Arch>
class Repeated {
 public:
  template <class Value>
  Repeated(std::size_t period, Value&& value)
      : period_(period), step_(period < 16 ? 16 % period : 16) {
    for (std::size_t i = 0; i < period; ++i) values_[i] = value(i);
    for (std::size_t i = 0; i < 16; ++i) values_[period + i] = values_[i];
  }
  void start(std::size_t at) { at_ = at; }
  // The next 16.
  FOLD8_INLINE V16<Arch> next() {
    const V16<Arch> v = Memory16<Arch>::load(values_ + at_);
    at_ += step_;
    if (at_ >= period_) at_ -= period_;
    return v;
  }

 private:
  std::size_t period_, step_, at_ = 0;
  float values_[kMostRepeated + 16];
};

// Whether b has one value for each of a's last axis and none of its own for the one before. If so,
// `merged` has both as one axis along which b stands still.
template <class Arch>
inline bool may_merge(const Broadcast& plan, Broadcast& merged, std::size_t most = kMostRepeated) {
  const int last = plan.rank - 1;
  if (last < 1) return false;
  const std::size_t period = plan.shape[last];
  const bool fits = period <= most && plan.a_stride[last] == 1 &&
                    plan.a_stride[last - 1] == static_cast<std::ptrdiff_t>(period) &&
                    plan.b_stride[last] == 1 && plan.b_stride[last - 1] == 0;
  if (!fits) return false;
  merged = plan;
  merged.rank = last;
  merged.shape[last - 1] *= period;
  merged.a_stride[last - 1] = 1;
  return true;
}

// The same where rows of one pixel would be too short or end in part of a vector.
template <class Arch>
inline bool repeats(const Broadcast& plan, Broadcast& merged) {
  const std::size_t period = plan.shape[plan.rank - 1];
  return (period < 128 || period % 16 != 0) && may_merge<Arch>(plan, merged);
}

}  // namespace fold8::kernels::simd
