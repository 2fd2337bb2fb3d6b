// What plots of a layer show beside its errors: both models' values of one tensor, over any number
// of samples in constant memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quant/observer.h"
#include "runtime/core/shape.h"
#include "runtime/graph/ops.h"

namespace fold8::quant {

struct SampledValue {
  float reference = 0, got = 0;
};

// The element where the two differ most.
struct WorstElement {
  std::size_t sample = 0, element = 0;  // index in row-major order
  Shape shape;                          // of the tensor in that sample
  SampledValue value;
};

struct ChannelRange {
  SampledValue min, max;        // smallest and largest value of each model
  double power = 0, error = 0;  // sums of ref^2 and (ref - got)^2
};

struct LayerPlots {
  Observer reference, got;  // range and histogram of the whole tensor
  int channel_axis = -1;
  std::vector<ChannelRange> channels;  // along it; empty if there is none
  std::vector<SampledValue> values;    // drawn evenly from samples and elements
  std::optional<WorstElement> worst;
};

// The axis whose ranges are worth a plot for the result of `op`: channels of feature maps, features
// of rows. -1: none, or its extent is not known.
int plotted_axis(const graph::Op& op, const Shape& shape);

// Draws the same elements for the same samples, whatever the machine.
class LayerPlotter {
 public:
  static constexpr std::size_t kValues = 256;  // drawn at most
  static constexpr std::int64_t kMostChannels = 16384;

  // `samples`: how many are expected. axis: as plotted_axis() says; `channels`: its extent.
  LayerPlotter(int axis, std::size_t channels, std::size_t samples);
  // Finite values of equal count; real numbers in the order of `shape`.
  void add(std::size_t sample, const Shape& shape, std::span<const float> reference,
           std::span<const float> got);
  LayerPlots take() { return std::move(plots_); }

 private:
  void add_channels(const Shape& shape, std::span<const float> reference,
                    std::span<const float> got);
  void draw(std::size_t sample, std::span<const float> reference, std::span<const float> got);

  LayerPlots plots_;
  std::size_t channels_, samples_;
  double worst_ = -1;
};

}  // namespace fold8::quant
