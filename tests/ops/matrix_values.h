// Values of weights in the text form, and requantization as SPEC 5a has it.
#pragma once

#include <cmath>

#include "tests/ops/run_graph.h"

namespace fold8::ops {

inline std::string num(float v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(v));
  return text;
}
template <class T>
std::string literal(const std::string& dtype, const Shape& shape, const std::vector<T>& v,
                    const std::string& params = "") {
  std::string s = dtype + to_string(shape) + " " + params + "{";
  for (std::size_t i = 0; i < v.size(); ++i) s += (i ? "," : "") + num(static_cast<float>(v[i]));
  return s + "}";
}
inline std::vector<std::int8_t> random_s8(std::size_t n, std::uint64_t seed) {
  std::vector<std::int8_t> v;
  for (std::uint8_t b : random_u8({static_cast<std::int64_t>(n)}, seed).as<std::uint8_t>())
    v.push_back(static_cast<std::int8_t>(b));
  return v;
}

inline int requantized(float r, int zero) {
  return static_cast<int>(std::nearbyintf(std::min(std::max(r, float(-zero)), float(255 - zero)))) +
         zero;
}

}  // namespace fold8::ops
