// How good an INT8 graph is: its outputs against the float graph's on a few samples.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "fusion/convert.h"
#include "quant/sample_source.h"
#include "runtime/exec/model.h"

namespace fold8::fusion {

struct Score {
  std::vector<OutputError> outputs;     // f32 outputs
  std::optional<double> worst_sqnr_db;  // over outputs with a finite SQNR
  std::optional<double> worst_top1;  // over outputs that look like class scores ([batch, classes])
};

// Outputs of the float network on the first samples. They are kept while they fit: all attempts
// are compared with the same ones.
struct FloatOutputs {
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  std::vector<std::vector<Tensor>> samples;  // the first ones
  std::size_t bytes = 0;
  // Copies the outputs of sample i, if it is the next one and they fit.
  void keep(std::size_t i, const std::vector<TensorView>& outputs);
};

// `reference` makes the float model, for samples whose outputs are not kept. Both have the same
// outputs.
using ModelMaker = std::function<Result<std::shared_ptr<const exec::Model>>()>;
Result<Score> score(const ModelMaker& reference, std::shared_ptr<const exec::Model> candidate,
                    quant::SampleSource& samples, std::size_t at_most, int threads,
                    FloatOutputs& kept);

}  // namespace fold8::fusion
