// Networks for the test that counts allocations. Keeps fold8's inner headers away from those of the
// API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fold8::testing {

struct AllocationCase {
  const char* name;
  const char* onnx;  // in tests/data
  bool dynamic;      // scales per token instead of calibrated ones
  std::vector<std::int64_t> dims;
  bool free_batch;
  std::size_t elements() const {
    std::size_t n = 1;
    for (const std::int64_t d : dims) n *= static_cast<std::size_t>(d);
    return n;
  }
};

std::vector<AllocationCase> allocation_cases();

// Converts it (calibrated on digits_calib.npz) and writes a temporary .f8; returns the path.
std::string convert_to_file(const AllocationCase& c);

}  // namespace fold8::testing
