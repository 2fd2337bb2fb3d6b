// Runs a float graph in double, one plain loop an operator: an oracle for tests of rewrites that
// shares no code with the runtime. Knows the operators those tests use; any other is an error.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"
#include "tests/support/array_math.h"

namespace fold8::testing_support {

// `inputs` by name. Returns the graph outputs, by name.
Result<std::map<std::string, Array>> evaluate(const graph::Graph& g,
                                              const std::map<std::string, Array>& inputs);

// Inputs for every graph input, uniform in [-2, 2], symbols taken as `symbol_extent`.
std::map<std::string, Array> random_inputs(const graph::Graph& g, std::uint64_t seed,
                                           std::int64_t symbol_extent = 3);

}  // namespace fold8::testing_support
