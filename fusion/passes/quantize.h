// Chooses which linear layers become INT8 and rewrites them: weights to s8, inputs through a
// Quantize (static, per tensor) or DynamicQuantize (per token). What can be fused of it is fused
// afterwards (fuse_quantize.h).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fusion/rewrite/rewrite.h"
#include "quant/calibrate.h"
#include "quant/choose_params.h"
#include "quant/quantize_weights.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

enum class Activations : std::uint8_t {
  automatic,  // static for convolutions, and for Linear unless the network has LayerNorm or
              // RMSNorm: then per token
  static_,    // u8 per tensor with zero point, from calibration
  dynamic,    // u8 per token for Linear (convolutions stay static, if there is data, or float)
  float_,     // weight-only INT8
};

// What no layer multiplies but passes from layer to layer: skip connections, sums, gated feature
// maps (u8_streams.h).
enum class Streams : std::uint8_t {
  automatic,  // u8, unless the samples say that it costs the outputs more than kStreamBudgetDb
  u8,
  f32,
};
inline constexpr double kStreamBudgetDb = 1.5;

// Products of two activations inside Attention.
enum class AttentionProducts : std::uint8_t {
  automatic,  // INT8, unless the samples say that it costs the outputs more than kAttentionBudgetDb
  int8,
  f32,
};
inline constexpr double kAttentionBudgetDb = 1.5;

struct QuantizeOptions {
  quant::Method method = quant::Method::automatic;
  double percentile = quant::kPercentile;
  Activations activations = Activations::automatic;
  Streams streams = Streams::automatic;  // quantize() takes automatic for u8; convert() chooses
  AttentionProducts attention = AttentionProducts::automatic;  // quantize() takes it for int8
  quant::WeightGranularity weights = quant::WeightGranularity::per_channel;
  // > 0: matrices have a scale for every so many inputs of an output instead; convolutions and
  // batches of matrices keep `weights`.
  std::int64_t weight_group = 0;
  std::vector<std::string> keep_float;  // globs over node names and output names
  std::map<std::string, std::string>
      also_float;  // name of a layer's or attention's output -> why it stays float
  const quant::CalibrationTable* calibration = nullptr;  // null: no data
  // By the name of the f32 weight, for weights of rotated tensors rotated_name() of it: codes
  // better than rounding each weight by itself.
  std::shared_ptr<const std::map<std::string, quant::QuantizedWeight>> rounded;
  // Per-token networks: names of tensors that linear layers read with one scale all the same.
  std::set<std::string> static_inputs;
  // Per-token networks: names of tensors whose rows are rotated in front of the rounding. Goes
  // before static_inputs.
  std::set<std::string> rotated_inputs;
  // By the name of a layer's output: what is added to its bias, one number a channel.
  std::map<std::string, std::vector<double>> bias_corrections;
  WeightCache* cache = nullptr;  // of weights quantized before (weight_cache.h); null: none were
};

std::string rotated_name(const std::string& weight);

struct FloatLayer {
  std::string node, op, why;
};

struct QuantizeOutcome {
  std::vector<std::string> quantized;  // node names
  std::vector<std::string> tables;     // gathered from, now s8 (quantize_tables.h)
  std::vector<std::string> rotated;    // tensors whose rows are rotated in front of the rounding
  std::size_t u8_streams = 0;          // tensors carried as u8 that no layer multiplies
  std::size_t int8_attentions = 0;     // Attention with both products in INT8
  std::vector<FloatLayer> kept_float;
  std::vector<std::string> warnings;  // constant or unfilled tensors, mixed ranges
};

// Matrix layers read u8 with a scale per row (convolutions never do).
bool rounds_per_token(const graph::Graph& g, Activations activations);

// The glob of options.keep_float that names `n` or its output, or null.
const std::string* kept_float_by(const QuantizeOptions& options, const graph::Graph& g,
                                 const graph::Node& n);

// u8 per tensor for this value, from its range on the samples.
QuantParams static_params_of(const QuantizeOptions& options, const quant::Observer& seen);

// Linear and Conv with constant f32 weights: the layers that can become INT8.
bool is_quantizable_layer(const graph::Graph& g, const graph::Node& n);
// Names of the values whose ranges quantize() may want: what layers read, and streams.
std::set<std::string> values_to_observe(const graph::Graph& g);
// Names of the float inputs and outputs of the graph: NaN in them is worth an error even if nothing
// is quantized there.
std::set<std::string> values_at_the_edge(const graph::Graph& g);

// The graph is canonicalized, folded and has its activations and residuals fused; types are
// inferred.
Result<QuantizeOutcome> quantize(graph::Graph& g, const QuantizeOptions& options);

}  // namespace fold8::fusion
