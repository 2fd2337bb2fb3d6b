// SmoothQuant in a graph: the factors of quant/smoothquant.h leave what linear layers read, for
// nothing where scale_path.h finds a way, else by one multiply; and enter the weights of every
// layer that reads it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fusion/rewrite/rewrite.h"
#include "quant/calibrate.h"
#include "quant/sample_rows.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

struct SmoothOptions {
  std::optional<double> alpha;  // none: searched for each tensor, and only where it gains
  // With minima and maxima per channel of what the layers read (values_to_smooth()).
  const quant::CalibrationTable* calibration = nullptr;
  const std::map<std::string, quant::SampleRows>* rows = nullptr;  // for the search
  bool per_token = true;                                           // how the tensors are rounded
  std::function<bool(const graph::Node&)> becomes_int8;            // null: every layer
};

struct SmoothedTensor {
  std::string tensor;
  std::vector<std::string> layers;  // that read it
  double alpha = 0;
  std::string into;                          // the node that took 1/s; empty: an explicit multiply
  double range_before = 0, range_after = 0;  // largest magnitude on the samples
  std::size_t widest_channel = 0;            // before
};

struct SmoothOutcome {
  std::vector<SmoothedTensor> smoothed;  // in execution order
  std::vector<Declined> declined;
};

// What linear layers with constant f32 weights read, and the axis of its channels.
std::map<std::string, int> values_to_smooth(const graph::Graph& g);

// The graph is canonicalized and folded, or fused too; float results stay the same but for
// rounding.
Result<SmoothOutcome> smooth(graph::Graph& g, const SmoothOptions& options);

}  // namespace fold8::fusion
