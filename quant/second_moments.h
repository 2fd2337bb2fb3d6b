// Second moments of what layers read: how errors of weights add up in a layer's outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "quant/layer_rows.h"
#include "quant/sample_source.h"
#include "runtime/core/result.h"
#include "runtime/exec/model.h"

namespace fold8::quant {

// Over the rows x of a layer (one group of it). Summed in the order of the samples: equal samples
// in another grouping may differ in the last bits, but the same run gives the same bits on every
// machine and for any number of threads.
struct Moments {
  std::size_t width = 0;
  std::uint64_t rows = 0;
  std::vector<float> xx;  // [width, width], sum of x x^T, symmetric
};

struct MomentOptions {
  std::size_t most_rows = 8192;                     // of a layer; evenly spread over the samples
  std::size_t most_width = 8192;                    // wider layers are left out
  std::size_t most_bytes = std::size_t{256} << 20;  // of moments gathered at the same time
  int threads = 1;
};

// For each of `layers` whose tensor is there with f32 rows: `take` is called with its index and the
// moments of each group when they are complete, and owns them. The samples are run again and again
// if all do not fit most_bytes.
Status second_moments(std::shared_ptr<const exec::Model> model, SampleSource& samples,
                      std::span<const LayerRows> layers, const MomentOptions& options,
                      const std::function<Status(std::size_t, std::vector<Moments>)>& take);

}  // namespace fold8::quant
