// Family f32_matrix for one instruction set; see target.inc.
#include "runtime/kernels/attention_f32_simd.h"
#include "runtime/kernels/conv_f32_simd.h"
#include "runtime/kernels/depthwise_f32_simd.h"
#include "runtime/kernels/gemm_f32_simd.h"
#include "runtime/kernels/gemm_f32s8_simd.h"
#include "runtime/kernels/matmul_f32_simd.h"
#include "runtime/kernels/targets/target.inc"

FOLD8_FAMILY(f32_matrix) = {
#define FOLD8_KERNEL FOLD8_BODY
#include "runtime/kernels/families/f32_matrix.inc"
#undef FOLD8_KERNEL
};
