// Reductions along the middle axis of dense [outer, axis, inner] to [outer, inner].
//   sum, mean (sum / f32(axis)), sum_square (fma), l1 (of |x|), l2 (sqrt of sum_square), log_sum,
//   and log_sum_exp: m = max_j x (NaN wins; 0 if infinite), log(sum of exp(x - m)) + m
//     rule lanes: the row sum of row_sum.h (j mod 16); rule chain: from +0, j ascending. Never
//     depends on inner.
//   prod: one chain from 1, j ascending. max, min: NaN wins; max(-0,+0) = +0, min = -0.
// axis = 0: sum-like kinds give 0 (log_sum -inf), mean NaN, prod 1, max -inf, min +inf.
// arg_reduce: index of the largest (smallest) value, NaN largest (smallest); ties: lowest index, or
// highest when select_last. axis > 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fold8::kernels {

enum class ReduceKind : std::uint8_t {  // append only
  sum = 0,
  mean = 1,
  max = 2,
  min = 3,
  prod = 4,
  l1 = 5,
  l2 = 6,
  sum_square = 7,
  log_sum = 8,
  log_sum_exp = 9,
};
enum class SumRule : std::uint8_t { lanes = 0, chain = 1 };

struct ReduceArgs {
  ReduceKind kind = ReduceKind::sum;
  SumRule rule = SumRule::lanes;
  std::size_t outer = 1, axis = 0, inner = 1;
  const float* x = nullptr;
  float* y = nullptr;  // [outer, inner]; not x
};
using reduce_fn = void(const ReduceArgs& args);

struct ArgReduceArgs {
  bool largest = true, select_last = false;
  std::size_t outer = 1, axis = 0, inner = 1;
  const float* x = nullptr;
  std::int64_t* index = nullptr;  // [outer, inner]
};
using arg_reduce_fn = void(const ArgReduceArgs& args);

namespace reference {
reduce_fn reduce;
arg_reduce_fn arg_reduce;
}  // namespace reference

// Integers, exact, one body for all targets: sum, mean (rounds toward zero), max, min, prod, l1,
// sum_square; sums and products wrap in T. Other kinds are not defined for integers. axis = 0: 0, 1
// (prod), lowest (max), largest (min).
void reduce_s32(ReduceKind kind, std::size_t outer, std::size_t axis, std::size_t inner,
                const std::int32_t* x, std::int32_t* y);
void reduce_s64(ReduceKind kind, std::size_t outer, std::size_t axis, std::size_t inner,
                const std::int64_t* x, std::int64_t* y);

}  // namespace fold8::kernels
