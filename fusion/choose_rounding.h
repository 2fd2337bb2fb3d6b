// In a network whose linear layers round per token: which of the tensors they read do better with
// one scale and a zero point from calibration. A GELU's result is nearly all on one side of zero,
// where per-token codes, which are symmetric, waste half of theirs; and it costs less.
#pragma once

#include <map>
#include <set>
#include <string>

#include "fusion/passes/quantize.h"
#include "quant/sample_rows.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// Names of the tensors whose rounding with options' static parameters makes no larger squared error
// in the layers' outputs on `rows` than rounding per token does. Errors of channels count as
// independent: sum_rj e_rj^2 |W_j|^2, every rounding carried out.
std::set<std::string> better_static(const graph::Graph& g, const QuantizeOptions& options,
                                    const std::map<std::string, quant::SampleRows>& rows);

}  // namespace fold8::fusion
