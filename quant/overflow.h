// Why a tensor of a float network is NaN or infinite: the sample, or the model?
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/model.h"

namespace fold8::quant {

// What to repair, as the end of a sentence about a tensor that holds NaN or an infinity: the sample
// if it holds such numbers itself; else a constant of the model that does; else the sample or the
// model's weights, whichever are so large.
std::string what_to_repair(const graph::Graph& g, const std::vector<TensorView>& inputs);

// Runs `model` once more on a sample: its first tensor, in execution order, that holds NaN or an
// infinity, by name, and what to repair. Empty: there is none.
std::string first_overflow(const std::shared_ptr<const exec::Model>& model,
                           const std::vector<TensorView>& inputs);

}  // namespace fold8::quant
