// How far a candidate's outputs are from the float model's, sample by sample, so that a confidence
// bound can be given.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fusion/search_options.h"
#include "quant/sample_source.h"
#include "runtime/exec/session.h"

namespace fold8::fusion {

// Sums of one sample and output.
struct OutputSums {
  double ref2 = 0, err2 = 0, got2 = 0, dot = 0;
  double rows = 0, same = 0;               // of class scores: rows, those that keep their class
  double right_before = 0, right_now = 0;  // with labels, first output
};
// [samples][outputs]
using Sums = std::vector<std::vector<OutputSums>>;

std::vector<double> flat(const Sums& sums);
// nullopt if the numbers are not sums of so many outputs.
std::optional<Sums> sums_of(std::span<const double> values, std::size_t outputs);

// Over all samples but `without`, the worst output. Infinite: no error at all; none: nothing to
// measure.
constexpr std::size_t kNone = static_cast<std::size_t>(-1);
std::optional<double> sqnr_db(const Sums& sums, std::size_t without = kNone);
std::optional<double> cosine(const Sums& sums, std::size_t without = kNone);
// As Target::accuracy_drop; none without class scores.
std::optional<double> accuracy_drop(const Sums& sums, bool labels);

// The first samples alone.
Sums first(const Sums& sums, std::size_t samples);

// value - t * standard error, by the jackknife over samples: se^2 = (n-1)/n * sum (v_i - mean)^2,
// v_i the value without sample i. t = 1.7: one-sided, 95 % for 15 samples or more. Fewer than 4
// samples give the value itself.
std::optional<double> lower_bound(std::optional<double> (*statistic)(const Sums&, std::size_t),
                                  const Sums& sums);

// For each output its name, or of the tensor whose Softmax it is (unless `at_outputs`).
std::vector<std::string> judged_tensors(const graph::Graph& g, bool at_outputs);
// `g` with these tensors for outputs; those it has not are left out.
Result<std::shared_ptr<const exec::Model>> with_outputs(graph::Graph g,
                                                        const std::vector<std::string>& names);

class CandidateScorer {
 public:
  CandidateScorer(const graph::Graph& reference, std::vector<std::string> judged,
                  quant::SampleSource& samples, const Target& target, int threads);

  std::size_t outputs() const { return judged_.size(); }
  std::size_t samples() const { return samples_.count(); }
  // Judged numbers of the first sample; at least 1.
  Result<std::size_t> numbers();
  // Of the first output, [samples, classes]; 0: it gives no class scores.
  Result<std::int64_t> classes();
  // Of the samples [from, to). Errors name output and sample.
  Result<Sums> score(const graph::Graph& candidate, std::size_t from, std::size_t to);

 private:
  Result<std::vector<TensorView>> first_results();
  Result<std::vector<TensorView>> wanted(std::size_t sample, const std::vector<TensorView>& inputs);
  Status add(std::size_t sample, std::size_t output, const TensorView& before,
             const TensorView& now, OutputSums& sums) const;
  Status add_accuracy(std::size_t sample, std::size_t output, const TensorView& before,
                      const TensorView& now, OutputSums& sums) const;

  const std::vector<std::string> judged_;
  quant::SampleSource& samples_;
  const Target& target_;  // labels are of samples_
  const int threads_;
  std::unique_ptr<exec::Session> reference_;
  Status opened_ = ok_status();
  std::map<std::size_t, std::vector<Tensor>> kept_;  // what the float model gives, by sample
  std::size_t kept_bytes_ = 0;
};

}  // namespace fold8::fusion
