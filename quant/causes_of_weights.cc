#include <algorithm>

#include "quant/cause_text.h"
#include "quant/causes_of.h"
#include "quant/channel_words.h"

namespace fold8::quant {
namespace {

constexpr double kOutlierWeights = 8;  // largest over median magnitude, of input channels
constexpr double kDeadChannel = 8;     // median magnitude over the channel's
constexpr double kUnevenWeights = 16;
constexpr double kClippedWeights = 1e-4;

}  // namespace

Cause cause_of_weights(const LayerFacts& layer, const RoundingFacts* input) {
  const WeightFacts& w = *layer.weights;
  Cause c;
  if (static_cast<double>(w.clipped) > kClippedWeights * static_cast<double>(w.count)) {
    c.kind = CauseKind::clipped_weights;
    c.text = percent(static_cast<double>(w.clipped) / static_cast<double>(w.count)) +
             " of its weights lie outside their codes: their scales are too small";
    return c;
  }
  const double largest = *std::max_element(w.output_max.begin(), w.output_max.end());
  if (const double middle = median(w.output_max);
      w.per_tensor && middle > 0 && largest > kUnevenWeights * middle) {
    c.kind = CauseKind::weights_per_tensor;
    c.text = "one scale serves the weights of " + std::to_string(w.outputs) +
             " output channels, which reach from " + short_number(middle) + " (median) to " +
             short_number(largest);
    return c;
  }
  const auto found = outliers(w.input_max, kOutlierWeights);
  if (found.empty()) {
    c.text = "nothing stands out in its weights: 8 bits are few for them";
    return c;
  }
  const std::size_t k = found[0];
  c.channels = found;
  c.kind = CauseKind::outlier_weights;
  const double middle = median(w.input_max);
  c.text = "the weights of input " + channel_list(found) + " reach " +
           short_number(w.input_max[k]) + ", " + times(w.input_max[k] / middle) +
           " the median of its " + std::to_string(w.inputs) +
           " input channels, and set the steps of all others";
  if (input == nullptr || input->channel_max.size() != w.inputs) return c;
  const double live = median(as_doubles(input->channel_max)),
               here = static_cast<double>(input->channel_max[k]);
  if (here * kDeadChannel > live) return c;
  c.kind = CauseKind::dead_channel;
  c.text = channel_list({k}) + " of " + "'" + input->where.tensor + "'" + " hardly lives (up to " +
           short_number(here) + ", the median channel to " + short_number(live) +
           "), so its weights are " + times(w.input_max[k] / middle) +
           " the median and set the steps of all others";
  return c;
}

std::optional<LayerNoise> layer_noise(const LayerFacts& layer, const ModelFacts& facts) {
  if (!layer.weights) return std::nullopt;
  const WeightFacts& w = *layer.weights;
  const RoundingFacts* x = layer.input ? &facts.roundings[*layer.input] : nullptr;
  if (x == nullptr || x->count() == 0) return std::nullopt;
  LayerNoise n;
  if (x->channel_powers.size() == w.inputs) {
    const double elements = static_cast<double>(x->count()) / static_cast<double>(w.inputs);
    for (std::size_t c = 0; c < w.inputs; ++c) {
      n.signal += x->channel_powers[c].energy / elements * w.input_power[c];
      n.input += x->channel_powers[c].error / elements * w.input_power[c];
      n.weights += x->channel_powers[c].energy / elements * w.input_error[c];
    }
    return n;
  }
  double power = 0, error = 0;
  for (std::size_t c = 0; c < w.inputs; ++c) {
    power += w.input_power[c];
    error += w.input_error[c];
  }
  const double elements = static_cast<double>(x->count());
  n.signal = x->powers.energy / elements * power;
  n.input = x->powers.error / elements * power;
  n.weights = x->powers.energy / elements * error;
  return n;
}

}  // namespace fold8::quant
