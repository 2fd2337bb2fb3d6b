// Where calibration and evaluation data come from: one sample at a time, never all in memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/core/tensor.h"

namespace fold8::quant {

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::size_t count() const = 0;
  // The inputs of sample i in the order of the graph's inputs, checked against names, shapes and
  // element types; errors name file and input. May be called in any order and again.
  virtual Result<std::vector<Tensor>> sample(std::size_t i) = 0;
  // The file (and row) of sample i, for messages; empty where there is none.
  virtual std::string describe(std::size_t) const { return {}; }
};

// "3 ('calib/s3.npz')", or "3" where nobody knows more.
std::string sample_name(const SampleSource& samples, std::size_t i);

}  // namespace fold8::quant
