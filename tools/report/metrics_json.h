// The JSON form of error metrics, the same in reports and in convert's summary.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "quant/error_metrics.h"

namespace fold8::report {

// null for absent and non-finite numbers: JSON has no infinity.
nlohmann::ordered_json number_or_null(const std::optional<double>& v);
// sqnr_db, exact, cosine, max_abs, rel_l2, bias
nlohmann::ordered_json error_json(const quant::ErrorSummary& e);

}  // namespace fold8::report
