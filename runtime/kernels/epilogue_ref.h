// The epilogue (epilogue.h) of one element, in plain code: the definition every vector form has to
// match bit by bit. Include only from *_ref.cc. A reference kernel computes acc and calls
// epilogue_ref(e, m, n, acc) for each element.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "runtime/kernels/activation_generic.h"
#include "runtime/kernels/epilogue.h"

namespace fold8::kernels::reference {

inline std::uint8_t epilogue_to_u8(const Epilogue& e, float r) {
  const std::int32_t z = e.y_zero_point;
  if (e.y_divisor != 0) r = r / e.y_divisor;
  std::int32_t q = z;
  if (!std::isnan(r)) {
    const float lo = static_cast<float>(-z), hi = static_cast<float>(255 - z);
    r = r < lo ? lo : (r > hi ? hi : r);
    q = static_cast<std::int32_t>(std::nearbyintf(r)) + z;
  }
  return e.table ? e.table[q] : static_cast<std::uint8_t>(q);
}

// Everything behind the offset: residual, activation, output.
inline void epilogue_finish_ref(const Epilogue& e, std::size_t m, std::size_t n, float r) {
  const std::size_t at = m * e.residual_stride + n;
  if (e.residual_kind == ResidualKind::f32) {
    r = std::fma(static_cast<const float*>(e.residual)[at], e.residual_scale, r);
  } else if (e.residual_kind == ResidualKind::u8) {
    const std::int32_t q = static_cast<const std::uint8_t*>(e.residual)[at];
    r = std::fma(static_cast<float>(q - e.residual_zero_point), e.residual_scale, r);
  }
  r = generic::apply(e.activation, e.a, e.b, r);
  if (e.output_kind == OutputKind::u8) {
    static_cast<std::uint8_t*>(e.y)[m * e.y_stride + n] = epilogue_to_u8(e, r);
  } else {
    static_cast<float*>(e.y)[m * e.y_stride + n] = r;
  }
}

// INT8 kernels: acc is the exact sum.
inline void epilogue_ref(const Epilogue& e, std::size_t m, std::size_t n, std::int64_t acc) {
  if (e.output_kind == OutputKind::s32) {
    static_cast<std::int32_t*>(e.y)[m * e.y_stride + n] =
        static_cast<std::int32_t>(static_cast<std::uint32_t>(acc));
    return;
  }
  float r = static_cast<float>(acc);
  if (e.row_scale) r = r * e.row_scale[m];
  epilogue_finish_ref(e, m, n, std::fma(r, e.multiplier[n], e.offset ? e.offset[n] : 0.0f));
}

// f32 kernels: acc is the FMA chain.
inline void epilogue_ref(const Epilogue& e, std::size_t m, std::size_t n, float acc) {
  epilogue_finish_ref(e, m, n, acc + (e.offset ? e.offset[n] : 0.0f));
}

}  // namespace fold8::kernels::reference
