// Family elementwise for one instruction set; see target.inc.
#include "runtime/kernels/binary_affine_simd.h"
#include "runtime/kernels/binary_simd.h"
#include "runtime/kernels/quantize_simd.h"
#include "runtime/kernels/rotary_simd.h"
#include "runtime/kernels/targets/target.inc"
#include "runtime/kernels/unary_simd.h"

FOLD8_FAMILY(elementwise) = {
#define FOLD8_KERNEL FOLD8_BODY
#include "runtime/kernels/families/elementwise.inc"
#undef FOLD8_KERNEL
};
