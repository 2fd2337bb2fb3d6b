#include "tools/report/metrics_json.h"

#include <cmath>

namespace fold8::report {

using Json = nlohmann::ordered_json;

Json number_or_null(const std::optional<double>& v) {
  return v && std::isfinite(*v) ? Json(*v) : Json(nullptr);
}

Json error_json(const quant::ErrorSummary& e) {
  return {{"sqnr_db", number_or_null(e.sqnr_db)}, {"exact", e.exact},
          {"cosine", number_or_null(e.cosine)},   {"max_abs", number_or_null(e.max_abs)},
          {"rel_l2", number_or_null(e.rel_l2)},   {"bias", number_or_null(e.bias)}};
}

}  // namespace fold8::report
