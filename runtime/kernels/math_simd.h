// f32 functions for batches: exp_f32(x) and so on for x of type Arch::f32, the same bits as
// math_ref.h. Include only from *_simd.h.
#pragma once

#include "runtime/kernels/lanes_simd.h"
#include "runtime/kernels/math_generic.h"

namespace fold8::kernels::simd {

template <class F>
inline F exp_f32(F x) {
  return generic::exp(x);
}
template <class F>
inline F log_f32(F x) {
  return generic::log(x);
}
template <class F>
inline F erf_f32(F x) {
  return generic::erf(x);
}
template <class F>
inline F tanh_f32(F x) {
  return generic::tanh(x);
}
template <class F>
inline F sigmoid_f32(F x) {
  return generic::sigmoid(x);
}
template <class F>
inline F softplus_f32(F x) {
  return generic::softplus(x);
}
template <class F>
inline F max_f32(F a, F b) {
  return generic::max(a, b);
}
template <class F>
inline F min_f32(F a, F b) {
  return generic::min(a, b);
}

}  // namespace fold8::kernels::simd
