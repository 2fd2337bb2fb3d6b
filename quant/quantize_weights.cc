#include "quant/quantize_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "quant/observer.h"

namespace fold8::quant {
namespace {

float scale_of(float largest) {
  if (largest == 0) return 1.0f;
  return std::max(static_cast<float>(static_cast<double>(largest) / 127),
                  std::numeric_limits<float>::min());
}

std::int8_t code_of(float w, float scale) {
  return static_cast<std::int8_t>(std::clamp(std::rint(w / scale), -127.0f, 127.0f));
}

Status expect_finite(std::span<const float> w) {
  const std::size_t bad = first_not_finite(w);
  if (bad == w.size()) return ok_status();
  return invalid_model("element " + std::to_string(bad) + " is " +
                       (std::isnan(w[bad]) ? "NaN" : "infinite") +
                       ": no finite scale exists; repair the weights");
}

}  // namespace

Result<QuantizedWeight> quantize_weight(std::span<const float> w, const Shape& shape,
                                        int channel_axis, WeightGranularity granularity,
                                        std::int64_t groups) {
  FOLD8_CHECK_OK(expect_finite(w));
  const auto columns = static_cast<std::size_t>(shape.extent(channel_axis));
  const auto inner = static_cast<std::size_t>(shape.count(channel_axis + 1, shape.rank()));
  const auto outer = static_cast<std::size_t>(shape.count(0, channel_axis));
  const std::size_t per_group = outer / static_cast<std::size_t>(std::max<std::int64_t>(groups, 1));
  const std::size_t channels = columns * static_cast<std::size_t>(groups);
  const auto channel_of = [&](std::size_t i) {
    const std::size_t column = i / inner % columns, o = i / inner / columns;
    return (groups > 1 ? o / per_group : 0) * columns + column;
  };
  std::vector<float> largest(granularity == WeightGranularity::per_tensor ? 1 : channels, 0.0f);
  const bool one = largest.size() == 1;
  for (std::size_t i = 0; i < w.size(); ++i) {
    float& m = largest[one ? 0 : channel_of(i)];
    m = std::max(m, std::abs(w[i]));
  }
  std::vector<float> scales(channels);
  for (std::size_t c = 0; c < channels; ++c) scales[c] = scale_of(largest[one ? 0 : c]);
  std::vector<std::int8_t> codes(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) codes[i] = code_of(w[i], scales[channel_of(i)]);
  FOLD8_TRY(QuantParams params, QuantParams::per_channel(channel_axis, std::move(scales)));
  return QuantizedWeight{std::move(codes), std::move(params)};
}

Result<QuantizedWeight> quantize_weight_groups(std::span<const float> w, const Shape& shape,
                                               std::int64_t group) {
  if (shape.rank() != 2 || group < 1)
    return invalid_argument("groups of " + std::to_string(group) + " inputs of a weight " +
                            to_string(shape) + ": only matrices have groups, of at least 1");
  FOLD8_CHECK_OK(expect_finite(w));
  const auto width = static_cast<std::size_t>(shape.extent(1)),
             block = static_cast<std::size_t>(group);
  std::vector<float> scales;
  std::vector<std::int8_t> codes(w.size());
  for (std::size_t row = 0; row < w.size(); row += width)
    for (std::size_t begin = 0; begin < width; begin += block) {
      const std::size_t end = std::min(width, begin + block);
      float largest = 0;
      for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(w[row + i]));
      scales.push_back(scale_of(largest));
      for (std::size_t i = begin; i < end; ++i) codes[row + i] = code_of(w[row + i], scales.back());
    }
  FOLD8_TRY(QuantParams params, QuantParams::per_group(1, group, std::move(scales)));
  return QuantizedWeight{std::move(codes), std::move(params)};
}

}  // namespace fold8::quant
