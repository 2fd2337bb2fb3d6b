// What rounding the weights of a linear layer does, by input channel: from the float weights of the
// reference and the scales of the other model. Nothing is run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quant/rounding_facts.h"
#include "runtime/graph/graph.h"

namespace fold8::quant {

struct WeightFacts {
  std::size_t inputs = 0, outputs = 0;  // channels
  bool per_tensor = false;              // one scale for all output channels
  // Of each input channel, over all outputs and taps that read it.
  std::vector<double> input_max;    // largest magnitude
  std::vector<double> input_power;  // sum of squares: what a mean square of 1 adds to the outputs
  std::vector<double> input_error;  // the same of rounding errors: step^2 / 12, or as measured
  std::vector<double> output_max;   // largest magnitude of each output channel
  std::size_t count = 0, clipped = 0;  // weights; those beyond the largest code by half a step
};

// The weights of `other_node` (a Linear or Conv with constant weights), whose float values are
// those of `reference_node`; as the model stores them, with factors of `input` and `output` applied
// (SmoothQuant, equalization). nullopt where the two cannot be compared.
std::optional<WeightFacts> weight_facts(const graph::Graph& reference,
                                        const graph::Node& reference_node,
                                        const graph::Graph& other, const graph::Node& other_node,
                                        const Rounding* input);

// How the error of a Linear's result would change with SmoothQuant at alpha 0.5: mean squares of
// the errors that rounding input and weights add, now and then. nullopt for other operators, or
// where channels are not known one by one.
struct SmoothedError {
  double now = 0, then = 0;
};
std::optional<SmoothedError> smoothed_error(const graph::Graph& reference,
                                            const graph::Node& reference_node,
                                            const RoundingFacts& input, bool per_tensor_weights);

}  // namespace fold8::quant
