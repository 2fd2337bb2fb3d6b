#include "fusion/passes/fold_layer.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::Graph;
using graph::kNoValue;
using graph::NodeId;
using graph::ValueId;

namespace {

// Where an element of the weight belongs. Linear: [B.., N, K]; Conv: [M, C/group, space];
// transposed: [C, M/group, space].
struct WeightMap {
  std::int64_t out = 0, in = 0;  // channels of output and input
  std::int64_t outer = 0, inner = 0, space = 1, group = 1;
  bool transposed = false, linear = false;

  std::int64_t out_of(std::int64_t i) const {
    if (linear) return (i / in) % out;
    const std::int64_t a = i / (inner * space), b = (i / space) % inner;
    return transposed ? a / (outer / group) * inner + b : a;
  }
  std::int64_t in_of(std::int64_t i) const {
    if (linear) return i % in;
    const std::int64_t a = i / (inner * space), b = (i / space) % inner;
    return transposed ? a : a / (outer / group) * inner + b;
  }
};

struct Layer {
  WeightMap map;
  std::span<const float> w, b;
  int rank = 0;  // of the weight
};

std::variant<Layer, std::string> read(const Graph& g, NodeId n) {
  const graph::Node& node = g.node(n);
  const ValueId w = node.inputs[1], b = node.inputs.size() > 2 ? node.inputs[2] : kNoValue;
  const std::string weight = "weight '" + g.value(w).name + "'";
  if (!g.is_constant(w)) return weight + " is not a constant";
  const TensorType& type = g.type(w);
  if (type.dtype != DType::f32 || type.quant)
    return type.quant ? weight + " is already quantized"
                      : weight + " is " + std::string(name(type.dtype)) + ", not f32";
  if (type.layout != Layout::plain) return weight + " is already packed";
  if (b != kNoValue && (!g.is_constant(b) || g.type(b).dtype != DType::f32))
    return "bias '" + g.value(b).name + "' is not an f32 constant";
  Layer layer;
  layer.rank = type.shape.rank();
  if (layer.rank < 2) return weight + " has fewer than two axes";
  layer.w = g.constant<float>(w);
  if (b != kNoValue) layer.b = g.constant<float>(b);
  WeightMap& m = layer.map;
  if (const auto* conv = std::get_if<graph::Conv>(&node.op)) {
    m.outer = type.shape.extent(0);
    m.inner = type.shape.extent(1);
    m.space = type.shape.count(2, layer.rank);
    m.group = std::max<std::int64_t>(conv->group, 1);
    m.transposed = conv->transposed;
    if (m.outer % m.group != 0 || m.outer == 0) return weight + " does not divide into its groups";
    m.out = m.transposed ? m.inner * m.group : m.outer;
    m.in = m.transposed ? m.outer : m.inner * m.group;
  } else {
    m.linear = true;
    m.out = type.shape.extent(layer.rank - 2);
    m.in = type.shape.extent(layer.rank - 1);
  }
  if (layer.w.empty()) return weight + " is empty";
  if (!layer.b.empty() && static_cast<std::int64_t>(layer.b.size()) != m.out)
    return "bias '" + g.value(b).name + "' has another length than the layer has outputs";
  return layer;
}

std::string stem(const Graph& g, ValueId v, const std::string& otherwise) {
  if (v == kNoValue) return otherwise;
  const std::string& name = g.value(v).name;
  return name.find("_folded") == std::string::npos ? name + "_folded" : name;
}

bool all_equal(const std::vector<double>& v, double x) {
  return std::all_of(v.begin(), v.end(), [x](double y) { return y == x; });
}

double at(const std::vector<double>& v, std::int64_t channel) {
  return v.size() == 1 ? v[0] : v[static_cast<std::size_t>(channel)];
}

// Weights times a factor per element; the weight itself if every factor is 1.
template <class Factor>
FoldResult finish(Graph& g, NodeId n, const Layer& layer, bool scaled, Factor factor,
                  const std::vector<double>& bias) {
  const graph::Node& node = g.node(n);
  const ValueId old_w = node.inputs[1], old_b = node.inputs.size() > 2 ? node.inputs[2] : kNoValue;
  FoldedLayer result{old_w, old_b};
  std::vector<double> w;
  if (scaled) {
    w.resize(layer.w.size());
    for (std::size_t i = 0; i < w.size(); ++i)
      w[i] = static_cast<double>(layer.w[i]) * factor(static_cast<std::int64_t>(i));
  }
  if ((!all_finite_as_float(w) &&
       all_finite_as_float({std::vector<double>(layer.w.begin(), layer.w.end())})) ||
      !all_finite_as_float(bias))
    return "the folded weights would leave the range of float";
  const std::string bias_stem = stem(g, old_b, node.name + "_bias");
  const std::string weight_stem = stem(g, old_w, "");
  const Shape weight_shape = g.type(old_w).shape;
  if (scaled) result.weight = add_floats(g, weight_stem, weight_shape, w);
  if (!layer.b.empty() || !all_equal(bias, 0))
    result.bias = add_floats(g, bias_stem, Shape({Dim(layer.map.out)}), bias);
  return result;
}

bool fits(const std::vector<double>& v, std::int64_t channels) {
  return v.size() == 1 || static_cast<std::int64_t>(v.size()) == channels;
}

// Zero padding meets the layer's input after the affine: the border must not see the shift.
std::string shift_obstacle(const graph::Op& op, const Layer& layer) {
  if (layer.map.linear)
    return layer.rank > 2 ? "a batch of weights has one bias, the shift would need one each" : "";
  const auto& conv = std::get<graph::Conv>(op);
  if (conv.transposed)
    return "the border of a transposed convolution sees fewer taps, so the shift is not the same "
           "everywhere";
  const bool one_tap =
      std::all_of(conv.kernel.begin(), conv.kernel.end(), [](std::int64_t k) { return k == 1; });
  const bool padded =
      std::any_of(conv.pads.begin(), conv.pads.end(), [](std::int64_t p) { return p != 0; });
  if (padded || (conv.auto_pad != graph::AutoPad::none && !(one_tap && !conv.kernel.empty())))
    return "the convolution behind it pads with zeros, which must not get the shift";
  return "";
}

}  // namespace

FoldResult fold_behind(Graph& g, NodeId n, const ChannelAffine& affine) {
  const auto reading = read(g, n);
  if (const auto* why = std::get_if<std::string>(&reading)) return *why;
  const Layer& layer = std::get<Layer>(reading);
  if (!fits(affine.scale, layer.map.out))
    return std::string("its channels are not the layer's output channels");
  std::vector<double> bias(static_cast<std::size_t>(layer.map.out));
  for (std::size_t o = 0; o < bias.size(); ++o) {
    const auto c = static_cast<std::int64_t>(o);
    bias[o] = (layer.b.empty() ? 0.0 : at(affine.scale, c) * static_cast<double>(layer.b[o])) +
              at(affine.shift, c);
  }
  const auto factor = [&](std::int64_t i) { return at(affine.scale, layer.map.out_of(i)); };
  return finish(g, n, layer, !all_equal(affine.scale, 1), factor, bias);
}

FoldResult fold_in_front(Graph& g, NodeId n, const ChannelAffine& affine) {
  const auto reading = read(g, n);
  if (const auto* why = std::get_if<std::string>(&reading)) return *why;
  const Layer& layer = std::get<Layer>(reading);
  if (!fits(affine.scale, layer.map.in))
    return std::string("its channels are not the layer's input channels");
  const bool shifted = !all_equal(affine.shift, 0);
  if (shifted)
    if (std::string why = shift_obstacle(g.node(n).op, layer); !why.empty()) return why;
  std::vector<double> bias(static_cast<std::size_t>(layer.map.out), 0.0);
  if (shifted)
    for (std::size_t i = 0; i < layer.w.size(); ++i) {
      const auto k = static_cast<std::int64_t>(i);
      bias[static_cast<std::size_t>(layer.map.out_of(k))] +=
          static_cast<double>(layer.w[i]) * at(affine.shift, layer.map.in_of(k));
    }
  for (std::size_t o = 0; o < layer.b.size(); ++o) bias[o] += static_cast<double>(layer.b[o]);
  const auto factor = [&](std::int64_t i) { return at(affine.scale, layer.map.in_of(i)); };
  return finish(g, n, layer, !all_equal(affine.scale, 1), factor, bias);
}

std::vector<ValueId> operands(ValueId x, const FoldedLayer& folded) {
  std::vector<ValueId> inputs{x, folded.weight};
  if (folded.bias != kNoValue) inputs.push_back(folded.bias);
  return inputs;
}

void put(const FoldedLayer& folded, std::vector<ValueId>& inputs) {
  inputs[1] = folded.weight;
  if (inputs.size() > 2)
    inputs[2] = folded.bias;
  else if (folded.bias != kNoValue)
    inputs.push_back(folded.bias);
}

bool reads_more_than_bias(const graph::Node& layer) {
  for (std::size_t i = 3; i < layer.inputs.size(); ++i)
    if (layer.inputs[i] != kNoValue) return true;
  return false;
}

std::optional<std::vector<double>> weight_ranges(const Graph& g, NodeId n, Side side) {
  const auto read_layer = read(g, n);
  const auto* layer = std::get_if<Layer>(&read_layer);
  if (layer == nullptr) return std::nullopt;
  const WeightMap& map = layer->map;
  std::vector<double> most(static_cast<std::size_t>(side == Side::output ? map.out : map.in));
  for (std::size_t i = 0; i < layer->w.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    double& m =
        most[static_cast<std::size_t>(side == Side::output ? map.out_of(at) : map.in_of(at))];
    m = std::max(m, std::fabs(double{layer->w[i]}));
  }
  return most;
}

}  // namespace fold8::fusion
