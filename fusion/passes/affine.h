// Per-channel multiply-adds, however a graph spells them: BatchNorm at inference, Affine,
// Mul/Add/Sub/Div by a constant.
#pragma once

#include <optional>
#include <string>

#include "fusion/passes/movement.h"
#include "fusion/rewrite/pattern.h"
#include "runtime/core/result.h"

namespace fold8::fusion {

struct AffineNode {
  graph::ValueId x = graph::kNoValue;
  ChannelAffine affine;  // in double, nothing rounded yet
  bool from_batch_norm = false;
};

// What a node computes, if it is one of the spellings above with constant f32 parameters; `why`
// explains a nullopt for a BatchNorm (running statistics, parameters that are not constant) and is
// empty for any other node.
struct AffineReading {
  std::optional<AffineNode> node;
  std::string why;
};
// Error (invalid_model, names the node): a BatchNorm whose variance + epsilon is not positive in a
// channel, so that the float model itself divides by zero.
Result<AffineReading> read_affine(const graph::Graph& g, graph::NodeId n);

// BatchNorm, Affine without activation, and Binary mul, add, sub, div: the ones read_affine may
// understand.
bool may_be_affine(const graph::Op& op);
bool is_linear_layer(const graph::Op& op);  // Linear, Conv

// "'relu_1' (relu)": a node for people.
std::string describe(const graph::Graph& g, graph::NodeId n);

}  // namespace fold8::fusion
