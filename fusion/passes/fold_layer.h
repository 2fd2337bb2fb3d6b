// Constant per-channel affines folded into the weights of a linear layer:
//   behind it    s*(Wx+b)+t  =  (s*W)x + (s*b+t)             s, t per output channel
//   in front     W(s*x+t)+b  =  (W*s)x + (W*t+b)             s, t per input channel
// Everything is computed in double and rounded once to float. The layer's own constants are never
// changed: a fold makes its own copy, so layers that share a weight stay independent.
#pragma once

#include <string>
#include <variant>

#include "fusion/passes/movement.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// Operands of a layer after folding; or why it cannot be done.
struct FoldedLayer {
  graph::ValueId weight, bias;  // bias may be kNoValue
};
using FoldResult = std::variant<FoldedLayer, std::string>;

// `affine` is on the layer's output (its axes are those of the output).
FoldResult fold_behind(graph::Graph& g, graph::NodeId layer, const ChannelAffine& affine);
// `affine` is on the layer's first operand.
FoldResult fold_in_front(graph::Graph& g, graph::NodeId layer, const ChannelAffine& affine);

}  // namespace fold8::fusion
