// Family rows for one instruction set; see target.inc.
#include "runtime/kernels/arg_reduce_simd.h"
#include "runtime/kernels/norm_channels_simd.h"
#include "runtime/kernels/norm_rows_q8_simd.h"
#include "runtime/kernels/norm_rows_simd.h"
#include "runtime/kernels/reduce_simd.h"
#include "runtime/kernels/softmax_simd.h"
#include "runtime/kernels/targets/target.inc"

FOLD8_FAMILY(rows) = {
#define FOLD8_KERNEL FOLD8_BODY
#include "runtime/kernels/families/rows.inc"
#undef FOLD8_KERNEL
};
