#include "fusion/passes/fold_layer.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "fusion/rewrite/constants.h"
#include "quant/observer.h"

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

  // visit(begin, count, out, in) for runs of weights of one output channel and one input channel,
  // or, where every weight has an input channel of its own (`each_in`), of in, in + 1, ..
  template <class Visit>
  void each_run(std::size_t weights, const Visit& visit) const {
    const bool each_in = has_run_of_inputs();
    const std::int64_t run = linear ? in : each_in ? inner : space;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(weights); i += run) {
      if (linear) {
        visit(i, run, (i / in) % out, std::int64_t{0});
        continue;
      }
      const std::int64_t a = i / (inner * space), b = (i / space) % inner,
                         other = a / (outer / group) * inner + b;
      visit(i, run, transposed ? other : a, transposed ? a : other);
    }
  }
  bool has_run_of_inputs() const { return linear || (!transposed && space == 1); }
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

bool all_finite(const Buffer& floats) {
  const std::span<const float> values(reinterpret_cast<const float*>(floats.data()),
                                      floats.size() / sizeof(float));
  return quant::first_not_finite(values) == values.size();
}

double at(const std::vector<double>& v, std::int64_t channel) {
  return v.size() == 1 ? v[0] : v[static_cast<std::size_t>(channel)];
}

// Weights times the factors of their channels, rounded once to float.
std::shared_ptr<Buffer> scaled_weights(const Layer& layer, Side side,
                                       const std::vector<double>& factors) {
  auto buffer = Buffer::allocate(layer.w.size_bytes());
  auto* to = reinterpret_cast<float*>(buffer->mutable_data());
  const float* from = layer.w.data();
  const bool each_in = side == Side::input && layer.map.has_run_of_inputs() && factors.size() > 1;
  layer.map.each_run(layer.w.size(), [&](std::int64_t begin, std::int64_t count, std::int64_t out,
                                         std::int64_t in) {
    if (each_in) {
      for (std::int64_t k = 0; k < count; ++k)
        to[begin + k] = static_cast<float>(static_cast<double>(from[begin + k]) *
                                           factors[static_cast<std::size_t>(in + k)]);
      return;
    }
    const double factor = at(factors, side == Side::output ? out : in);
    for (std::int64_t k = begin; k < begin + count; ++k)
      to[k] = static_cast<float>(static_cast<double>(from[k]) * factor);
  });
  return buffer;
}

// Weights times a factor per channel of one side; the weight itself if every factor is 1.
FoldResult finish(Graph& g, NodeId n, const Layer& layer, Side side,
                  const std::vector<double>& factors, const std::vector<double>& bias) {
  const graph::Node& node = g.node(n);
  const ValueId old_w = node.inputs[1], old_b = node.inputs.size() > 2 ? node.inputs[2] : kNoValue;
  FoldedLayer result{old_w, old_b};
  std::shared_ptr<Buffer> w;
  if (!all_equal(factors, 1)) w = scaled_weights(layer, side, factors);
  if ((w && !all_finite(*w) && quant::first_not_finite(layer.w) == layer.w.size()) ||
      !all_finite_as_float(bias))
    return "the folded weights would leave the range of float";
  const std::string bias_stem = stem(g, old_b, node.name + "_bias");
  const std::string weight_stem = stem(g, old_w, "");
  const Shape weight_shape = g.type(old_w).shape;
  if (w)
    result.weight =
        g.add_constant(g.fresh_name(weight_stem),
                       TensorType{DType::f32, weight_shape, {}, Layout::plain}, std::move(w));
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
  return finish(g, n, layer, Side::output, affine.scale, bias);
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
  if (shifted) {
    const std::int64_t step = layer.map.has_run_of_inputs() ? 1 : 0;
    layer.map.each_run(layer.w.size(), [&](std::int64_t begin, std::int64_t count, std::int64_t out,
                                           std::int64_t in) {
      double& b = bias[static_cast<std::size_t>(out)];
      for (std::int64_t k = 0; k < count; ++k)
        b += static_cast<double>(layer.w[static_cast<std::size_t>(begin + k)]) *
             at(affine.shift, in + k * step);
    });
  }
  for (std::size_t o = 0; o < layer.b.size(); ++o) bias[o] += static_cast<double>(layer.b[o]);
  return finish(g, n, layer, Side::input, affine.scale, bias);
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

bool takes_factors(const Graph& g, NodeId n) { return std::holds_alternative<Layer>(read(g, n)); }

std::optional<std::vector<double>> weight_ranges(const Graph& g, NodeId n, Side side) {
  const auto read_layer = read(g, n);
  const auto* layer = std::get_if<Layer>(&read_layer);
  if (layer == nullptr) return std::nullopt;
  const WeightMap& map = layer->map;
  std::vector<float> most(static_cast<std::size_t>(side == Side::output ? map.out : map.in));
  map.each_run(layer->w.size(),
               [&](std::int64_t begin, std::int64_t count, std::int64_t out, std::int64_t in) {
                 const float* w = layer->w.data() + begin;
                 if (side == Side::input && map.has_run_of_inputs()) {
                   float* m = most.data() + in;
                   for (std::int64_t k = 0; k < count; ++k) m[k] = std::max(m[k], std::fabs(w[k]));
                   return;
                 }
                 float& m = most[static_cast<std::size_t>(side == Side::output ? out : in)];
                 for (std::int64_t k = 0; k < count; ++k) m = std::max(m, std::fabs(w[k]));
               });
  return std::vector<double>(most.begin(), most.end());
}

}  // namespace fold8::fusion
