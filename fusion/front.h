// What every conversion begins with, and where statistics are measured: the float network
// canonicalized and folded, with activations, residuals and attention fused.
#pragma once

#include "fusion/convert.h"
#include "fusion/stage_log.h"
#include "quant/calibrate.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// Weights that are not finite are an error. `samples` (may be null) serve reestimate_bn. Declines
// and BatchNorms left go to `summary`.
Status run_front(graph::Graph& g, quant::SampleSource* samples, const ConvertOptions& options,
                 StageLog& log, ConvertSummary& summary);

// What calibration looks at in such a graph, once layers that the file itself brings as INT8 are
// lowered. `channels`: also the ranges of channels, for what moves factors between layers.
quant::CalibrateOptions observation_of(const graph::Graph& lowered, int threads,
                                       bool channels = true);

}  // namespace fold8::fusion
