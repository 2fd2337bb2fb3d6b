// A tensor of any element type as the numbers it stands for: what outputs are compared as, so that
// no type is left out of a comparison.
#pragma once

#include <vector>

#include "runtime/core/tensor.h"

namespace fold8::quant {

// In the order of the shape. `rest` is empty unless an integer is too wide for a double (beyond
// 2^53): element i is then exactly values[i] + rest[i].
struct Numbers {
  std::vector<double> values, rest;

  std::size_t size() const { return values.size(); }
  // What element i of `other` is more than element i of this; exact for integers that lie near each
  // other, so that different ones are never taken for equal.
  double to(const Numbers& other, std::size_t i) const {
    const double difference = other.values[i] - values[i];
    if (rest.empty() && other.rest.empty()) return difference;
    return difference + ((other.rest.empty() ? 0 : other.rest[i]) - (rest.empty() ? 0 : rest[i]));
  }
};

// Codes whose scales are known by their type as real numbers (plain_f32()), floats of 16, 32 and 64
// bits and integers as they are, booleans as 0 and 1.
Numbers numbers_of(const TensorView& view, const TensorType& type);

}  // namespace fold8::quant
