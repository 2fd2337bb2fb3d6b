// What bias correction needs: the mean of what every layer computes before its activation, per
// channel, in the float network and in the quantized one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/sample_source.h"
#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

using ChannelMeans = std::map<std::string, std::vector<double>>;  // by the name of a layer's output

// `g` is fused, and quantized or not, but not lowered. Over at most `most_samples`, evenly spread.
// Layers whose result is no f32 tensor with known channels are left out.
Result<ChannelMeans> mean_results(graph::Graph g, quant::SampleSource& samples,
                                  std::size_t most_samples, int threads);

}  // namespace fold8::fusion
