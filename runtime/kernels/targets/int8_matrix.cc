// Family int8_matrix for one instruction set; see target.inc.
#include "runtime/kernels/attention_q8_simd.h"
#include "runtime/kernels/conv_u8s8_simd.h"
#include "runtime/kernels/gemm_u8s8_simd.h"
#include "runtime/kernels/targets/target.inc"

FOLD8_FAMILY(int8_matrix) = {
#define FOLD8_KERNEL FOLD8_BODY
#include "runtime/kernels/families/int8_matrix.inc"
#undef FOLD8_KERNEL
};
