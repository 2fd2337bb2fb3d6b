// An orthogonal transform of rows that makes their elements alike in size, so that the 8 bits of a
// row are not spent on a few large ones (after Ashkboos et al. 2024, "QuaRot", arXiv 2404.00456). A
// row of D = 16 m elements is 16 segments of m; for every j < m, over v[k] = x[k m + j]:
//   y[i m + j] = sum_k h(i, k) b(k) v[k],  h(i, k) = (-1)^popcount(i & k),
//                                          b(k) = (-1)^(k0 k1 + k2 k3), k0 .. k3 the bits of k
// h is Sylvester's Hadamard matrix; the signs b, whose own transform is flat, spread what the
// segments have in common over all of them. With H = h b: H H^T = 16. The order of the sums, b
// taken into them: for bit = 1, 2, 4, 8, every k without that bit, a = v[k] and b = v[k + bit]:
//   v[k], v[k + bit] = a + b, a - b;  a - b, a + b where bit is 1 or 4 and k has the bit 2 * bit
#pragma once

#include <cstddef>
#include <utility>

namespace fold8 {

inline constexpr std::size_t kRotatedSegments = 16;

// a, b = a + b, a - b; swapped: a - b, a + b.
template <bool swapped, class V>
[[gnu::always_inline]] inline void rotate_pair(V& a, V& b) {
  const V sum = a + b, difference = a - b;
  a = swapped ? difference : sum;
  b = swapped ? sum : difference;
}

template <std::size_t bit, std::size_t... pair, class V>
[[gnu::always_inline]] inline void rotate_stage(V (&v)[kRotatedSegments],
                                                std::index_sequence<pair...>) {
  (rotate_pair < (bit == 1 || bit == 4) &&
       pair / bit % 2 !=
           0 > (v[pair / bit * 2 * bit + pair % bit], v[pair / bit * 2 * bit + pair % bit + bit]),
   ...);
}

// In place, over the elements v[0 .. 15] of any type with + and -. Without loops: where V is a
// register of many lanes, all 16 stay in registers.
template <class V>
[[gnu::always_inline]] inline void rotate_segments(V (&v)[kRotatedSegments]) {
  constexpr std::make_index_sequence<kRotatedSegments / 2> pairs;
  rotate_stage<1>(v, pairs);
  rotate_stage<2>(v, pairs);
  rotate_stage<4>(v, pairs);
  rotate_stage<8>(v, pairs);
}

}  // namespace fold8
