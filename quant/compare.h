// Two models on the same samples, tensor by tensor: the float one (reference) and the one that
// ships.
//   own:         the layer alone, run by the second model's kernel from the reference's tensors,
//   against the reference accumulated: the layer's tensor in a whole run of the second model,
//   against the reference
// Tensors match by name; a tensor a pass rescaled is multiplied back first. One sample is in memory
// at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quant/error_metrics.h"
#include "quant/layer_plots.h"
#include "quant/sample_source.h"
#include "runtime/exec/model.h"

namespace fold8::quant {

struct LayerError {
  std::string name;  // of the tensor
  std::string node, op;
  std::vector<std::string> inside;  // what was fused into the layer
  bool int8 = false;                // multiplies or stores integers
  std::optional<ErrorSummary> own;  // none if the layer cannot be run alone (reason)
  std::string own_missing;          // why not
  ErrorSummary accumulated;
  std::optional<double>
      clipped;  // share of reference values outside the range of the codes (u8 tensors, one scale)
  std::optional<int> codes_used;                   // of 256
  std::vector<std::uint64_t> code_counts;          // how often each of the 256 occurs; empty: no u8
  std::optional<std::pair<double, double>> range;  // real numbers that its codes stand for
  std::optional<LayerPlots> plots;                 // CompareOptions::plots
};

struct OutputComparison {
  std::string name;
  ErrorSummary error;
  std::optional<double> top1, top5, kl;  // outputs that look like class scores
};

struct Comparison {
  std::vector<OutputComparison> outputs;
  std::vector<LayerError> layers;  // in execution order
  std::size_t samples = 0;
};

// An output of both models in one sample, as real numbers.
struct OutputPair {
  const std::string& name;
  DType dtype;  // in the reference
  const Shape& shape;
  std::span<const double> reference, got;
};

struct CompareOptions {
  bool layers = true;
  bool plots = false;  // fills LayerError::plots
  int threads = 1;
  std::function<void(std::size_t done, std::size_t total)> progress;
  // Called for every matched output of every sample (accuracy against labels); its errors end the
  // comparison.
  std::function<Status(const OutputPair&)> on_output;
};

// Models must have the same inputs and outputs by name. Errors name tensor and sample.
Result<Comparison> compare(std::shared_ptr<const exec::Model> reference,
                           std::shared_ptr<const exec::Model> other, SampleSource& samples,
                           const CompareOptions& options = {});

}  // namespace fold8::quant
