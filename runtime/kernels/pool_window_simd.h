// The walk over outputs and window positions that all pooling kernels share. Include only from
// *_simd.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/pool.h"
#include "runtime/kernels/window_simd.h"

namespace fold8::kernels::simd {

// The positions of one window inside the input: taps[a] steps of step[a] elements along each axis
// from `first` on.
struct PoolTaps {
  std::int64_t first = 0;
  std::int64_t taps[3] = {}, step[3] = {};
  std::int64_t inside = 0;     // how many
  std::int64_t with_pads = 0;  // how many inside the input and its pads
};

template <class Arch>
struct PoolGeometry {
  const PoolWindow& window;
  std::int64_t channels;

  PoolTaps taps(std::int64_t line, std::int64_t o2) const {
    const PoolAxis* axis = window.axis;
    const std::int64_t o[3] = {line / axis[1].out % axis[0].out, line % axis[1].out, o2};
    std::int64_t size = channels, first = 0;
    PoolTaps t;
    t.inside = t.with_pads = 1;
    for (int a = 2; a >= 0; --a) {
      const std::int64_t start = o[a] * axis[a].stride - axis[a].pad_begin;
      const Span k = simd::inside<Arch>(start, axis[a].kernel, axis[a].dilation, axis[a].in);
      const Span padded =
          simd::inside<Arch>(start + axis[a].pad_begin, axis[a].kernel, axis[a].dilation,
                             axis[a].in + axis[a].pad_begin + axis[a].pad_end);
      t.taps[a] = k.size();
      t.step[a] = axis[a].dilation * size;
      t.inside *= k.size();
      t.with_pads *= padded.size();
      first += (start + k.begin * axis[a].dilation) * size;
      size *= axis[a].in;
    }
    t.first = t.inside == 0 ? 0 : line / (axis[1].out * axis[0].out) * size + first;
    if (t.inside == 0) t.taps[0] = 0;
    return t;
  }
};

// visit(x + offset) for every position, ascending.
template <class Arch, class T, class Visit>
[[gnu::always_inline]] inline void for_taps(const PoolTaps& t, const T* x, Visit visit) {
  for (std::int64_t d = 0; d < t.taps[0]; ++d)
    for (std::int64_t h = 0; h < t.taps[1]; ++h) {
      const T* p = x + t.first + d * t.step[0] + h * t.step[1];
      for (std::int64_t w = 0; w < t.taps[2]; ++w, p += t.step[2]) visit(p);
    }
}

}  // namespace fold8::kernels::simd
