// Tables of embeddings as INT8: where Gather reads rows of a large constant f32 matrix [V, D] and
// nobody asks for their type, the table becomes s8 with one scale a row, and Gather multiplies:
//   s[v] = max_d |t[v,d]| / 127,  q[v,d] = round_half_even(t[v,d] / s[v])
//   y[.., d] = f32(q[i,d]) * s[i]                                             one rounding
// Rows that are multiplied with activations (sines and cosines of positions) stay float.
// A quarter of the bytes, in the file and wherever a row is touched. A matrix that a layer
// multiplies too (tied weights) is quantized for each use on its own terms.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "fusion/passes/quantize.h"

namespace fold8::fusion {

inline constexpr std::size_t kLeastTableBytes = std::size_t{64} << 10;  // of f32

// Names of the tables that became s8. Globs of options.keep_float that name a table or a Gather of
// it are added to `matched`, and their tables stay float.
Result<std::vector<std::string>> quantize_tables(graph::Graph& g, const QuantizeOptions& options,
                                                 std::set<std::string>& matched);

}  // namespace fold8::fusion
