// Codes of the weights of linear layers and convolutions that serve the layers' outputs on the
// samples (quant/round_weights.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "quant/layer_rows.h"
#include "quant/quantize_weights.h"
#include "quant/sample_source.h"
#include "runtime/exec/model.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// What a layer of a float graph multiplies; nullopt where its weights are no matrix for each group
// (batches of matrices, transposed convolutions).
std::optional<quant::LayerRows> rows_of(const graph::Graph& g, const graph::Node& n);

struct RoundWeightsOptions {
  quant::WeightGranularity weights = quant::WeightGranularity::per_channel;
  std::int64_t weight_group = 0;                         // of matrices, as QuantizeOptions
  std::function<bool(const graph::Node&)> becomes_int8;  // null: every layer
  std::set<std::string> rotated_inputs;                  // as QuantizeOptions
  int threads = 1;
  std::function<void(std::size_t done, std::size_t total)> progress;
};

using RoundedWeights =
    std::map<std::string, quant::QuantizedWeight>;  // as QuantizeOptions::rounded

// `g` and `model` are the same float network. Left out: weights that several tensors meet, batches
// of matrices, transposed convolutions.
Result<RoundedWeights> round_weights(const graph::Graph& g,
                                     std::shared_ptr<const exec::Model> model,
                                     quant::SampleSource& samples,
                                     const RoundWeightsOptions& options);

}  // namespace fold8::fusion
