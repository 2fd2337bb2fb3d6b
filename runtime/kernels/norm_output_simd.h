// The last step of every row norm: gamma, beta, and the row in the forms asked for. Include only
// from *_simd.h.
#pragma once

#include "runtime/kernels/norm.h"
#include "runtime/kernels/quantize_simd.h"

namespace fold8::kernels::simd {

template <class Arch>
struct NormScale {
  NormKind kind;
  const float* gamma;
  const float* beta;
  template <class N>
  FOLD8_INLINE V16<Arch> operator()(std::size_t j, N n, V16<Arch> u) const {
    if (gamma != nullptr && beta != nullptr && kind == NormKind::layer)
      return Lanes<V16<Arch>>::fma(u, load<Arch>(gamma + j, n), load<Arch>(beta + j, n));
    if (gamma != nullptr) u = u * load<Arch>(gamma + j, n);
    if (beta != nullptr) u = u + load<Arch>(beta + j, n);
    return u;
  }
};

// normalized(j, n) is row i's result from column j on. y may be what normalized() reads.
template <class Arch, class Normalized>
inline void write_norm_row(const NormOutput& out, std::size_t i, std::size_t cols,
                           Normalized&& normalized) {
  using V = V16<Arch>;
  float* y = out.y != nullptr ? out.y + i * cols : nullptr;
  std::uint8_t* q = out.q != nullptr ? out.q + i * cols : nullptr;
  if (out.quant == NormQuant::none) {
    for_steps<Arch>(cols, [&](std::size_t j, auto n) { store<Arch>(y + j, n, normalized(j, n)); });
    return;
  }
  if (out.quant == NormQuant::fixed) {
    const RoundQuotient<Arch> codes(out.q_scale, out.q_zero_point, 0, 255);
    for_steps<Arch>(cols, [&](std::size_t j, auto n) {
      const V t = normalized(j, n);
      if (y != nullptr) store<Arch>(y + j, n, t);
      store_u8<Arch>(q + j, n, codes(t));
    });
    return;
  }
  I16<Arch> largest(0);
  for_steps<Arch>(cols, [&](std::size_t j, auto n) {
    const V t = normalized(j, n);
    if (y != nullptr) store<Arch>(y + j, n, t);
    largest = Memory16<Arch>::max(largest, magnitude_bits<Arch>(keep<Arch>(t, n, 0.0f)));
  });
  const float s = row_scale_of<Arch>(largest);
  const RowQuotient<Arch> codes(s);
  for_steps<Arch>(cols, [&](std::size_t j, auto n) {
    const V t = y != nullptr ? load<Arch>(y + j, n) : normalized(j, n);
    store_u8<Arch>(q + j, n, codes(t) + I16<Arch>(128));
  });
  out.q_row_scale[i] = s;
}

}  // namespace fold8::kernels::simd
