// The contracts of all kernels: one header each, with the equation.
#pragma once
#include "runtime/kernels/gemm_f32.h"
#include "runtime/kernels/matmul_f32.h"
#include "runtime/kernels/conv_f32.h"
#include "runtime/kernels/gemm_u8s8.h"
#include "runtime/kernels/unary.h"
#include "runtime/kernels/binary.h"
#include "runtime/kernels/quantize.h"
#include "runtime/kernels/norm.h"
#include "runtime/kernels/softmax.h"
#include "runtime/kernels/reduce.h"
