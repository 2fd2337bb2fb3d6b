// BatchNorm statistics of other data than the network was trained on: mean and variance measured
// again on the samples, before folding (AdaBN: Li et al. 2016, arXiv 1603.04779; for quantized
// networks Nagel et al. 2022, arXiv 2203.11086, section 4).
#pragma once

#include <string>
#include <vector>

#include "fusion/convert.h"
#include "fusion/stage_log.h"
#include "quant/sample_source.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// Channels that (nearly) never change on the samples keep what is stored.
inline constexpr double kLeastVarianceShare = 0x1p-20;  // of the stored variance

// `g` is canonicalized, not folded. BatchNorms are taken front to back, each behind those in front
// of it with their new statistics; sums are exact, so the samples' order does not matter; the
// variance is the biased one. Refused without BatchNorms with stored statistics. What changed is
// appended to `summary`.
Status reestimate_batch_norms(graph::Graph& g, quant::SampleSource& samples, int threads,
                              StageLog& log, ConvertSummary& summary);

}  // namespace fold8::fusion
