// The loops in double that offline work spends its time in, compiled for wide vectors too and
// chosen by the CPU. Every product and every sum is rounded by itself, in the order the equations
// say, so all of them give the same bits.
#pragma once

#include <cstddef>

namespace fold8::quant {

// c[i][j] = (..(c[i][j] - a[0][i] b[0][j]) - a[1][i] b[1][j]) ..   for `depth` rows of a and b
//   c [rows, cols] with row stride `stride`; a [depth, rows], b [depth, cols] with the same stride.
struct Products {
  double* c;
  const double* a;
  const double* b;
  std::size_t stride, rows, cols, depth;
};
void subtract_products(const Products& p);

// sum[j][t] = (..(sum[j][t] + r[j][0] e[0][t]) + r[j][1] e[1][t]) ..   for `depth` columns of r
//   sum [rows, kLanes]; r [rows, depth] with row stride `stride`; e [depth, kLanes]
struct Effects {
  static constexpr std::size_t kLanes = 16;
  double* sum;
  const double* r;
  const double* e;
  std::size_t stride, rows, depth;
};
void add_effects(const Effects& p);

}  // namespace fold8::quant
