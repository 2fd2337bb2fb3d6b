// f32 weights -> s8 in [-127, 127], zero point 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/core/quant_params.h"
#include "runtime/core/result.h"
#include "runtime/core/shape.h"

namespace fold8::quant {

enum class WeightGranularity : std::uint8_t { per_tensor, per_channel };

struct QuantizedWeight {
  std::vector<std::int8_t> codes;
  QuantParams params;
};

// `channel_axis`: the axis of the output channels of a tensor seen as [outer, channels, inner]
// around it. ConvTranspose weights [C, M/group, k..] with several groups have a channel per (group,
// column): pass groups > 1 and axis 1; the parameters are then per channel of M, in the order
// group-major, along axis 1 of the reshaped weight.
//   scale[c] = max|w[c]| / 127 (in double, rounded once), clamped to >= 2^-126 (an all-zero channel
//   gets 1) q = clamp(round_half_even(w / scale), -127, 127)
// NaN or infinity is an error that says which element.
Result<QuantizedWeight> quantize_weight(std::span<const float> w, const Shape& shape,
                                        int channel_axis, WeightGranularity granularity,
                                        std::int64_t groups = 1);

// A matrix [outputs, inputs] with a scale for every `group` consecutive inputs of an output (the
// last group of a row may be shorter); scales as above.
Result<QuantizedWeight> quantize_weight_groups(std::span<const float> w, const Shape& shape,
                                               std::int64_t group);

}  // namespace fold8::quant
