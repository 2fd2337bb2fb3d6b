#include "fusion/choose_rounding.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::Node;

// Squared lengths of the weights of each channel, of all layers that read a tensor.
std::map<std::string, std::vector<double>> powers(const Graph& g) {
  std::map<std::string, std::vector<double>> result;
  for (graph::NodeId n = 0; n < g.node_count(); ++n) {
    const Node& node = g.node(n);
    if (node.dead || !std::holds_alternative<graph::Linear>(node.op) ||
        !is_quantizable_layer(g, node))
      continue;
    const auto width = static_cast<std::size_t>(g.type(node.inputs[1]).shape.back().value());
    const auto w = g.constant<float>(node.inputs[1]);
    std::vector<double>& power = result[g.value(node.inputs[0]).name];
    power.resize(width);
    for (std::size_t i = 0; i < w.size(); ++i) power[i % width] += double{w[i]} * w[i];
  }
  return result;
}

struct Errors {
  double per_token = 0, with_one_scale = 0;
};

Errors errors_of(const quant::SampleRows& rows, const std::vector<double>& power,
                 const QuantParams& params) {
  Errors e;
  const double s = double{params.scale()}, z = params.zero_point();
  for (std::size_t r = 0; r < rows.values.size(); r += rows.width) {
    const float* x = rows.values.data() + r;
    float most = 0;
    for (std::size_t j = 0; j < rows.width; ++j) most = std::max(most, std::fabs(x[j]));
    const double step = std::max(double{most} / 127, 0x1p-126);
    for (std::size_t j = 0; j < rows.width; ++j) {
      const double token = std::rint(x[j] / step) * step - x[j];
      const double one = (std::clamp(std::rint(x[j] / s) + z, 0.0, 255.0) - z) * s - x[j];
      e.per_token += token * token * power[j];
      e.with_one_scale += one * one * power[j];
    }
  }
  return e;
}

}  // namespace

std::set<std::string> better_static(const Graph& g, const QuantizeOptions& options,
                                    const std::map<std::string, quant::SampleRows>& rows) {
  std::set<std::string> names;
  if (options.calibration == nullptr) return names;
  for (const auto& [tensor, power] : powers(g)) {
    const auto sampled = rows.find(tensor);
    const quant::Observer* seen = options.calibration->find(tensor);
    if (sampled == rows.end() || seen == nullptr || seen->empty() ||
        sampled->second.width != power.size())
      continue;
    const Errors e = errors_of(sampled->second, power, static_params_of(options, *seen));
    if (e.with_one_scale <= e.per_token) names.insert(tensor);
  }
  return names;
}

}  // namespace fold8::fusion
