// apply(kind, a, b, r) for batches, the same bits as activation_ref.h. For inner loops:
// generic::with_activation and generic::activate<kind>, which branch once outside the loop. Include
// only from *_simd.h.
#pragma once

#include "runtime/kernels/activation_generic.h"
#include "runtime/kernels/lanes_simd.h"

namespace fold8::kernels::simd {

template <class F>
inline F apply(Activation kind, F a, F b, F r) {
  return generic::apply<F>(kind, a, b, r);
}
template <class F>
inline F apply(Activation kind, float a, float b, F r) {
  return generic::apply<F>(kind, F(a), F(b), r);
}

}  // namespace fold8::kernels::simd
