// The rules: one measured rounding, or one layer's weights, to a cause. Parts of quant/causes.cc.
#pragma once

#include <optional>

#include "quant/causes.h"

namespace fold8::quant {

// What a rounding suffers from. Its rules, most specific first, are those of CauseKind.
Cause cause_of_rounding(const RoundingFacts& r, const ModelFacts& facts);

// A part of a Concat that the scale of the whole loses.
std::optional<Cause> mixed_ranges(const RoundingFacts& r);

// What a layer's weights suffer from; `input` may be null.
Cause cause_of_weights(const LayerFacts& layer, const RoundingFacts* input);

// The scale that these samples ask for, over the scale there is.
double wanted_scale_ratio(const RoundingFacts& r);

// Mean squares of the errors in a linear layer's result that rounding its input and its weights
// add; none where they are not known.
struct LayerNoise {
  double signal = 0, input = 0, weights = 0;
};
std::optional<LayerNoise> layer_noise(const LayerFacts& layer, const ModelFacts& facts);

}  // namespace fold8::quant
