#include "runtime/kernels/math_ref.h"
#include "runtime/kernels/reduce.h"
#include "runtime/kernels/row_sum.h"

namespace fold8::kernels::reference {
namespace {

constexpr float kInf = __builtin_inff();

template <class Term>
float sum(SumRule rule, std::size_t n, Term&& term) {
  if (rule == SumRule::lanes) return row_sum(n, term);
  float chain = 0;
  for (std::size_t j = 0; j < n; ++j) chain = chain + term(j);
  return chain;
}

template <class Term>
float sum_of_squares(SumRule rule, std::size_t n, Term&& term) {
  if (rule == SumRule::lanes) return row_sum_of_squares(n, term);
  float chain = 0;
  for (std::size_t j = 0; j < n; ++j) chain = __builtin_fmaf(term(j), term(j), chain);
  return chain;
}

// x(j) is the j-th value of the slice.
template <class Value>
float reduce_slice(ReduceKind kind, SumRule rule, std::size_t n, Value&& x) {
  float extreme = kind == ReduceKind::min ? kInf : -kInf, product = 1;
  switch (kind) {
    case ReduceKind::sum:
      return sum(rule, n, x);
    case ReduceKind::mean:
      return sum(rule, n, x) / static_cast<float>(n);
    case ReduceKind::max:
      for (std::size_t j = 0; j < n; ++j) extreme = max_f32(extreme, x(j));
      return extreme;
    case ReduceKind::min:
      for (std::size_t j = 0; j < n; ++j) extreme = min_f32(extreme, x(j));
      return extreme;
    case ReduceKind::prod:
      for (std::size_t j = 0; j < n; ++j) product = product * x(j);
      return product;
    case ReduceKind::l1:
      return sum(rule, n, [&](std::size_t j) { return __builtin_fabsf(x(j)); });
    case ReduceKind::l2:
      return __builtin_sqrtf(sum_of_squares(rule, n, x));
    case ReduceKind::sum_square:
      return sum_of_squares(rule, n, x);
    case ReduceKind::log_sum:
      return log_f32(sum(rule, n, x));
    case ReduceKind::log_sum_exp: {
      for (std::size_t j = 0; j < n; ++j) extreme = max_f32(extreme, x(j));
      const float m = extreme == kInf || extreme == -kInf ? 0.0f : extreme;
      return log_f32(sum(rule, n, [&](std::size_t j) { return exp_f32(x(j) - m); })) + m;
    }
  }
  return product;
}

}  // namespace

void reduce(const ReduceArgs& args) {
  for (std::size_t o = 0; o < args.outer; ++o)
    for (std::size_t i = 0; i < args.inner; ++i) {
      const float* x = args.x + o * args.axis * args.inner + i;
      args.y[o * args.inner + i] = reduce_slice(args.kind, args.rule, args.axis,
                                                [&](std::size_t j) { return x[j * args.inner]; });
    }
}

void arg_reduce(const ArgReduceArgs& args) {
  for (std::size_t o = 0; o < args.outer; ++o)
    for (std::size_t i = 0; i < args.inner; ++i) {
      const float* x = args.x + o * args.axis * args.inner + i;
      std::size_t best = 0;
      for (std::size_t j = 1; j < args.axis; ++j) {
        const float v = x[j * args.inner], b = x[best * args.inner];
        const bool better = args.largest ? v > b : v < b;
        const bool v_nan = v != v, b_nan = b != b, equal = v == b || (v_nan && b_nan);
        if (better || (v_nan && !b_nan) || (equal && args.select_last)) best = j;
      }
      args.index[o * args.inner + i] = static_cast<std::int64_t>(best);
    }
}

}  // namespace fold8::kernels::reference
