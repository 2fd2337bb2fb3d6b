// Where a positive factor per channel can go instead of staying on a tensor: backwards into
// whatever produced it, at no cost at run time.
//
//   LayerNorm, RMSNorm                  gamma and beta
//   Linear, Conv                        rows of the weights, and the bias; through an activation
//   that
//                                       commutes with positive scaling (Relu, LeakyRelu, none)
//   Affine                              scale and shift
//   Relu, LeakyRelu, data movement      on to what they read
//   Mul                                 one factor (of a gate, the side without the nonlinearity)
//   Attention                           V's channels
//   MatMul                              the columns of the right side: V's channels through P * V
#pragma once

#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "fusion/passes/channel_ids.h"
#include "fusion/rewrite/index.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

struct ScalePath {
  // A value between, every element of which will be `factor of its id` times what it was.
  struct Rescaled {
    graph::ValueId value;
    ChannelIds ids;
  };
  graph::NodeId into = graph::kNoNode;        // takes the factors
  ChannelIds ids;                             // of its result
  graph::ValueId constant = graph::kNoValue;  // of a Mul: the operand that takes them
  std::vector<Rescaled> between;              // from x on backwards
  ChannelClasses classes;                     // of x's channels: equal factors in each
};
// Or why there is none: an operator does not commute, or something else reads a tensor on the way.
using ScalePathResult = std::variant<ScalePath, std::string>;

// `x` has its channels on the last axis, and is read by `readers` only if the path shall be found.
ScalePathResult find_scale_path(const graph::Graph& g, const Index& index, graph::ValueId x,
                                const std::set<graph::NodeId>& readers);

// Multiplies by factor[id] (> 0). Values between keep the reciprocal as their `rescale`; those
// whose channels lie along two axes (heads apart) have no room for it and lose their name, which
// stands for the float value. Fails, with the reason and nothing changed, if constants would
// overflow.
std::string apply_scale(graph::Graph& g, const ScalePath& path, std::span<const double> factor);

// Records that x now holds factor[c] times what it did along `axis`.
void remember_rescale(graph::Value& x, int axis, std::span<const double> factor);

// A positive factor passes through: none, Relu, LeakyRelu.
bool commutes_with_scaling(Activation activation, float a, float b);

}  // namespace fold8::fusion
