#include "quant/weight_facts.h"

#include <algorithm>
#include <cmath>

#include "runtime/ops/plain_weight.h"

namespace fold8::quant {
namespace {

bool all_equal(std::span<const float> scales) {
  return scales.size() > 1 &&
         std::all_of(scales.begin(), scales.end(), [&](float s) { return s == scales[0]; });
}

using graph::Graph;
using graph::Node;

constexpr double kCodes = 127;

// f(output channel, input channel, index) for every weight in ONNX order.
template <class F>
void each_weight(const graph::Op& op, const Shape& shape, const F& f) {
  if (std::holds_alternative<graph::Linear>(op)) {
    const auto n = static_cast<std::size_t>(shape.extent(shape.rank() - 2)),
               k = static_cast<std::size_t>(shape.extent(shape.rank() - 1));
    const auto total = static_cast<std::size_t>(shape.count());
    for (std::size_t i = 0; i < total; ++i) f(i / k % n, i % k, i);
    return;
  }
  const auto& conv = std::get<graph::Conv>(op);
  const auto groups = static_cast<std::size_t>(conv.group),
             first = static_cast<std::size_t>(shape.extent(0)),
             second = static_cast<std::size_t>(shape.extent(1)),
             taps = static_cast<std::size_t>(shape.count(2, shape.rank()));
  const std::size_t of_group = first / groups;
  for (std::size_t a = 0, i = 0; a < first; ++a)
    for (std::size_t b = 0; b < second; ++b)
      for (std::size_t t = 0; t < taps; ++t, ++i) {
        const std::size_t g = a / of_group, far = g * second + b;
        conv.transposed ? f(far, a, i) : f(a, far, i);
      }
}

struct Channels {
  std::size_t inputs = 0, outputs = 0;
};
std::optional<Channels> channels_of(const graph::Op& op, const Shape& w) {
  if (!w.known() || w.count() == 0) return std::nullopt;
  if (std::holds_alternative<graph::Linear>(op) && w.rank() >= 2)
    return Channels{static_cast<std::size_t>(w.extent(w.rank() - 1)),
                    static_cast<std::size_t>(w.extent(w.rank() - 2))};
  const auto* conv = std::get_if<graph::Conv>(&op);
  if (conv == nullptr || w.rank() < 3 || conv->group < 1 || w.extent(0) % conv->group != 0)
    return std::nullopt;
  const auto a = static_cast<std::size_t>(w.extent(0)),
             b = static_cast<std::size_t>(w.extent(1) * conv->group);
  return conv->transposed ? Channels{a, b} : Channels{b, a};
}

std::optional<std::vector<float>> float_weights(const Graph& g, const Node& n) {
  if (n.inputs.size() < 2 || !g.is_constant(n.inputs[1])) return std::nullopt;
  const graph::Value& w = g.value(n.inputs[1]);
  if (w.type.dtype != DType::f32 || !channels_of(n.op, w.type.shape)) return std::nullopt;
  auto plain = ops::plain_f32_weight(n.op, w.type, w.constant->data());
  if (!plain.ok()) return std::nullopt;
  return std::move(*plain);
}

const graph::Value* factors_of(const Graph& g, const Node& n) {
  const graph::Value& y = g.value(n.outputs[0]);
  return y.rescale.empty() ? nullptr : &y;
}

// Step of weight `i` from the type of the stored ones: per tensor, per output channel, per group.
double step_of(const QuantParams& q, const Shape& shape, std::size_t i) {
  const auto scales = q.scales();
  if (scales.empty()) return 0;
  if (q.is_per_tensor()) return static_cast<double>(scales[0]);
  const auto inner = static_cast<std::size_t>(shape.count(q.axis() + 1, shape.rank())),
             extent = static_cast<std::size_t>(shape.extent(q.axis()));
  std::size_t at = i / inner % extent;
  if (q.granularity() == Granularity::per_group) {
    const auto group = static_cast<std::size_t>(std::max<std::int64_t>(q.group(), 1));
    at = (i / inner / extent * ((extent + group - 1) / group) + at / group) * inner + i % inner;
  }
  return at < scales.size() ? static_cast<double>(scales[at]) : 0;
}

}  // namespace

std::optional<WeightFacts> weight_facts(const Graph& reference, const Node& reference_node,
                                        const Graph& other, const Node& other_node,
                                        const Rounding* input) {
  if (other_node.inputs.size() < 2 || !other.is_constant(other_node.inputs[1])) return std::nullopt;
  if (reads_rotated(other, other_node)) return std::nullopt;
  // A quantizer that standardises its input took factors which the reference's weights may hold.
  if (input != nullptr && !input->affine_scale.empty()) return std::nullopt;
  auto w = float_weights(reference, reference_node);
  const TensorType& type = other.type(other_node.inputs[1]);
  if (!w || reference_node.op.index() != other_node.op.index()) return std::nullopt;
  const Shape shape = reference.type(reference_node.inputs[1]).shape;
  const auto channels = channels_of(reference_node.op, shape);
  if (!(shape == type.shape) || !channels) return std::nullopt;
  std::optional<std::vector<float>> stored;
  if (type.dtype == DType::f32) {
    stored = float_weights(other, other_node);
    if (!stored) return std::nullopt;
  } else if (!type.quant) {
    return std::nullopt;
  }
  WeightFacts f;
  f.inputs = channels->inputs;
  f.outputs = channels->outputs;
  // `--weights tensor` writes the one scale once per channel.
  f.per_tensor = type.quant && (type.quant->is_per_tensor() || all_equal(type.quant->scales()));
  f.count = w->size();
  f.input_max.assign(f.inputs, 0);
  f.input_power.assign(f.inputs, 0);
  f.input_error.assign(f.inputs, 0);
  f.output_max.assign(f.outputs, 0);
  const bool scaled = input != nullptr && input->rescale.size() == f.inputs;
  const graph::Value* out = factors_of(other, other_node);
  const bool scaled_out = out != nullptr && out->rescale.size() == f.outputs;
  each_weight(reference_node.op, shape, [&](std::size_t n, std::size_t c, std::size_t i) {
    double v = static_cast<double>((*w)[i]);
    if (scaled) v *= static_cast<double>(input->rescale[c]);
    if (scaled_out) v /= static_cast<double>(out->rescale[n]);
    double error;
    if (stored) {
      error = static_cast<double>((*stored)[i]) - v;
      error *= error;
    } else {
      const double step = step_of(*type.quant, shape, i), beyond = std::abs(v) - kCodes * step;
      if (beyond > step) {  // s8 has a code more on one side
        ++f.clipped;
        error = beyond * beyond;
      } else {
        error = v == 0 ? 0 : std::min(step * step / 12, v * v);
      }
    }
    f.input_max[c] = std::max(f.input_max[c], std::abs(v));
    f.input_power[c] += v * v;
    f.input_error[c] += error;
    f.output_max[n] = std::max(f.output_max[n], std::abs(v));
  });
  return f;
}

std::optional<SmoothedError> smoothed_error(const Graph& reference, const Node& node,
                                            const RoundingFacts& input, bool per_tensor_weights) {
  if (!std::holds_alternative<graph::Linear>(node.op) || !input.where.rescale.empty())
    return std::nullopt;
  const auto w = float_weights(reference, node);
  if (!w) return std::nullopt;
  const Shape& shape = reference.type(node.inputs[1]).shape;
  const auto k = static_cast<std::size_t>(shape.back().value());
  if (input.channel_max.size() != k || input.count() == 0) return std::nullopt;
  std::vector<double> largest(k, 0), power(k, 0), factor(k, 1);
  for (std::size_t i = 0; i < w->size(); ++i) {
    const double v = std::abs(static_cast<double>((*w)[i]));
    largest[i % k] = std::max(largest[i % k], v);
    power[i % k] += v * v;
  }
  double before = 0, after = 0;  // largest magnitude of the input
  for (std::size_t c = 0; c < k; ++c) {
    const double x = static_cast<double>(input.channel_max[c]);
    if (x > 0 && largest[c] > 0) factor[c] = std::sqrt(x / largest[c]);
    before = std::max(before, x);
    after = std::max(after, x / factor[c]);
  }
  if (!(before > 0)) return std::nullopt;
  const double elements = static_cast<double>(input.count()) / static_cast<double>(k);
  const auto weight_noise = [&](const std::vector<double>& s) {
    double sum = 0, widest = 0;
    const std::size_t rows = w->size() / k;
    for (int pass = per_tensor_weights ? 0 : 1; pass < 2; ++pass)
      for (std::size_t n = 0; n < rows; ++n) {
        double m = 0;
        for (std::size_t c = 0; c < k; ++c)
          m = std::max(m, std::abs(static_cast<double>((*w)[n * k + c])) * s[c]);
        widest = std::max(widest, m);
        if (pass == 0) continue;
        const double step = (per_tensor_weights ? widest : m) / kCodes;
        for (std::size_t c = 0; c < k; ++c)
          sum += input.channel_powers[c].energy / elements / (s[c] * s[c]) * step * step / 12;
      }
    return sum;
  };
  SmoothedError e;
  const std::vector<double> ones(k, 1);
  const double shrunk = after / before;
  for (std::size_t c = 0; c < k; ++c) {
    const double now = input.channel_powers[c].error / elements;
    e.now += now * power[c];
    // The same kind of rounding with a step that fits the new range, seen in the old units.
    const double then = input.powers.error / elements / static_cast<double>(k) * shrunk * shrunk;
    e.then += then * factor[c] * factor[c] * power[c];
  }
  e.now += weight_noise(ones);
  e.then += weight_noise(factor);
  return e;
}

}  // namespace fold8::quant
