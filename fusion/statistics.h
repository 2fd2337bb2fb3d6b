// Statistics of a network gathered once, perhaps on several machines, and used by convert().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fusion/convert.h"
#include "quant/sample_source.h"
#include "quant/statistics.h"
#include "runtime/exec/model.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// Of the folded float network on all samples. Of the options, those that change that network count
// (layer_norm_to_rms_norm), and threads and progress.
Result<quant::Statistics> measure(graph::Graph imported, quant::SampleSource& samples,
                                  const ConvertOptions& options);

// An error if they are of another network than `front` (run_front()).
Status check_statistics(const quant::Statistics& statistics, const graph::Graph& front);

// Ranges of a network that smoothing or equalization has changed since they were measured. Tensors
// whose values changed are measured again on `samples`; without samples their ends follow from
// those of their channels, and they have no histogram any more. `model`, `lowered`: the changed
// network.
Result<quant::CalibrationTable> ranges_after_rescaling(const quant::Statistics& statistics,
                                                       std::shared_ptr<const exec::Model> model,
                                                       const graph::Graph& lowered,
                                                       quant::SampleSource* samples, int threads);

}  // namespace fold8::fusion
