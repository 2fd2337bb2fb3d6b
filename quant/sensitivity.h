// What each layer of a model costs at the outputs.
//   alone: error at the outputs when only this layer is INT8: the reference network with the
//          layer's tensor replaced by what the layer's INT8 step computes from the reference's
//          tensors, before that is rounded for an INT8 reader (a float one would not round it)
//   gain:  SQNR(outputs, this layer float) - SQNR(outputs, the whole model): the model with the
//          layer's tensor replaced by what the reference's operators compute from the model's, not
//          rounded for the layer, then stored as the model stores it
// Both run again only what depends on the tensor (Session::rerun). Layers, names and matching of
// outputs as in compare(). One sample is in memory at a time, with every tensor of both models.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "quant/sample_source.h"
#include "runtime/exec/model.h"

namespace fold8::quant {

struct LayerSensitivity {
  std::string name;  // of the tensor
  // Of the worst output, and of each one in the order of Comparison::outputs. None where an SQNR
  // does not exist: no error at all (alone_exact; a gain over nothing), an output of zeros, or the
  // layer cannot be run (why_missing).
  std::optional<double> alone_db, gain_db;
  std::vector<std::optional<double>> alone_outputs_db, gain_outputs_db;
  bool alone_exact = false;
  std::string why_missing;
};

struct SensitivityOptions {
  bool alone = true, gain = true;
  std::size_t most_samples = 0;  // the first ones; 0: all
  std::set<std::string> only;    // layers, by name; empty: all
  int threads = 1;
  // Layers of samples: total is samples x layers.
  std::function<void(std::size_t done, std::size_t total)> progress;
};

// In execution order. Errors name tensor and sample.
Result<std::vector<LayerSensitivity>> sensitivity(std::shared_ptr<const exec::Model> reference,
                                                  std::shared_ptr<const exec::Model> other,
                                                  SampleSource& samples,
                                                  const SensitivityOptions& options = {});

}  // namespace fold8::quant
