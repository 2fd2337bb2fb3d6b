// Cross-layer equalization over classes of tensors (after Nagel et al. 2019, arXiv 1906.04721):
// feature maps that sums, gates, pooling and positively homogeneous activations tie together share
// one positive factor for each channel, which enters and leaves the class through convolutions,
//   W2 f(W1 x + b1)  =  (W2 S) f((W1 x + b1) / S)
// so that tensors with one scale for all channels get channels of like size. It reaches skip
// connections and what depthwise layers read, where no two layers are neighbours with nothing else
// between them (passes/equalize.cc looks at those, without data).
#pragma once

#include <functional>
#include <map>
#include <string>

#include "quant/calibrate.h"
#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// The tensors of all classes, and the axis of their channels: what balance() wants ranges of.
std::map<std::string, int> values_to_balance(const graph::Graph& g);

struct BalanceOptions {
  const quant::CalibrationTable* calibration =
      nullptr;  // ranges per channel of values_to_balance()
  std::function<bool(const graph::Node&)> becomes_int8;  // null: every layer
};

// Of a class whose readers are all depthwise, S_c is the range of channel c; else the root of that
// range over the largest weight that meets it. Dead channels keep 1, the geometric mean is 1.
// Classes that no INT8 layer reads stay as they are. Float results stay the same but for rounding,
// rescaled tensors remember their factors. Returns how many classes were changed.
// The graph is canonicalized, folded and fused, its layers are still float.
Result<int> balance(graph::Graph& g, const BalanceOptions& options);

}  // namespace fold8::fusion
