// The offline compiler: an imported float (or QDQ) graph and samples in, a graph ready for the .f8
// writer out. Owns the loop quantize -> emit -> score: it checks INT8 against float on the samples
// and, below 15 dB or with a lost top-1, tries the remedies itself and says what it did.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fusion/cost_table.h"
#include "fusion/passes/quantize.h"
#include "fusion/passes/smooth.h"
#include "fusion/rewrite/rewrite.h"
#include "fusion/search_options.h"
#include "quant/error_metrics.h"
#include "quant/sample_source.h"
#include "quant/statistics.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// SmoothQuant (passes/smooth.h).
struct Smoothing {
  bool off = false;
  std::optional<double> alpha;  // none: searched per tensor, kept where the samples say it gains
};

struct ConvertOptions {
  bool float_only = false;
  QuantizeOptions quantize;  // `calibration` and `also_float` are set by convert()
  Smoothing smooth;
  bool equalize = true;  // move factors between neighbouring layers (passes/equalize.cc)
  bool layer_norm_to_rms_norm = false;  // in pre-norm networks, where it is exact
  bool reestimate_bn = false;           // BatchNorm statistics of the samples, before folding
  bool search = true;                   // try the remedies where INT8 is poor
  // Keep float what INT8 would make slower there (prefer_speed.h); null: INT8 wherever it can be.
  const CostTable* cost_table = nullptr;
  // Ranges measured before (statistics.h), instead of those of `samples`; null: none.
  const quant::Statistics* statistics = nullptr;
  // Search for the cheapest model that keeps this (search.h); not with float_only.
  Target target;
  SearchMemory* memory = nullptr;  // of scored candidates; null: only this run's
  double poor_sqnr_db = 15;
  // Share of the multiply-adds that the remedies may leave float where INT8 stays poor.
  double most_float_share = 0.05;
  // Samples the check uses at most: the first ones, or without `search`, where little depends on
  // it, fewer, spread over all.
  std::size_t score_samples = 16, one_pass_samples = 4;
  int threads = 1;
  // stage name, done and total of it (0: not countable)
  std::function<void(const std::string& stage, std::size_t done, std::size_t total)> progress;
};

struct StageTime {
  std::string name;
  double seconds = 0;
};

struct OutputError {
  std::string name;
  quant::ErrorSummary error;
  std::optional<double> top1;
};

// A BatchNorm whose stored statistics were replaced (reestimate_batch_norms.h).
struct ReestimatedNorm {
  std::string node;
  std::size_t channels = 0, kept = 0;      // kept: constant on the samples, as stored
  std::uint64_t values = 0;                // of a channel, over all samples
  double most_shift = 0, mean_shift = 0;   // of a channel's mean, in stored standard deviations
  double least_ratio = 1, most_ratio = 1;  // new variance over stored, over the channels and 1
};

struct ConvertSummary {
  std::vector<StageTime> stages;
  std::vector<Declined> declined;
  std::vector<std::string> quantized_layers;
  std::vector<std::string> quantized_tables;  // of embeddings (passes/quantize_tables.h): no layers
  std::vector<FloatLayer> float_layers;
  std::vector<std::string> warnings;  // constant tensors, remedies taken, poor outputs that remain
  std::vector<OutputError> outputs;   // INT8 against float on scored_samples of the samples
  std::vector<SmoothedTensor> smoothed;
  std::vector<ReestimatedNorm> reestimated;
  int batch_norms_left = 0;
  std::string speed_target;              // of the cost table that chose the layers; empty: none did
  std::optional<double> int8_mac_share;  // none without multiply-adds
  std::optional<double> int8_attention_share;
  std::size_t samples = 0;  // it was calibrated on
  std::size_t scored_samples = 0;
  std::optional<SearchSummary> search;  // with a target
};

struct Converted {
  graph::Graph graph;  // packed; format::write_file() takes it
  ConvertSummary summary;
};

// `samples` may be null for float_only, for activations dynamic or float, and with statistics; then
// nothing is tried that only samples can judge.
Result<Converted> convert(graph::Graph imported, quant::SampleSource* samples,
                          const ConvertOptions& options);

// Only canonicalize and fold (and smooth): what `fold8 fold` writes back as ONNX.
struct Folded {
  graph::Graph graph;
  std::vector<Declined> declined;
  std::vector<SmoothedTensor> smoothed;
  int batch_norms_left = 0;
};
struct FoldOptions {
  std::optional<double> smooth_alpha;  // none: not smoothed; else samples are needed
  bool layer_norm_to_rms_norm = false;
  int threads = 1;
};
Result<Folded> fold(graph::Graph imported, quant::SampleSource* samples = nullptr,
                    const FoldOptions& options = {});

}  // namespace fold8::fusion
