#include "quant/layer_plots.h"

#include <algorithm>
#include <cmath>

namespace fold8::quant {
namespace {

// SplitMix64: well mixed bits of a counter.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

bool has_feature_maps(const graph::Op& op, int rank) {
  if (const auto* norm = std::get_if<graph::Norm>(&op))
    return norm->kind == graph::NormKind::group || norm->kind == graph::NormKind::instance;
  if (std::holds_alternative<graph::Conv>(op) || std::holds_alternative<graph::BatchNorm>(op) ||
      std::holds_alternative<graph::Pool>(op) || std::holds_alternative<graph::Resize>(op))
    return true;
  const bool elementwise = std::holds_alternative<graph::Unary>(op) ||
                           std::holds_alternative<graph::Binary>(op) ||
                           std::holds_alternative<graph::Affine>(op);
  return elementwise && rank >= 4;
}

}  // namespace

int plotted_axis(const graph::Op& op, const Shape& shape) {
  const int rank = shape.rank();
  if (rank < 2) return -1;
  const int axis = has_feature_maps(op, rank) ? 1 : rank - 1;
  const bool known = shape[axis].known() && shape[axis].value() > 1 &&
                     shape[axis].value() <= LayerPlotter::kMostChannels;
  return known ? axis : -1;
}

LayerPlotter::LayerPlotter(int axis, std::size_t channels, std::size_t samples)
    : channels_(channels), samples_(std::max<std::size_t>(samples, 1)) {
  plots_.channel_axis = axis;
}

void LayerPlotter::add(std::size_t sample, const Shape& shape, std::span<const float> reference,
                       std::span<const float> got) {
  if (reference.empty()) return;
  // An infinity that both models share is no error (see ErrorMeter), but no point of a plot either.
  if (first_not_finite(reference) < reference.size() || first_not_finite(got) < got.size()) return;
  plots_.reference.add(reference);
  plots_.got.add(got);
  add_channels(shape, reference, got);
  draw(sample, reference, got);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(double{got[i]} - reference[i]);
    if (error <= worst_) continue;
    worst_ = error;
    plots_.worst = WorstElement{sample, i, shape, {reference[i], got[i]}};
  }
}

void LayerPlotter::add_channels(const Shape& shape, std::span<const float> reference,
                                std::span<const float> got) {
  const int axis = plots_.channel_axis;
  if (axis < 0 || axis >= shape.rank() ||
      static_cast<std::size_t>(shape.extent(axis)) != channels_) {
    return;
  }
  const auto inner = static_cast<std::size_t>(shape.count(axis + 1, shape.rank()));
  const bool first = plots_.channels.empty();
  plots_.channels.resize(channels_);
  for (std::size_t i = 0; i < reference.size(); ++i) {
    ChannelRange& c = plots_.channels[i / inner % channels_];
    const float r = reference[i], g = got[i];
    // The first value of a channel, in the first sample that has any.
    if (first && i / inner < channels_ && i % inner == 0) c.min = c.max = {r, g};
    c.min = {std::min(c.min.reference, r), std::min(c.min.got, g)};
    c.max = {std::max(c.max.reference, r), std::max(c.max.got, g)};
    const double e = double{r} - g;
    c.power += double{r} * r;
    c.error += e * e;
  }
}

// Sample s may draw the values [s * kValues / samples, (s + 1) * kValues / samples).
void LayerPlotter::draw(std::size_t sample, std::span<const float> reference,
                        std::span<const float> got) {
  const std::size_t begin = sample * kValues / samples_, end = (sample + 1) * kValues / samples_;
  for (std::size_t k = begin; k < std::min(end, kValues); ++k) {
    const std::size_t i = mixed(k) % reference.size();
    plots_.values.push_back({reference[i], got[i]});
  }
}

}  // namespace fold8::quant
