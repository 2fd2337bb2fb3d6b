// From observed values to a scale and a zero point.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "quant/observer.h"
#include "runtime/core/quant_params.h"

namespace fold8::quant {

enum class Method : std::uint8_t {
  minmax,      // everything observed is representable
  percentile,  // the range that holds kPercentile of the values on each side
  entropy,     // least Kullback-Leibler divergence between the values and their codes (Migacz, GTC
               // 2017)
  mse,         // least mean squared error of rounding and clipping together
  automatic,   // all but one value in 100,000 on each side: minmax for small tensors, no single
               // outlier for large ones
};
std::optional<Method> method_from_name(std::string_view name);
std::string_view name(Method m);

inline constexpr double kPercentile = 0.9999;
inline constexpr double kAutomaticPercentile = 0.99999;

struct Range {
  double lo = 0, hi = 0;
};

Range choose_range(const Observer& o, Method method, double percentile = kPercentile);

// u8 with zero point so that 0 is exact: the range is widened to hold 0, scale = (hi - lo) / 255
// clamped to [2^-126, largest float], zero_point = round(-lo / scale). Always valid, also for
// empty, constant, denormal and overflowing ranges.
QuantParams activation_params(const Range& range);

// Expected squared error of rounding and clipping to `params` over the histogram (bins taken at
// their centres).
double expected_squared_error(const Histogram& h, double scale, double lo, double hi);

}  // namespace fold8::quant
