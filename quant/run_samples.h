// Runs a model on samples and shows every tensor: what calibration, moments, means and rows share.
#pragma once

#include <functional>
#include <memory>

#include "quant/sample_source.h"
#include "runtime/core/result.h"
#include "runtime/exec/model.h"

namespace fold8::quant {

struct RunOptions {
  std::size_t most_samples = 0;  // 0: all; else so many, evenly spread over the source
  int threads = 1;
  std::function<void(std::size_t done, std::size_t total)> progress;
};

struct RunCallbacks {
  // Each f32 or integer tensor of a run: the graph's inputs first, then what each operator writes.
  // Data is valid during the call.
  std::function<Status(graph::ValueId, const TensorView&)> see;
  // Before a sample is run; null: nothing.
  std::function<Status(std::size_t sample, const std::vector<TensorView>& inputs)> begin;
  // Behind its run; null: nothing. Outputs are valid during the call.
  std::function<Status(std::size_t sample, const std::vector<TensorView>& outputs)> end;
};

// In ascending order of the samples; one of them is in memory at a time. Errors of runs and of the
// callbacks name the sample.
Status run_samples(std::shared_ptr<const exec::Model> model, SampleSource& samples,
                   const RunOptions& options, const RunCallbacks& callbacks);

}  // namespace fold8::quant
