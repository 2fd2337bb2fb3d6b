#include "quant/weight_ranges.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "quant/layers.h"
#include "runtime/ops/plain_weight.h"

namespace fold8::quant {
namespace {

using graph::Graph;
using graph::kNoValue;
using graph::Node;

bool has_weights(const Graph& g, const Node& n) {
  return (std::holds_alternative<graph::Linear>(n.op) ||
          std::holds_alternative<graph::Conv>(n.op)) &&
         n.inputs.size() > 1 && n.inputs[1] != kNoValue && g.is_constant(n.inputs[1]) &&
         !n.outputs.empty() && n.outputs[0] != kNoValue;
}

// Where the output channels of a weight lie, seen as [outer, channels / groups, inner]: a
// ConvTranspose has [C, M / groups, taps], and C is split among the groups.
struct Channels {
  std::size_t count = 0, groups = 1, outer = 1, inner = 1;
  std::size_t of(std::size_t element) const {
    const std::size_t each = count / groups, o = element / inner / each;
    return o / (outer / groups) * each + element / inner % each;
  }
};

Channels channels_of(const graph::Op& op, const Shape& w) {
  const int rank = w.rank();
  const auto* conv = std::get_if<graph::Conv>(&op);
  const int axis = conv == nullptr ? rank - 2 : conv->transposed ? 1 : 0;
  Channels c;
  c.groups = conv != nullptr && conv->transposed ? static_cast<std::size_t>(conv->group) : 1;
  c.count = static_cast<std::size_t>(w.extent(axis)) * c.groups;
  c.outer = static_cast<std::size_t>(w.count(0, axis));
  c.inner = static_cast<std::size_t>(w.count(axis + 1, rank));
  return c;
}

Result<std::vector<float>> channel_maxima(const graph::Op& op, const TensorType& type,
                                          const void* data) {
  FOLD8_TRY(const std::vector<float> w, ops::plain_f32_weight(op, type, data));
  const Channels channels = channels_of(op, type.shape);
  std::vector<float> maxima(channels.count);
  for (std::size_t i = 0; i < w.size(); ++i) {
    float& m = maxima[channels.of(i)];
    m = std::max(m, std::abs(w[i]));
  }
  return maxima;
}

// The largest magnitude that codes stand for. fold8's own weights leave -128 out.
double magnitude(const TensorType& w, std::size_t at) {
  const double zero = w.quant->zero_point(at), scale = w.quant->scales()[at];
  if (w.dtype == DType::u8) return scale * std::max(zero, 255 - zero);
  return scale * (zero == 0 ? 127 : std::max(128 + zero, 127 - zero));
}

// Scales per group along K follow each other row by row: the largest of a row counts.
std::vector<float> limits(const TensorType& w, std::size_t channels) {
  const std::size_t scales = w.quant->scales().size();
  std::vector<float> result(channels);
  const bool grouped = w.quant->granularity() == Granularity::per_group;
  if (scales == 0 || (grouped && scales % channels != 0)) return {};
  const std::size_t each = grouped ? scales / channels : 1;
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t g = 0; g < each; ++g)
      result[c] = std::max(result[c], static_cast<float>(magnitude(w, (c * each + g) % scales)));
  return result;
}

void judge_channels(WeightRanges& r) {
  if (r.reference.empty()) return;
  std::vector<float> sorted = r.reference;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2),
                   sorted.end());
  const double median = sorted[sorted.size() / 2];
  for (std::size_t c = 0; c < r.reference.size(); ++c) {
    if (r.reference[c] <= kDeadChannel * median)
      r.dead.push_back(c);
    else if (median > 0 && r.reference[c] > kHugeChannel * median)
      r.huge.push_back(c);
  }
}

}  // namespace

Result<std::vector<WeightRanges>> weight_ranges(const exec::Model& reference,
                                                const exec::Model& other) {
  const Graph &a = reference.graph(), &b = other.graph();
  std::unordered_map<std::string, const Node*> float_layers;
  for (graph::NodeId n : reference.order())
    if (has_weights(a, a.node(n)) && a.type(a.node(n).inputs[1]).dtype == DType::f32)
      float_layers[layer_name(a, n)] = &a.node(n);
  std::vector<WeightRanges> all;
  for (graph::NodeId id : other.order()) {
    const Node& n = b.node(id);
    if (!has_weights(b, n)) continue;
    const TensorType& w = b.type(n.inputs[1]);
    WeightRanges r;
    r.name = layer_name(b, id);
    r.rescaled = !b.value(n.inputs[0]).rescale.empty() || !b.value(n.outputs[0]).rescale.empty();
    if (const auto it = float_layers.find(r.name); it != float_layers.end()) {
      const graph::Value& v = a.value(it->second->inputs[1]);
      FOLD8_TRY(r.reference, channel_maxima(it->second->op, v.type, v.constant->data()));
    }
    if (is_quantizable(w.dtype) && w.quant) {
      r.limit = limits(w, channels_of(n.op, w.shape).count);
      r.scales.assign(w.quant->scales().begin(), w.quant->scales().end());
    }
    judge_channels(r);
    if (!r.reference.empty() || !r.limit.empty()) all.push_back(std::move(r));
  }
  return all;
}

}  // namespace fold8::quant
