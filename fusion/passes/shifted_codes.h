// A number added behind an activation costs nothing in u8 if it is a whole number of steps: the
// codes of act(..) + t are those of act(..), `t / scale` higher, so the layer writes them.
#pragma once

#include <functional>
#include <optional>

#include "runtime/graph/graph.h"

namespace fold8::fusion {

// t, if `affine` is x * 1 + t with one t for all channels and x the result of a Conv with an
// activation (scale_into_activation.cc makes such pairs); else 0. producer(v): the node that makes
// v.
float shift_behind_layer(const graph::Graph& g, graph::NodeId affine,
                         const std::function<graph::NodeId(graph::ValueId)>& producer);

// `params` with the next larger scale of which t is a multiple; unchanged if t is less than a step.
QuantParams params_for_shift(const QuantParams& params, float t);

// t / scale if that is a whole number (of the size kernels take), within the rounding of a float.
std::optional<std::int64_t> whole_steps(float t, float scale);

}  // namespace fold8::fusion
