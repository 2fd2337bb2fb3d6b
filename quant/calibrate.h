// Runs the float graph over samples and observes its tensors, streaming: memory does not grow with
// the number of samples.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "quant/observer.h"
#include "quant/sample_source.h"
#include "runtime/core/result.h"
#include "runtime/exec/model.h"

namespace fold8::quant {

// Which samples were seen and how often, by hashes of their inputs: the kMost smallest hashes, so
// that memory is constant and the grouping of merges makes no difference.
class SampleSet {
 public:
  static constexpr std::size_t kMost = 4096;
  void add(std::uint64_t hash, std::uint64_t times = 1);
  void merge(const SampleSet& other);
  const std::map<std::uint64_t, std::uint64_t>& times() const { return times_; }
  std::uint64_t repeats() const;  // samples that were seen before, among those kept

 private:
  std::map<std::uint64_t, std::uint64_t> times_;
};

// Of the bytes and shapes of the inputs.
std::uint64_t hash_of(const std::vector<TensorView>& inputs);

// Merges in any grouping to the same bytes.
struct CalibrationTable {
  std::map<std::string, Observer> tensors;  // by value name
  std::uint64_t samples = 0;
  std::uint64_t rows = 0;   // extents of axis 0 of the first input: batches count their rows
  std::uint64_t blank = 0;  // samples of which every input is the same everywhere
  SampleSet seen;
  std::vector<Shape> largest;      // of the inputs of the sample with most elements (ties: extents)
  std::size_t largest_sample = 0;  // the first such, of one run; not merged, not stored

  const Observer* find(const std::string& name) const;
  // The other table observed the same tensors of the same model; else an error, and nothing is
  // merged.
  Status merge(const CalibrationTable& other);
};

struct CalibrateOptions {
  std::set<std::string>
      observe;  // names of the f32 values to observe; graph inputs among them if wanted
  std::set<std::string>
      look_for_nan;  // never quantized (masks may hold -inf), but NaN is an error there too
  std::map<std::string, int> channel_axis;  // of those whose channels are kept apart
  int threads = 1;
  std::function<void(std::size_t done, std::size_t total)> progress;
  // What the model gives for each sample, in their order; valid during the call. Null: nobody asks.
  std::function<void(std::size_t sample, const std::vector<TensorView>& outputs)> outputs;
};

// NaN or infinity in an observed tensor, and NaN in one that is only looked at, is an error naming
// sample and tensor.
Result<CalibrationTable> calibrate(std::shared_ptr<const exec::Model> model, SampleSource& samples,
                                   const CalibrateOptions& options);

}  // namespace fold8::quant
