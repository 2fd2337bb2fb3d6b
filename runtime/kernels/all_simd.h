// The vector bodies of all kernels. Include only from targets/*.cc.
#pragma once

#include "runtime/kernels/arch.h"
#include "runtime/kernels/gemm_f32_simd.h"
#include "runtime/kernels/matmul_f32_simd.h"
#include "runtime/kernels/conv_f32_simd.h"
#include "runtime/kernels/gemm_u8s8_simd.h"
#include "runtime/kernels/unary_simd.h"
#include "runtime/kernels/binary_simd.h"
#include "runtime/kernels/quantize_simd.h"
#include "runtime/kernels/norm_rows_simd.h"
#include "runtime/kernels/norm_rows_q8_simd.h"
#include "runtime/kernels/norm_channels_simd.h"
#include "runtime/kernels/softmax_simd.h"
#include "runtime/kernels/reduce_simd.h"
#include "runtime/kernels/arg_reduce_simd.h"
