// In a network whose linear layers round per token: which of the tensors they read have their rows
// rotated in front of the rounding (core/rotation.h), the layers' weights with them. A few large
// elements, as behind a GELU, a gate or the gamma of a norm, no longer take the codes of all
// others, neither in the tensor nor, where smoothing moved them there, in the weights.
#pragma once

#include <map>
#include <set>
#include <string>

#include "fusion/passes/quantize.h"
#include "quant/sample_rows.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// Names of the tensors whose rotation makes the squared error that is to be expected in the
// outputs of the layers that read them `least_gain` times smaller, or more. Errors as in
// quant/smoothquant.h: of the tensor's codes (with one scale for all rows where
// options.static_inputs says so) and of the weights' nearest codes. `rows` of the tensors.
std::set<std::string> better_rotated(const graph::Graph& g, const QuantizeOptions& options,
                                     const std::map<std::string, quant::SampleRows>& rows,
                                     double least_gain);

}  // namespace fold8::fusion
