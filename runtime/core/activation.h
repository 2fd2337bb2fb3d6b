// Activations that fuse into the epilogue of a matrix kernel; one definition for graph and kernels.
// The arithmetic, operation by operation, is in runtime/kernels/activation_ref.h.
#pragma once

#include <cstdint>

namespace fold8 {

// r is the value before, a and b are parameters. Stored in .f8 files: append only.
enum class Activation : std::uint8_t {
  none = 0,
  clip = 1,          // min(max(r, a), b); NaN stays NaN; ReLU is a = +0, b = +inf (ReLU(-0) = +0)
  leaky_relu = 2,    // r < 0 ? a * r : r
  hard_sigmoid = 3,  // min(max(fma(a, r, b), 0), 1)
  hard_swish = 4,    // r * min(max(fma(a, r, b), 0), 1)         a = 1/6, b = 1/2 by ONNX
  sigmoid = 5,       // 1 / (1 + exp(-r))
  silu = 6,          // r * sigmoid(a * r)                      a = 1 by default
  tanh = 7,
  gelu_erf = 8,   // 0.5 * r * (1 + erf(r * sqrt(1/2)))
  gelu_tanh = 9,  // 0.5 * r * (1 + tanh(sqrt(2/pi) * (r + 0.044715 r^3)))
  elu = 10,       // r < 0 ? a * (exp(r) - 1) : r
};

}  // namespace fold8
