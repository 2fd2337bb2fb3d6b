// What sensitivity.h and group_gain.h have in common: a model's session that keeps what one sample
// gave, results of a float layer as the model stores them, and errors of the outputs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quant/error_metrics.h"
#include "quant/numbers.h"
#include "quant/plain_f32.h"
#include "runtime/exec/session.h"

namespace fold8::quant {

// Tensors that somebody asked for, and the outputs.
class KeptRun {
 public:
  Status open(std::shared_ptr<const exec::Model> model, int threads);
  const graph::Graph& graph() const { return session_->model().graph(); }
  void want(graph::ValueId v) { wanted_.insert(v); }

  Status run(const std::vector<TensorView>& inputs);
  const Tensor& tensor(graph::ValueId v) const { return tensors_.at(v); }
  // Only what depends on these runs again; outputs() and what `seen` (if any) is shown are then of
  // that, tensor() stays.
  using Seen = std::function<void(graph::ValueId, const TensorView&)>;
  Status rerun(const std::vector<exec::Replacement>& replaced, const Seen& seen = nullptr);
  Numbers output(std::size_t i) const;

 private:
  std::unique_ptr<exec::Session> session_;
  std::set<graph::ValueId> wanted_;
  std::unordered_map<graph::ValueId, Tensor> tensors_;
};

using OutputPairs = std::vector<std::pair<std::size_t, std::size_t>>;
using Outputs = std::vector<Numbers>;
using Meters = std::vector<ErrorMeter>;  // one an output

// The outputs of a model, the first or the second of each pair.
Outputs outputs_of(const KeptRun& run, const OutputPairs& pairs, bool second);
// Adds a sample. Errors name it and the output; `reference` is the first model of the pairs.
Status measure(const Outputs& wanted, const Outputs& got, const OutputPairs& pairs,
               const graph::Graph& reference, std::size_t sample, Meters& meters);
std::optional<double> worst_sqnr_db(const Meters& meters);

// Tensors that take the place of what a layer wrote.
struct Substitute {
  std::vector<Stored> kept;  // owns the elements
  std::vector<exec::Replacement> replaced;
  bool differs = false;  // from what the model wrote
  std::string cannot;    // not empty: a type that reals cannot be stored in
};
// The real numbers `values` of `writes`, results of `node`, as the model of `run` stores them.
Result<Substitute> substitute(const KeptRun& run, graph::NodeId node,
                              const std::vector<graph::ValueId>& writes,
                              std::vector<std::vector<float>> values);

}  // namespace fold8::quant
