// Plots of a report as compact JSON: numbers become pairs of digits in base 64, so that a page of a
// thousand layers stays at a few MB.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quant/compare.h"
#include "quant/weight_ranges.h"

namespace fold8::report {

// Steps that a digit pair tells apart: 0..kSteps.
inline constexpr int kSteps = 4095;

// Each value as two of "A-Za-z0-9+/", most significant first: lo is AA, hi is //. Values outside
// are clamped. lo == hi: all AA.
std::string digits(const std::vector<double>& values, double lo, double hi);

// How much of a layer is shown: less in large networks.
struct PlotSize {
  std::size_t bins = 64, channels = 128, values = 256;
};
PlotSize plot_size(std::size_t layers);

// range, worst, hist, channels, values, codes: those there are.
nlohmann::ordered_json plots_json(const quant::LayerError& layer, const PlotSize& size);
// count, dead[], huge[], lo, hi, max, limit, scale
nlohmann::ordered_json weights_json(const quant::WeightRanges& weights, const PlotSize& size);

}  // namespace fold8::report
