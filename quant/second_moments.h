// Second moments of what layers read: how errors of weights add up in a layer's outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quant/sample_source.h"
#include "runtime/core/result.h"
#include "runtime/exec/model.h"

namespace fold8::quant {

// Over the rows x (last axis) of a tensor. Summed in the order of the samples: equal samples in
// another grouping may differ in the last bits, but the same run gives the same bits on every
// machine and for any number of threads.
struct Moments {
  std::size_t width = 0;
  std::uint64_t rows = 0;
  std::vector<float> xx;  // [width, width], sum of x x^T, symmetric
};

struct MomentOptions {
  std::size_t most_rows = 8192;                   // of a tensor; evenly spread over the samples
  std::size_t most_width = 8192;                  // wider tensors are left out
  std::size_t most_bytes = std::size_t{1} << 30;  // of moments at the same time
  int threads = 1;
};

// For each of `names` that is a tensor of f32 rows; `take` is called with each when it is complete,
// and owns it. The samples are run again and again if all do not fit most_bytes.
Status second_moments(std::shared_ptr<const exec::Model> model, SampleSource& samples,
                      const std::map<std::string, std::size_t>& widths,
                      const MomentOptions& options,
                      const std::function<Status(const std::string&, Moments)>& take);

}  // namespace fold8::quant
