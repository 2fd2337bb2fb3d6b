// Functions that every target computes one value at a time, by the same code: rare ones, and those
// whose sequence of operations depends on the value. Not inline, so that the copy without ISA flags
// is the only one.
#pragma once

#include "runtime/kernels/binary.h"
#include "runtime/kernels/unary.h"

namespace fold8::kernels {

// The kinds of unary.h from sin on: f32(g(double(x))).
float unary_scalar(UnaryKind kind, float x) noexcept;

// x^2 and x^3 are products, x^1 is x; every other power is f32(pow_f64(x, y)).
float pow_scalar(float x, float y) noexcept;

// The exact remainder of x / y with the sign of x.
float mod_scalar(float x, float y) noexcept;

}  // namespace fold8::kernels
