// The activation of an epilogue, chosen at compile time: activation_generic.h with float
// parameters. F is float or a batch of floats; both give the same bits.
#pragma once

#include "runtime/kernels/activation_generic.h"

namespace fold8::kernels {

template <Activation kActivation, class F>
[[gnu::always_inline]] inline F epilogue_activate(F r, float a, float b) {
  return generic::activate<kActivation, F>(r, F(a), F(b));
}

}  // namespace fold8::kernels
