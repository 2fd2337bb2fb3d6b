// Why a model errs, and what to do: from a comparison, measured facts and the layers' shares of the
// error at the outputs. Draws conclusions only, runs nothing.
//
// A problem is one rounded tensor (of a tensor that several layers read there is one), the weights
// of one layer, or an operator that errs by itself. It is charged with its part of what its layers
// cost at the worst output alone (LayerSensitivity), split by the mean squares that rounding inputs
// and weights add to the layer's result. Where nothing stands out beyond 8 bits being few, the
// cause says just that. A model whose outputs keep kHealthyDb has no cause but one a whole output
// hides: a part of it that is lost in the scale of another; and BatchNorms that were not folded,
// which cost time where they cost no accuracy.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quant/batch_norm_facts.h"
#include "quant/compare.h"
#include "quant/layer_facts.h"
#include "quant/sensitivity.h"

namespace fold8::quant {

inline constexpr double kHealthyDb = 30;

enum class CauseKind : std::uint8_t {
  scale_too_small,     // the data needs a scale several times larger: most of the error is clipping
  scale_too_large,     // it fills a small part of the codes
  clipped,             // values outside the codes cause most of the error
  mixed_ranges,        // a Concat of tensors of different size shares one scale
  outlier_channel,     // few channels set the range of all
  outlier_sample,      // few samples do
  uneven_tokens,       // one scale for rows of very different size
  dead_channel,        // a channel much smaller than the rest, which the layer's weights blow up
  outlier_weights,     // weights of few input channels set the steps of all
  clipped_weights,     // weights outside the codes
  weights_per_tensor,  // one scale for output channels of very different size
  collapsed_codes,     // few codes are used
  flat_rows,           // a norm divides by a deviation that rounding drowns
  attention,           // products of two activations in INT8
  wrong_preprocessing,  // inputs are not what the BatchNorms were trained on, and look preprocessed
                        // otherwise
  stale_statistics,     // BatchNorms hold other means and variances than the samples have
  unfolded_batch_norm,  // a BatchNorm is a step of its own: folding was declined
  rounding,             // none of the above: 8 bits are few for this layer
};
const char* name(CauseKind kind);  // as above

struct Cause {
  CauseKind kind = CauseKind::rounding;
  std::string text;                   // a sentence with the measured numbers
  std::vector<std::size_t> channels;  // it speaks of
  std::vector<std::size_t> samples;
};

struct Fix {
  std::string flag;                 // to add to `fold8 convert`; empty: the model has to change
  std::string why;                  // what it does; or what to change
  std::optional<double> gained_db;  // at the worst output; none: not known
  bool measured = false;            // by a run; else estimated from the facts
  double float_share = 0;           // of the multiply-adds, left float by it
  double cost = 0;                  // time lost, roughly, as a share of the model's: for ranking
  std::vector<std::string> layers;  // that it leaves float, and nothing else does
  // Of an estimate: the layers that it was made for. What they win in float bounds it.
  std::vector<std::string> mends;
};
// An estimate is at most `most`, the decibels that the layers it mends win in float.
void bound(Fix& fix, double most);
// `why` with what it wins and costs.
std::string text(const Fix& fix);
// Decibels won per time lost, the most first, estimated ones counted by half; those that change the
// model last. What was measured or bounded to win nothing goes, unless that is all there is.
void rank(std::vector<Fix>& fixes);

struct Finding {
  std::string layer;              // the one that errs by it most, as LayerError::name
  std::string tensor;             // what is rounded badly; empty: the layer's weights or itself
  std::vector<std::string> also;  // other layers that suffer from it
  std::optional<double> share;    // of the error at the worst output that it causes alone
  Cause cause;
  std::vector<Fix> fixes;  // the most promising first
};

// A BatchNorm that is still there.
struct UnfoldedNorm {
  std::string tensor, node;  // tensor: its output
  std::string why;           // what folding said; empty: not known
  std::string change;        // of the model, so that it folds
};

struct ConcludeOptions {
  // What the samples are on the command line of convert, for fixes that calibrate on them again:
  // "--recalib 'held_out'". Empty: unknown.
  std::string calibration_flag;
  // Tensors whose scales a file with Q/DQ brought, and the name of the node that rounds each:
  // calibration does not choose them.
  std::map<std::string, std::string> file_scales;
  std::vector<UnfoldedNorm> unfolded;
  std::size_t most = 8;       // findings
  double least_share = 0.03;  // of the error at the worst output
};

// Worst first. `sensitivity` may be empty: then layers are ranked by their own error.
std::vector<Finding> conclude(const Comparison& comparison, const ModelFacts& facts,
                              const std::vector<LayerSensitivity>& sensitivity,
                              const ConcludeOptions& options = {});

}  // namespace fold8::quant
