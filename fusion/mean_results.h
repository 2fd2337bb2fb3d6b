// What bias correction needs: means per channel of what layers read and compute, in the float
// network and in the quantized one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/layer_rows.h"
#include "quant/sample_source.h"
#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

using ChannelMeans = std::map<std::string, std::vector<double>>;

// A layer whose mean result its operands' means explain.
struct AveragedLayer {
  std::string name;       // of its output
  quant::LayerRows rows;  // what it multiplies
  std::string residual;   // what it adds; empty: nothing
};

struct MeanResults {
  ChannelMeans layers;     // before the activation, residual included; by the name of the output
  ChannelMeans rows;       // [groups, width] of what a layer multiplies; by the name of the output
  ChannelMeans residuals;  // of what a layer adds; by the name of the output
};

// Linear and Conv of a fused float graph, but for batches of matrices and transposed convolutions.
std::vector<AveragedLayer> layers_to_average(const graph::Graph& g);

// `g` is fused, and quantized or not, but not lowered. `layers`: layers_to_average() of the float
// graph. Over at most `most_samples`, evenly spread. Tensors that are no f32 with known channels
// are left out.
Result<MeanResults> mean_results(graph::Graph g, const std::vector<AveragedLayer>& layers,
                                 quant::SampleSource& samples, std::size_t most_samples,
                                 int threads);

// What to add to each layer's bias, by the name of its output: the mean of float, less the mean of
// quantized, less what the means of its operands explain,
//   (y - y') - W (x - x') - (r - r')
// so that every layer takes back its own shift only, and all can be corrected at once.
ChannelMeans bias_corrections(const graph::Graph& float_graph,
                              const std::vector<AveragedLayer>& layers, const MeanResults& wanted,
                              const MeanResults& got);

}  // namespace fold8::fusion
