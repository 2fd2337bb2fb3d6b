// Causes and fixes for a report: measures what quant/causes.h draws its conclusions from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fusion/convert.h"
#include "quant/causes.h"
#include "tools/cli/common.h"

namespace fold8::cli {

struct AdviseOptions {
  std::string reference_path, other_path;  // an .onnx reference also shows its BatchNorms
  const DataArgs& data;
  int threads = 1;
};

// `sensitivity` of all layers, or empty: then the layers that err most are probed on a few samples.
Result<std::vector<quant::Finding>> advise(std::shared_ptr<const exec::Model> reference,
                                           std::shared_ptr<const exec::Model> other,
                                           quant::SampleSource& samples,
                                           const quant::Comparison& comparison,
                                           std::vector<quant::LayerSensitivity> sensitivity,
                                           const AdviseOptions& options, Progress& progress);

// Where a conversion is poor on its samples: why, and what may help, as lines for people.
// `imported`: makes the network before it was converted, preprocessing included. Empty: it is not
// poor.
Result<std::vector<std::string>> why_poor(const std::function<Result<graph::Graph>()>& imported,
                                          const fusion::Converted& converted,
                                          quant::SampleSource& samples,
                                          const fusion::ConvertOptions& options,
                                          Progress& progress);

}  // namespace fold8::cli
