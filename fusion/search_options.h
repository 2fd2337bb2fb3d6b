// What convert's search is asked for, what it walked, and where scored candidates are remembered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fold8::fusion {

// What the outputs must keep of the float model's; all that are given must hold. An output that is
// the Softmax of a tensor is judged by that tensor: probabilities hide errors where the network is
// sure, and where two classes tie they turn over.
struct Target {
  bool at_outputs = false;        // by the probabilities all the same
  std::optional<double> sqnr_db;  // of the worst output
  std::optional<double> cosine;   // of the worst output
  // Share of samples that may be lost: against `labels` the accuracy of the float model less the
  // INT8 model's; without labels 1 - top-1 agreement of the two.
  std::optional<double> accuracy_drop;
  std::vector<std::int64_t> labels;  // one per row of the first output, over all samples
  bool given() const { return sqnr_db || cosine || accuracy_drop; }
};

// Results by key, of this run and of earlier ones. A key says everything that a result depends on.
class SearchMemory {
 public:
  virtual ~SearchMemory() = default;
  virtual const std::vector<double>* find(const std::string& key) const = 0;
  // `what` is for people.
  virtual void add(const std::string& key, const std::string& what,
                   const std::vector<double>& values) = 0;
};

// A candidate that was scored.
struct SearchStep {
  std::string what;
  double float_share = 0;  // of the multiply-adds of layers and of attention
  double cost = 0;         // what is made small: float_share, and a little for f32 streams
  std::size_t float_layers = 0;
  std::size_t samples = 0;  // it was scored on; fewer than all: it was hopeless
  // Of the worst judged tensor; `low`: the lower confidence bound that is held against the target.
  // None: exact, or not measured.
  std::optional<double> sqnr_db, sqnr_low_db, cosine, cosine_low;
  std::optional<double> accuracy_drop;
  bool meets = false;
  bool remembered = false;  // not scored again
};

struct SearchSummary {
  bool met = false;
  std::vector<SearchStep> steps;  // in the order they were scored
  std::size_t chosen = 0;         // of steps
  std::size_t held_out = 0;  // samples that only the search saw; 0: too few, it shares them all
  std::size_t samples = 0;   // candidates are scored on
  std::size_t scored = 0, remembered = 0;
  std::string accuracy_measure;  // "accuracy against labels", "top-1 agreement"; empty: not asked
  std::vector<std::string> judged;  // tensors the target is held against
};

}  // namespace fold8::fusion
