// Family spatial for one instruction set; see target.inc.
#include "runtime/kernels/pool_simd.h"
#include "runtime/kernels/pool_u8_simd.h"
#include "runtime/kernels/quantize_relayout_simd.h"
#include "runtime/kernels/resize_simd.h"
#include "runtime/kernels/targets/target.inc"
#include "runtime/kernels/transpose_simd.h"

FOLD8_FAMILY(spatial) = {
#define FOLD8_KERNEL FOLD8_BODY
#include "runtime/kernels/families/spatial.inc"
#undef FOLD8_KERNEL
};
