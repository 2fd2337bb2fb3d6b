// What two models have in common: the layers that are compared, the outputs, the inputs.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/exec/model.h"

namespace fold8::quant {

// Arithmetic worth a line in a report; data movement, shapes and pure rounding are not.
bool is_layer(const graph::Op& op);

// A layer goes by the tensor it writes: LayerError::name and the like.
const std::string& layer_name(const graph::Graph& g, graph::NodeId layer);

// f32 tensors that a run computes or is given, by name.
std::set<std::string> float_tensors(const graph::Graph& g);

// Nodes of `model` that are layers and whose first result has a name in `known`, in execution
// order.
std::vector<graph::NodeId> layers_of(const exec::Model& model, const std::set<std::string>& known);

// Positions (in a's outputs, in b's) of the outputs that share a name. An error if none does.
Result<std::vector<std::pair<std::size_t, std::size_t>>> matching_outputs(const graph::Graph& a,
                                                                          const graph::Graph& b);

// a's inputs in the order of b's. An error names an input of b that a has not.
Result<std::vector<TensorView>> inputs_for(const graph::Graph& b, const graph::Graph& a,
                                           const std::vector<TensorView>& inputs);

// Between the elements a model stores of a value that a pass rescaled and the original ones: real =
// stored * rescale[c].
void undo_rescale(const graph::Value& v, const Shape& shape, std::vector<float>& values);
void apply_rescale(const graph::Value& v, const Shape& shape, std::vector<float>& values);

}  // namespace fold8::quant
