// Do a network's BatchNorms hold the statistics of the data? Mean and variance of what each one
// reads, on samples, beside those it stores. They agree on data like the training set, preprocessed
// like it; they do not where pictures were scaled otherwise, or the statistics are stale.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quant/sample_source.h"
#include "runtime/core/result.h"
#include "runtime/exec/model.h"

namespace fold8::quant {

struct BatchNormFacts {
  std::string node, tensor;  // `tensor`: its output
  std::string layer;         // the output of the linear layer in front of it; empty: none
  std::size_t channels = 0;
  // Over channels: |mean - stored mean| in stored deviations, and the ratio of the larger to the
  // smaller of both deviations.
  double median_shift = 0, worst_shift = 0, median_spread = 1;
  std::size_t worst_channel = 0;
  bool disagrees() const;
  // 0: the statistics are those of the data. Mean over channels of
  //   (shift^2 + ratio of variances - 1 - log(ratio)) / 2, at most kMostDistance each:
  // the divergence of the normal distributions with those moments.
  double distance = 0;
};

struct BatchNormOptions {
  int threads = 1;
  std::size_t most_samples = 32;
  bool first_only = false;  // the one that runs first; the rest of the network is not run
};

// `model`: the network as imported, its BatchNorms not folded. Those in execution order whose
// statistics are constant. Empty if there are none.
Result<std::vector<BatchNormFacts>> batch_norm_facts(std::shared_ptr<const exec::Model> model,
                                                     SampleSource& samples,
                                                     const BatchNormOptions& options = {});

// What explains best that the first BatchNorm disagrees: inputs [N, 3 or 1, H, W] (or channels
// last) that should have been standardised as is usual, x -> (x - mean) / std.
struct PreprocessGuess {
  std::string input;
  std::string name;  // "ImageNet mean and deviation of pictures in 0..255"
  std::vector<float> mean, std;
  double before = 0, after = 0;  // BatchNormFacts::distance of the first BatchNorm
  std::string flag() const;      // --preprocess 'x:mean=..,std=..'
};
// Only for data within the range that the preprocessing is for, and only if the first BatchNorm
// agrees with the samples so changed. nullopt: nothing usual does that.
Result<std::optional<PreprocessGuess>> guess_preprocessing(std::shared_ptr<const exec::Model> model,
                                                           SampleSource& samples,
                                                           const BatchNormOptions& options = {});

}  // namespace fold8::quant
