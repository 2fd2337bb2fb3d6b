// What the outputs win if several layers are float at once, as a fix may leave them: measured by
// running again only what depends on them. Their own gains do not add up.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quant/sample_source.h"
#include "runtime/exec/model.h"

namespace fold8::quant {

struct GroupGainOptions {
  std::size_t most_samples = 0;  // the first ones; 0: all
  int threads = 1;
  std::function<void(std::size_t done, std::size_t total)> progress;  // samples x groups
};

// SQNR(outputs, these layers float) - SQNR(outputs, the whole model), of the output that is worst
// as the model is (as `gain` in sensitivity.h, for one layer). Each layer reads what the ones in
// front of it, float too, give; their results are stored as the model stores them. nullopt where a
// layer cannot be run as float, no output has an SQNR, or nothing is left of the error.
Result<std::vector<std::optional<double>>> group_gains(
    std::shared_ptr<const exec::Model> reference, std::shared_ptr<const exec::Model> other,
    SampleSource& samples, const std::vector<std::vector<std::string>>& groups,
    const GroupGainOptions& options = {});

}  // namespace fold8::quant
