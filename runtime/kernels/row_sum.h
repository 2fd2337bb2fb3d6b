// The row sum of the numeric contract, for one row of floats:
//   lane[l] = 0;  lane[j mod 16] += term(j), j ascending;  then l+8 onto l, l+4, l+2, l+1; the sum
//   is lane[0]
// A register of 16 floats (or two of 8) does exactly this. sum_of_squares enters each square by
// fma.
#pragma once

#include <cstddef>

namespace fold8::kernels {

inline constexpr std::size_t kRowLanes = 16;

inline float fold_lanes(float (&lane)[kRowLanes]) {
  for (std::size_t width = kRowLanes / 2; width > 0; width /= 2)
    for (std::size_t l = 0; l < width; ++l) lane[l] = lane[l] + lane[l + width];
  return lane[0];
}

// term(j) is the value at j.
template <class Term>
inline float row_sum(std::size_t n, Term&& term) {
  float lane[kRowLanes] = {};
  for (std::size_t j = 0; j < n; ++j) lane[j % kRowLanes] = lane[j % kRowLanes] + term(j);
  return fold_lanes(lane);
}

template <class Term>
inline float row_sum_of_squares(std::size_t n, Term&& term) {
  float lane[kRowLanes] = {};
  for (std::size_t j = 0; j < n; ++j) {
    const float v = term(j);
    lane[j % kRowLanes] = __builtin_fmaf(v, v, lane[j % kRowLanes]);
  }
  return fold_lanes(lane);
}

}  // namespace fold8::kernels
