// The vector bodies of all kernels. Include only from targets/*.cc.
#pragma once

#include "runtime/kernels/arch.h"
#include "runtime/kernels/gemm_f32_simd.h"
#include "runtime/kernels/matmul_f32_simd.h"
#include "runtime/kernels/conv_f32_simd.h"
#include "runtime/kernels/gemm_u8s8_simd.h"
