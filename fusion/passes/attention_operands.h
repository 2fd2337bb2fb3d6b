// Small views and transposes that the attention passes put around operands; later passes merge them
// with what is there. Types are set.
#pragma once

#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace fold8::fusion {

// The value's axes in another order.
graph::ValueId transposed(graph::Graph& g, graph::ValueId x, const graph::Ints& perm);
graph::ValueId last_two_swapped(graph::Graph& g, graph::ValueId x);
graph::ValueId unsqueezed(graph::Graph& g, graph::ValueId x, std::int64_t axis);
// [B, S, ..] as [B, S, rest..]: `rest` are extents that hold as many elements as the axes they
// replace.
graph::ValueId tokens_reshaped(graph::Graph& g, graph::ValueId x, const graph::Ints& rest);
// The shape operand {0, 0, rest...} of a Reshape that keeps [B, S].
graph::ValueId kept_two(graph::Graph& g, const std::string& stem, const graph::Ints& rest);

}  // namespace fold8::fusion
