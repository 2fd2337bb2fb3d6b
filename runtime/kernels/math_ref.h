// f32 functions for one float, callable from any file; every vector kernel gives the same bits
// (math_generic.h has the sequences of operations and the accuracy of each).
#pragma once

#include "runtime/kernels/math_double.h"
#include "runtime/kernels/math_generic.h"

namespace fold8::kernels {

inline float exp_f32(float x) { return generic::exp(x); }
inline float log_f32(float x) { return generic::log(x); }
inline float erf_f32(float x) { return generic::erf(x); }
inline float tanh_f32(float x) { return generic::tanh(x); }
inline float sigmoid_f32(float x) { return generic::sigmoid(x); }
inline float softplus_f32(float x) { return generic::softplus(x); }
inline float max_f32(float a, float b) { return generic::max(a, b); }  // NaN wins, max(-0, +0) = +0
inline float min_f32(float a, float b) { return generic::min(a, b); }  // NaN wins, min(-0, +0) = -0

// By the double routines, rounded once: within 0.501 ulp.
inline float sin_f32(float x) { return static_cast<float>(sin_f64(x)); }
inline float cos_f32(float x) { return static_cast<float>(cos_f64(x)); }
inline float pow_f32(float x, float y) { return static_cast<float>(pow_f64(x, y)); }

}  // namespace fold8::kernels
