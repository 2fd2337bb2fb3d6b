// `convert --target-sqnr` and the like: the cheapest INT8 model whose outputs keep the target.
//
// Origins are tried first: what the options left open and costs nothing at run time (how ranges are
// chosen, smoothing, static or per-token activations). Then, with streams in u8 and in f32, layers
// are left float: the first k of a ranking by error alone per multiply-add (rank_layers.h), where k
// is found from what the errors predict and by bisection; biases are corrected anew for that
// choice, and layers go back to INT8 while the target holds.
//
// cost = share of all multiply-adds (layers, attention) left float
//        + kStreamCost if streams are f32 + kTableCost if embedding tables are
//
// A candidate meets the target if the lower confidence bound of what it keeps does
// (candidate_score.h), so does what it keeps on samples held out of calibration (where there are
// enough), and so does what it keeps less kMarginDb: other data are not quite like these. Nothing
// depends on measured time: the same model, samples and options give the same result, whether
// scores are computed or remembered.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusion/attempts.h"
#include "fusion/candidate_score.h"
#include "fusion/rank_layers.h"
#include "fusion/sample_split.h"

namespace fold8::fusion {

// What f32 streams cost, as a share of multiply-adds: they are written and read four times as wide.
inline constexpr double kStreamCost = 0.05;
// And what f32 tables cost: four times the bytes, no time to speak of.
inline constexpr double kTableCost = 0.02;
// The most that evaluation data of four networks were below a third of the calibration data by,
// once that third's confidence bound is taken off, rounded.
inline constexpr double kMarginDb = 1;

class Search {
 public:
  // All must outlive it; `samples` is what the split is of.
  Search(SampleSplit& samples, const ConvertOptions& options, ConvertSummary& summary);

  // `fused`: as Attempts::best() takes it. The cheapest model that meets the target; if none does,
  // the most accurate one, and summary.search->met is false.
  Result<Attempt> run(const graph::Graph& fused);

 private:
  // Attempts at a network, and what they refer to.
  struct Source {
    Source(quant::SampleSource& samples, ConvertOptions o)
        : options(std::move(o)), attempts(&samples, options, summary) {}
    const ConvertOptions options;
    ConvertSummary summary;
    Attempts attempts;
    std::shared_ptr<const exec::Model> float_model;
    bool has_streams = false;
    std::vector<std::string> tables;  // in INT8
  };
  // A network and the options that candidates share.
  struct Origin {
    std::string what, smoothing;  // for people
    std::shared_ptr<Source> source;
    QuantizeOptions options;
    std::string key;            // key_of_source()
    std::vector<double> noise;  // [choices]; empty: not ranked yet
    bool float_tables = false;
  };
  struct Candidate {
    std::size_t origin = 0;
    std::map<std::string, std::vector<double>> corrections;
    std::vector<bool> left_float;  // [choices]
    std::string key;               // of all that its score depends on
    Sums sums;                     // of fewer samples than there are: it was hopeless
    double severity = 0;           // error over what the target allows: at most 1 meets it
    double cost = 0;
    std::size_t step = 0;
  };
  using Order = std::vector<std::size_t>;

  // ---- search.cc: where to begin, and the walk
  Status open(const graph::Graph& fused);
  Result<std::size_t> add_origin(const graph::Graph& fused, ConvertOptions options,
                                 const std::string& smoothing);
  std::size_t add_origin(std::size_t like, QuantizeOptions options);
  std::size_t with_float_tables(std::size_t like);
  bool costs_more_than(double cost) const;
  Status choose_origin(const graph::Graph& fused);
  Result<double> prefer(std::size_t origin);  // its severity
  Result<Attempt> finish();

  // ---- search_float.cc: layers left float
  Status rank(std::size_t origin);
  Status leave_layers_float(std::size_t origin);
  Result<Candidate> shortest_prefix(Candidate none, const Order& order);
  std::size_t predicted(const Candidate& from, std::size_t k, const Order& order) const;
  Status correct_biases(Candidate& c);
  Status take_back(Candidate& c, const Order& order);

  // ---- search_candidates.cc: one candidate
  Result<Candidate> all_int8(std::size_t origin);
  Result<Candidate> with_prefix(const Candidate& like, const Order& order, std::size_t k);
  Status score(Candidate& c);
  Result<Sums> sums(const Candidate& c, std::size_t from, std::size_t to,
                    std::optional<graph::Graph>& emitted, SearchStep& step);
  Result<Attempt> emit(const Candidate& c);
  QuantizeOptions options_of(const Candidate& c) const;
  std::string key_of(const Candidate& c) const;
  Result<std::string> key_of_source(const Source& source) const;
  std::string key_of_ranking(std::size_t origin) const;
  double severity_of(const Sums& sums) const;
  bool hopeless(const Sums& sums) const;
  void describe(const Candidate& c, SearchStep& step) const;
  double cost_of(const Candidate& c, double& float_share) const;
  void keep(const Candidate& c);
  Result<std::string> key_of_samples(quant::SampleSource& samples) const;

  SampleSplit& samples_;
  const ConvertOptions& options_;
  ConvertSummary& summary_;
  SearchSummary search_;
  StageLog log_;
  Target target_;  // labels are of the samples that judge
  std::vector<Origin> origins_;
  std::vector<FloatChoice> choices_;  // of all origins
  std::optional<CandidateScorer> scorer_;
  std::string data_key_;
  std::map<std::string, Candidate> scored_;  // by key
  std::optional<Candidate> preferred_, cheapest_, most_accurate_;
};

}  // namespace fold8::fusion
