#include "quant/quantize_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "quant/observer.h"
#include "quant/wide.h"

namespace fold8::quant {
namespace {

float scale_of(float largest) {
  if (largest == 0) return 1.0f;
  return std::max(static_cast<float>(static_cast<double>(largest) / 127),
                  std::numeric_limits<float>::min());
}

// clamp(round_half_even(w / scale), -127, 127) of a run with one scale.
void codes_of(std::span<const float> w, float scale, std::int8_t* codes) {
  constexpr float kToInteger = 0x1.8p23f;  // x + it - it: rounded to an integer, half to even
  wide([&] {
    for (std::size_t i = 0; i < w.size(); ++i) {
      float x = w[i] / scale;
      x = x > 127.0f ? 127.0f : x;
      x = x < -127.0f ? -127.0f : x;
      codes[i] = static_cast<std::int8_t>(static_cast<std::int32_t>((x + kToInteger) - kToInteger));
    }
  });
}

float largest_of(std::span<const float> w) {
  const Extent e = extent_of(w);
  return std::max(-e.lo, e.hi);
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
  // Runs of `inner` weights share a channel.
  const auto each_run = [&](const auto& visit) {
    for (std::size_t o = 0; o < outer; ++o)
      for (std::size_t column = 0; column < columns; ++column)
        visit((o * columns + column) * inner, (groups > 1 ? o / per_group : 0) * columns + column);
  };
  std::vector<float> largest(granularity == WeightGranularity::per_tensor ? 1 : channels, 0.0f);
  const bool one = largest.size() == 1;
  each_run([&](std::size_t begin, std::size_t channel) {
    float& m = largest[one ? 0 : channel];
    m = std::max(m, largest_of(w.subspan(begin, inner)));
  });
  std::vector<float> scales(channels);
  for (std::size_t c = 0; c < channels; ++c) scales[c] = scale_of(largest[one ? 0 : c]);
  std::vector<std::int8_t> codes(w.size());
  each_run([&](std::size_t begin, std::size_t channel) {
    codes_of(w.subspan(begin, inner), scales[channel], codes.data() + begin);
  });
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
      const auto run = w.subspan(row + begin, std::min(width - begin, block));
      scales.push_back(scale_of(largest_of(run)));
      codes_of(run, scales.back(), codes.data() + row + begin);
    }
  FOLD8_TRY(QuantParams params, QuantParams::per_group(1, group, std::move(scales)));
  return QuantizedWeight{std::move(codes), std::move(params)};
}

}  // namespace fold8::quant
