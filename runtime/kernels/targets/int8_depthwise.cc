// Family int8_depthwise for one instruction set; see target.inc.
#include "runtime/kernels/depthwise_u8s8_simd.h"
#include "runtime/kernels/targets/target.inc"

FOLD8_FAMILY(int8_depthwise) = {
#define FOLD8_KERNEL FOLD8_BODY
#include "runtime/kernels/families/int8_depthwise.inc"
#undef FOLD8_KERNEL
};
