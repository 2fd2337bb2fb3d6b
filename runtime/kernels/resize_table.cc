#include "runtime/kernels/resize_table.h"

#include <cmath>
#include <limits>
#include <string>

namespace fold8::kernels {
namespace {

// The input position of output o, not yet clamped.
double input_position(const ResizeAxisSpec& s, double o) {
  const double in = static_cast<double>(s.in), out = static_cast<double>(s.out);
  switch (s.coordinates) {
    case CoordinateMode::half_pixel:
      return (o + 0.5) / s.scale - 0.5;
    case CoordinateMode::half_pixel_symmetric: {
      const double adjustment = out / (s.scale * in);
      return in / 2 * (1 - adjustment) + (o + 0.5) / s.scale - 0.5;
    }
    case CoordinateMode::pytorch_half_pixel:
      return s.out > 1 ? (o + 0.5) / s.scale - 0.5 : 0;
    case CoordinateMode::align_corners:
      return s.out > 1 ? o * (in - 1) / (out - 1) : 0;
    case CoordinateMode::asymmetric:
      return o / s.scale;
    case CoordinateMode::tf_crop_and_resize:
      return s.out > 1
                 ? s.roi_start * (in - 1) + o * (s.roi_end - s.roi_start) * (in - 1) / (out - 1)
                 : 0.5 * (s.roi_start + s.roi_end) * (in - 1);
  }
  return 0;
}

// Positions are clamped well outside the input before they become integers.
std::int64_t to_index(double x, std::size_t in) {
  const double limit = static_cast<double>(in) + 8;
  return static_cast<std::int64_t>(x < -8 ? -8 : x > limit ? limit : x);
}

std::int32_t clamped(std::int64_t i, std::size_t in) {
  const std::int64_t last = static_cast<std::int64_t>(in) - 1;
  return static_cast<std::int32_t>(i < 0 ? 0 : i > last ? last : i);
}

double nearest_of(NearestMode mode, double x) {
  switch (mode) {
    case NearestMode::round_prefer_floor:
      return std::ceil(x - 0.5);
    case NearestMode::round_prefer_ceil:
      return std::floor(x + 0.5);
    case NearestMode::floor:
      return std::floor(x);
    case NearestMode::ceil:
      return std::ceil(x);
  }
  return x;
}

void add_linear(const ResizeAxisSpec& s, double x, ResizeTable& table) {
  const double last = static_cast<double>(s.in) - 1;
  x = x < 0 ? 0 : x > last ? last : x;
  const double base = std::floor(x), f = x - base;
  for (std::int64_t t = 0; t < 2; ++t)
    table.index.push_back(clamped(to_index(base, s.in) + t, s.in));
  table.weight.push_back(static_cast<float>(1 - f));
  table.weight.push_back(static_cast<float>(f));
}

void add_cubic(const ResizeAxisSpec& s, double x, ResizeTable& table) {
  const double base = std::floor(x), f = x - base, a = s.cubic_coeff_a;
  const auto near = [a](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };  // |d| <= 1
  const auto far = [a](double d) {
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  };  // 1 < |d| < 2
  double w[4] = {far(1 + f), near(f), near(1 - f), far(2 - f)}, sum = 0;
  const std::int64_t first = to_index(base, s.in) - 1;
  for (std::int64_t t = 0; t < 4; ++t) {
    const std::int64_t i = first + t;
    if (s.exclude_outside && (i < 0 || i >= static_cast<std::int64_t>(s.in))) w[t] = 0;
    sum += w[t];
    table.index.push_back(clamped(i, s.in));
  }
  for (double v : w)
    table.weight.push_back(static_cast<float>(s.exclude_outside && sum != 0 ? v / sum : v));
}

}  // namespace

Result<ResizeTable> make_resize_table(const ResizeAxisSpec& s) {
  if (s.in == 0 || s.out == 0 || s.in > std::size_t{std::numeric_limits<std::int32_t>::max()})
    return invalid_argument("resize: from extent " + std::to_string(s.in) + " to " +
                            std::to_string(s.out) + "; both must be positive and fit 31 bits");
  if (!(s.scale > 0) || !std::isfinite(s.scale) || !std::isfinite(s.roi_start) ||
      !std::isfinite(s.roi_end) || !std::isfinite(s.cubic_coeff_a))
    return invalid_argument(
        "resize: scale must be positive; scale, roi and cubic_coeff_a must be finite");
  ResizeTable table;
  table.taps = s.mode == ResizeMode::nearest ? 1 : s.mode == ResizeMode::linear ? 2 : 4;
  table.index.reserve(s.out * table.taps);
  if (table.taps > 1) table.weight.reserve(s.out * table.taps);
  for (std::size_t o = 0; o < s.out; ++o) {
    const double x = input_position(s, static_cast<double>(o));
    const bool outside = s.coordinates == CoordinateMode::tf_crop_and_resize &&
                         (x < 0 || x > static_cast<double>(s.in) - 1);
    if (outside) {
      table.index.insert(table.index.end(), table.taps, -1);
      if (table.taps > 1) table.weight.insert(table.weight.end(), table.taps, 0.0f);
    } else if (s.mode == ResizeMode::nearest) {
      table.index.push_back(clamped(to_index(nearest_of(s.nearest, x), s.in), s.in));
    } else if (s.mode == ResizeMode::linear) {
      add_linear(s, x, table);
    } else {
      add_cubic(s, x, table);
    }
  }
  return table;
}

}  // namespace fold8::kernels
