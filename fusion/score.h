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
  std::vector<OutputError> outputs;  // the network's own
  // Of those judged by, over those with a finite SQNR: real numbers, of any float type. Indices and
  // flags, which near ties flip, only where no output is real.
  std::optional<double> worst_sqnr_db;
  std::optional<double> worst_top1;  // over those that look like class scores ([batch, classes])
};

// Outputs of the float network on the samples that are scored. They are kept while they fit: all
// attempts are compared with the same ones.
struct FloatOutputs {
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  std::vector<std::vector<Tensor>> samples;  // the first ones that are scored
  std::size_t bytes = 0;
  // Copies the outputs of sample i, if it is the next one of `scored` and they fit.
  void keep(const std::vector<std::size_t>& scored, std::size_t i,
            const std::vector<TensorView>& outputs);
};

// At most so many of `count` samples: the first, or spread over all.
std::vector<std::size_t> first_samples(std::size_t count, std::size_t most);
std::vector<std::size_t> even_samples(std::size_t count, std::size_t most);

struct ScoreOptions {
  std::vector<std::size_t> samples;
  // For each of the network's own outputs, which come first among those of both models: the output
  // it is judged by (judge_also()). Empty: itself.
  std::vector<std::size_t> judged;
  int threads = 1;
};

// `reference` makes the float model, for samples whose outputs are not kept. Both have the same
// outputs.
using ModelMaker = std::function<Result<std::shared_ptr<const exec::Model>>()>;
Result<Score> score(const ModelMaker& reference, std::shared_ptr<const exec::Model> candidate,
                    quant::SampleSource& samples, const ScoreOptions& options, FloatOutputs& kept);

}  // namespace fold8::fusion
