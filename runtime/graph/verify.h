// Every invariant of a graph; called after each pass and after reading a file.
#pragma once

#include "runtime/graph/graph.h"

namespace fold8::graph {

// Operand counts, ids in range, single definitions, no cycles, constants hold as many bytes as
// their type says, quant params fit the shape (axis, number of scales, zero points in range of the
// dtype), u8/s8 operands of Linear and Conv carry params, norms compute in f32, names of values
// unique. The message names node and value.
Status verify(const Graph& g);

}  // namespace fold8::graph
