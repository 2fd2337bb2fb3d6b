// The loop quantize -> emit -> score of convert(): a first attempt at INT8, then others where the
// samples say that they may be better, and the best of them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusion/convert.h"
#include "fusion/mean_results.h"
#include "fusion/model_facts.h"
#include "fusion/rank_layers.h"
#include "fusion/round_weights.h"
#include "fusion/score.h"
#include "fusion/stage_log.h"
#include "fusion/weight_cache.h"
#include "quant/calibrate.h"
#include "quant/sample_rows.h"
#include "runtime/exec/model.h"

namespace fold8::fusion {

struct Attempt {
  graph::Graph graph;  // emitted
  QuantizeOutcome outcome;
  std::vector<Declined> declined;
  Score score;
  std::string remedy;
  int batch_norms_left = 0;
};

// In dB, of the worst output; `over` has one.
inline double gain(const Attempt& a, const Attempt& over) {
  return a.score.worst_sqnr_db.value_or(1e9) - *over.score.worst_sqnr_db;
}
inline bool better(const Attempt& a, const Attempt& b) {
  return a.score.worst_sqnr_db.value_or(1e9) > b.score.worst_sqnr_db.value_or(1e9);
}

class Attempts {
 public:
  // All must outlive it. Stages, warnings and the number of samples go to `summary`.
  Attempts(quant::SampleSource* samples, const ConvertOptions& options, ConvertSummary& summary);

  // What attempts start from.
  struct Base {
    graph::Graph unlowered;  // fused
    graph::Graph graph;      // and imported INT8 layers lowered
    std::optional<quant::CalibrationTable> table;
    // Of what linear layers read; gathered by the same runs where attempts may ask for them.
    std::optional<std::map<std::string, quant::SampleRows>> rows;
    ShapeTable shapes;  // with a cost table only
    std::vector<SmoothedTensor> smoothed;
    std::vector<std::string> judged;  // judged_outputs(); empty: the outputs are
    std::shared_ptr<MeanResults> means = std::make_shared<MeanResults>();  // once they are known
    std::shared_ptr<FloatOutputs> outputs = std::make_shared<FloatOutputs>();  // of reference()
  };

  // `fused`: canonicalized, folded, activations and residuals fused.
  Result<Attempt> best(graph::Graph fused);
  // What multiply-adds are counted on.
  const TypicalInput& typical() const { return typical_; }
  // What the best one started from, and its options (without a calibration).
  Base& base() { return *base_; }
  const Base& base() const { return *base_; }
  const QuantizeOptions& chosen() const { return chosen_; }

  // The float network, made when it is needed: as large as the weights once more.
  Result<std::shared_ptr<const exec::Model>> float_model(const Base& base);
  // Quantized and emitted, without a score.
  Result<Attempt> emit(const Base& base, QuantizeOptions options, std::string remedy);
  // options.bias_corrections, and what is still missing from them: the shift of each layer's mean
  // results.
  Result<std::map<std::string, std::vector<double>>> bias_corrections(const Base& base,
                                                                      QuantizeOptions options);

 private:
  Result<Base> prepare(graph::Graph fused);
  bool needs_ranges(const graph::Graph& g) const;
  bool may_want_rows(const graph::Graph& unlowered) const;
  Result<std::map<std::string, quant::SampleRows>> rows_of(const Base& base);
  // What attempts are compared with: the float network, which also gives what they are judged by.
  Result<std::shared_ptr<const exec::Model>> reference(const Base& base);
  bool moves_factors() const;
  Status calibrate(Base& base, std::shared_ptr<const exec::Model> model);
  void remember_data(const quant::CalibrationTable& table);
  Result<Score> score_of(const Base& base, const graph::Graph& emitted);
  Result<Attempt> attempt(const Base& base, const QuantizeOptions& options, std::string remedy);
  bool is_poor(const Attempt& a) const;
  // What only some models gain from: an error means that it is left out, with a warning.
  void optional(const char* what, const Status& status);
  // Takes the slower options where the faster ones of `best` cost the outputs more than the budget,
  // and says so.
  Status weigh(const Base& base, const QuantizeOptions& slower, double budget_db,
               const char* warning, Attempt& best);
  Status weigh_streams(const Base& base, Attempt& best);
  Status weigh_attention(const Base& base, Attempt& best);
  Result<std::optional<Base>> smoothed(const Base& base);
  Result<double> adopt(Base other, double least_db, Base& base, Attempt& best);
  Status try_smoothed(Base& base, Attempt& best);
  Status try_static(const Base& base, Attempt& best);
  Status try_rotated(const Base& base, Attempt& best);
  Status try_rounded(const Base& base, Attempt& best);
  // Codes of weights for the layers' outputs, with these options; null if no layer can have them.
  Result<std::shared_ptr<const RoundedWeights>> rounded_weights(const Base& base,
                                                                const QuantizeOptions& options);
  Status try_corrected(const Base& base, Attempt& best);
  // attempt() with these options; both are kept if the outputs err less.
  Status consider(const Base& base, const QuantizeOptions& options, Attempt& best,
                  const std::string& remedy = "");
  Status try_balanced(Base& base, Attempt& best);
  Status try_equalized(Base& base, Attempt& best);
  Status try_remedies(const Base& base, Attempt& best);
  // ---- attempts_float.cc
  Status try_float_layers(const Base& base, Attempt& best);
  Result<std::vector<double>> layer_noises(const Base& base,
                                           std::shared_ptr<const exec::Model> model,
                                           const std::vector<FloatChoice>& choices);

  quant::SampleSource* samples_;
  const ConvertOptions& options_;
  ConvertSummary& summary_;
  StageLog log_;
  TypicalInput typical_;
  bool measured_ = false;  // the network as it came
  std::optional<Base> base_;
  WeightCache weights_;
  std::vector<std::size_t> scored_;  // samples
  QuantizeOptions chosen_;           // what the options say, and what the samples decided so far
};

}  // namespace fold8::fusion
