// By which tensors attempts are compared: the outputs, but of a Softmax what it reads.
// Probabilities near 0 and 1 hide errors, and where one class overtakes another outweigh all
// others.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace fold8::fusion {

// One name for each output of an emitted graph; empty: no output is a Softmax's.
std::vector<std::string> judged_outputs(const graph::Graph& g);

// Makes those tensors the outputs. False, and nothing changed, if one is no plain f32 tensor here.
bool judge_by(graph::Graph& g, const std::vector<std::string>& names);

// Adds those tensors to the outputs, behind them: where they are then, one for each of the graph's
// own outputs. Empty, and nothing changed, without names or if one is no plain f32 tensor here.
std::vector<std::size_t> judge_also(graph::Graph& g, const std::vector<std::string>& names);

}  // namespace fold8::fusion
