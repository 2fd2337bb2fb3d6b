#include "fusion/choose_rotation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "quant/rotate.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::Node;

using Weights = std::vector<std::span<const float>>;  // of the layers that read a tensor

std::map<std::string, Weights> readers(const Graph& g, const QuantizeOptions& options) {
  std::map<std::string, Weights> result;
  for (graph::NodeId n = 0; n < g.node_count(); ++n) {
    const Node& node = g.node(n);
    if (node.dead || !std::holds_alternative<graph::Linear>(node.op) ||
        !is_quantizable_layer(g, node) || kept_float_by(options, g, node) != nullptr)
      continue;
    result[g.value(node.inputs[0]).name].push_back(g.constant<float>(node.inputs[1]));
  }
  return result;
}

double square(double x) { return x * x; }

// Sums over rows: of the squares of the largest magnitudes, and of all elements.
struct Sizes {
  double largest = 0, all = 0;
};
Sizes sizes_of(std::span<const float> rows, std::size_t width) {
  Sizes s;
  for (std::size_t r = 0; r + width <= rows.size(); r += width) {
    double most = 0;
    for (std::size_t j = 0; j < width; ++j) {
      most = std::max(most, std::fabs(double{rows[r + j]}));
      s.all += square(double{rows[r + j]});
    }
    s.largest += square(most);
  }
  return s;
}

// 12 times the expected squared error; `step`: of the tensor's codes, none: each row's own.
double error_of(std::span<const float> rows, const Weights& weights, std::size_t width,
                std::optional<double> step) {
  constexpr double kSteps = 127;
  const Sizes x = sizes_of(rows, width);
  const double steps =
      step ? square(*step) * static_cast<double>(rows.size() / width) : x.largest / square(kSteps);
  double error = 0;
  for (const auto& w : weights) {
    const Sizes of_weights = sizes_of(w, width);
    error += steps * of_weights.all + of_weights.largest / square(kSteps) * x.all;
  }
  return error;
}

double rotated_error_of(std::span<const float> rows, const Weights& weights, std::size_t width) {
  std::vector<std::vector<float>> rotated;
  for (const auto& w : weights) rotated.push_back(quant::rotated_weights(w, width));
  return error_of(quant::rotated_rows(rows, width), Weights(rotated.begin(), rotated.end()), width,
                  std::nullopt);
}

}  // namespace

std::set<std::string> better_rotated(const Graph& g, const QuantizeOptions& options,
                                     const std::map<std::string, quant::SampleRows>& rows,
                                     double least_gain) {
  std::set<std::string> names;
  for (const auto& [tensor, weights] : readers(g, options)) {
    const auto sampled = rows.find(tensor);
    if (sampled == rows.end() || sampled->second.values.empty() ||
        !quant::can_rotate(sampled->second.width))
      continue;
    const std::size_t width = sampled->second.width;
    std::optional<double> step;
    if (options.static_inputs.count(tensor) != 0) {
      const quant::Observer* seen =
          options.calibration != nullptr ? options.calibration->find(tensor) : nullptr;
      if (seen == nullptr || seen->empty()) continue;
      step = double{static_params_of(options, *seen).scale()};
    }
    const std::span<const float> values = sampled->second.values;
    if (error_of(values, weights, width, step) >
        least_gain * rotated_error_of(values, weights, width))
      names.insert(tensor);
  }
  return names;
}

}  // namespace fold8::fusion
