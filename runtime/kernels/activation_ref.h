// apply(kind, a, b, r) for one float, callable from any file.
#pragma once

#include "runtime/kernels/activation_generic.h"

namespace fold8::kernels {

inline float apply(Activation kind, float a, float b, float r) {
  return generic::apply<float>(kind, a, b, r);
}

}  // namespace fold8::kernels
