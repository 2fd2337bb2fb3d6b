#include "fusion/passes/shifted_codes.h"

#include <algorithm>
#include <cmath>

namespace fold8::fusion {
namespace {

constexpr double kMostSteps = 255;
constexpr float kMostCoarser = 1.05f;  // 0.4 dB of one tensor's rounding

}  // namespace

float shift_behind_layer(const graph::Graph& g, graph::NodeId affine,
                         const std::function<graph::NodeId(graph::ValueId)>& producer) {
  const graph::Node& n = g.node(affine);
  const auto* op = std::get_if<graph::Affine>(&n.op);
  if (op == nullptr || op->activation != Activation::none || n.inputs.size() < 3 ||
      !g.is_constant(n.inputs[1]) || !g.is_constant(n.inputs[2]))
    return 0;
  const auto scale = g.constant<float>(n.inputs[1]), shift = g.constant<float>(n.inputs[2]);
  const auto is_one = [](float s) { return s == 1; };
  const auto is_first = [&](float t) { return t == shift[0]; };
  if (shift.empty() || !std::all_of(scale.begin(), scale.end(), is_one) ||
      !std::all_of(shift.begin(), shift.end(), is_first))
    return 0;
  const graph::NodeId layer = producer(n.inputs[0]);
  if (layer == graph::kNoNode) return 0;
  const auto* conv = std::get_if<graph::Conv>(&g.node(layer).op);
  return conv != nullptr && conv->activation != Activation::none && conv->shift == 0 ? shift[0] : 0;
}

QuantParams params_for_shift(const QuantParams& params, float t) {
  const double steps = std::floor(std::fabs(double{t}) / double{params.scale()});
  if (!(steps >= 1) || steps > kMostSteps) return params;
  const auto scale = static_cast<float>(std::fabs(double{t}) / steps);
  if (scale > kMostCoarser * params.scale()) return params;
  // The zero point stays where it was within the range, which only grew.
  const double low = -double{params.scale()} * params.zero_point();
  const auto zero = static_cast<std::int32_t>(std::clamp(std::rint(-low / scale), 0.0, 255.0));
  auto shifted = QuantParams::per_tensor(scale, zero);
  return shifted.ok() ? *shifted : params;
}

std::optional<std::int64_t> whole_steps(float t, float scale) {
  const double steps = double{t} / double{scale}, whole = std::rint(steps);
  if (std::fabs(whole) > kMostSteps || std::fabs(steps - whole) > 1e-6 * std::fabs(whole))
    return std::nullopt;
  return static_cast<std::int64_t>(whole);
}

}  // namespace fold8::fusion
