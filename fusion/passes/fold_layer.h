// Constant per-channel affines folded into the weights of a linear layer:
//   behind it    s*(Wx+b)+t  =  (s*W)x + (s*b+t)             s, t per output channel
//   in front     W(s*x+t)+b  =  (W*s)x + (W*t+b)             s, t per input channel
// Everything is computed in double and rounded once to float. The layer's own constants are never
// changed: a fold makes its own copy, so layers that share a weight stay independent.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fusion/passes/movement.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// Operands of a layer after folding; or why it cannot be done.
struct FoldedLayer {
  graph::ValueId weight, bias;  // bias may be kNoValue
};
std::vector<graph::ValueId> operands(graph::ValueId x, const FoldedLayer& folded);
// In place of a layer's own; what follows stays.
void put(const FoldedLayer& folded, std::vector<graph::ValueId>& inputs);

using FoldResult = std::variant<FoldedLayer, std::string>;

// `affine` is on the layer's output (its axes are those of the output).
FoldResult fold_behind(graph::Graph& g, graph::NodeId layer, const ChannelAffine& affine);
// `affine` is on the layer's first operand.
FoldResult fold_in_front(graph::Graph& g, graph::NodeId layer, const ChannelAffine& affine);

// A residual, or scales per token: operands that see what is between the sum and the activation.
bool reads_more_than_bias(const graph::Node& layer);

// The layer's weights and bias are constants that a fold can change; fold_behind refuses others.
bool takes_factors(const graph::Graph& g, graph::NodeId layer);
// Largest magnitude of a layer's weights per output channel, or per input channel; nullopt where
// it does not take factors.
enum class Side { output, input };
std::optional<std::vector<double>> weight_ranges(const graph::Graph& g, graph::NodeId layer,
                                                 Side side);

}  // namespace fold8::fusion
