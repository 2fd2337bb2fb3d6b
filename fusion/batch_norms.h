// Questions about what folding left in a graph.
#pragma once

#include <vector>

#include "fusion/rewrite/rewrite.h"
#include "quant/causes.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// BatchNorms that are still there, and the multiply-adds made of BatchNorms that have a linear
// layer before or behind them (through data movement), where folding was possible in principle:
// another reader, zero padding and the like kept them. The declines of the fold stage say why.
int batch_norms_left(const graph::Graph& g);

// Every BatchNorm that is still a step of its own, those without a linear neighbour too: why
// (`declined`: of the conversion that made the graph) and what to change in the model.
std::vector<quant::UnfoldedNorm> unfolded_batch_norms(const graph::Graph& g,
                                                      const std::vector<Declined>& declined);

// A constant affine that is the only reader of a graph input (z-score, mean and std of pictures):
//   output = input * scale[c] + shift[c]     c = index along `axis`; one element each: the same
//   everywhere
// An INT8 model puts it into its input quantizer, so that standardised values are rounded and not
// raw ones.
struct InputAffine {
  graph::NodeId node;
  graph::ValueId input, output;
  int axis;
  std::vector<double> scale, shift;
};
std::vector<InputAffine> input_affines(const graph::Graph& g);

}  // namespace fold8::fusion
