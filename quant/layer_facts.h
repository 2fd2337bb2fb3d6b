// Measured facts about the layers of a model beside its float reference: what each rounding does to
// its tensor, each weight's scales to its layer, how flat the rows are that norms read. What
// quant/causes.h draws conclusions from. One sample is in memory at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quant/sample_source.h"
#include "quant/weight_facts.h"
#include "runtime/core/result.h"
#include "runtime/exec/model.h"

namespace fold8::quant {

// Rows that a LayerNorm or RMSNorm reads as codes of one scale.
struct NormFacts {
  Magnitudes variances;       // of the float rows (RMSNorm: mean squares)
  double noise = 0;           // variance that rounding adds: step^2 / 12
  std::uint64_t drowned = 0;  // rows whose variance is below four times that
};

struct LayerFacts {
  std::string name;                     // as LayerError::name
  graph::NodeId node = graph::kNoNode;  // in the other model
  std::optional<std::size_t> input;     // of ModelFacts::roundings: operand 0
  std::optional<std::size_t> writes;    // the layer writes codes itself
  std::optional<WeightFacts> weights;
  std::optional<SmoothedError> smoothed;
  std::optional<NormFacts> norm;
  double macs = 0;  // multiply-adds, first sample
  // Time the model would lose, roughly, if the layer were float: as a share of the model's. From
  // multiply-adds (one of INT8 is a quarter of a float one) and bytes moved (each as long as one,
  // and four where there was one).
  double float_cost = 0;
};

struct ModelFacts {
  std::vector<RoundingFacts> roundings;
  std::vector<LayerFacts> layers;  // of the other model, in execution order
  double macs = 0;                 // of layers with constant weights
  std::size_t samples = 0;

  const LayerFacts* find(const std::string& layer) const;
};

struct FactsOptions {
  int threads = 1;
  std::size_t most_samples = 64;
  std::function<void(std::size_t done, std::size_t total)> progress;
};

Result<ModelFacts> measure_facts(std::shared_ptr<const exec::Model> reference,
                                 std::shared_ptr<const exec::Model> other, SampleSource& samples,
                                 const FactsOptions& options = {});

}  // namespace fold8::quant
