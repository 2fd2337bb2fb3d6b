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

// An output of the conversion errs so much on its samples that why_poor() has something to say.
bool is_poor(const fusion::ConvertSummary& summary, const fusion::ConvertOptions& options);

// The samples as another command takes them: `flag` is "--calib" or "--data". Empty: none were
// given, or random ones.
std::string data_flag(const DataArgs& data, const std::string& flag);

// Why a poor conversion is poor, and what may help, as lines for people; the first says on how many
// samples. It costs runs of at most kExplainedSamples of them, chosen evenly. `imported`: makes the
// network before it was converted, preprocessing included. Empty: nothing stands out.
inline constexpr std::size_t kExplainedSamples = 4;
Result<std::vector<std::string>> why_poor(const std::function<Result<graph::Graph>()>& imported,
                                          const fusion::Converted& converted,
                                          quant::SampleSource& samples,
                                          const fusion::ConvertOptions& options,
                                          Progress& progress);

}  // namespace fold8::cli
