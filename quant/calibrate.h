// Runs the float graph over samples and observes its tensors, streaming: memory does not grow with
// the number of samples.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "quant/observer.h"
#include "quant/sample_source.h"
#include "runtime/core/result.h"
#include "runtime/exec/model.h"

namespace fold8::quant {

struct CalibrationTable {
  std::map<std::string, Observer> tensors;  // by value name
  std::size_t samples = 0;
  const Observer* find(const std::string& name) const;
};

struct CalibrateOptions {
  std::set<std::string>
      observe;  // names of the f32 values to observe; graph inputs among them if wanted
  std::set<std::string>
      look_for_nan;  // never quantized (masks may hold -inf), but NaN is an error there too
  std::map<std::string, int> channel_axis;  // of those whose channels are kept apart
  int threads = 1;
  std::function<void(std::size_t done, std::size_t total)> progress;
};

// NaN or infinity in an observed tensor, and NaN in one that is only looked at, is an error naming
// sample and tensor.
Result<CalibrationTable> calibrate(std::shared_ptr<const exec::Model> model, SampleSource& samples,
                                   const CalibrateOptions& options);

}  // namespace fold8::quant
