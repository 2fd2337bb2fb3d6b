// Weights by output channel: what the float model has, and what the other model's codes can hold.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/exec/model.h"

namespace fold8::quant {

inline constexpr double kDeadChannel = 1e-6;  // of the median channel's largest magnitude, or zero
inline constexpr double kHugeChannel = 8;     // times the median

struct WeightRanges {
  std::string name;              // of the layer's tensor, as LayerError::name
  std::vector<float> reference;  // largest |w| of each output channel; empty: no such layer there
  // Largest |w| that the other model's codes stand for, of each output channel; empty: float.
  std::vector<float> limit;
  std::vector<float> scales;  // of the codes: one for all, or one per channel or group
  bool rescaled = false;      // smoothing moved factors into or out of the other's weights
  std::vector<std::size_t> dead, huge;  // channels of `reference`
};

// Of every layer (Linear, Conv) of `other` with constant weights, in execution order.
Result<std::vector<WeightRanges>> weight_ranges(const exec::Model& reference,
                                                const exec::Model& other);

}  // namespace fold8::quant
