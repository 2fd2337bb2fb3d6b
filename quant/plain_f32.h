// Any stored tensor as the real numbers it stands for, in the order of its shape.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/core/tensor.h"

namespace fold8::quant {

// f32 as it is; u8, s8, s32 with params dequantized (per token: `row_scales`, one per row).
// Channels_last is put in order. nullopt for tensors that stand for no reals (indices, booleans,
// integers without params), or if scales of rows are missing.
std::optional<std::vector<float>> plain_f32(const TensorView& view, const TensorType& type,
                                            std::span<const float> row_scales = {});

// The way back: real numbers, in the order of `shape`, as a model stores them in a value of `type`,
// in plain layout. u8 and s8 round as Quantize and DynamicQuantize do (the numeric contract).
// nullopt where plain_f32() has nothing to say, for integers wider than a byte, and for scales per
// group.
struct Stored {
  Tensor elements;
  std::optional<Tensor> row_scales;  // of a per-token type: f32 [..., 1]
};
std::optional<Stored> stored(std::span<const float> reals, const Shape& shape,
                             const TensorType& type);

}  // namespace fold8::quant
