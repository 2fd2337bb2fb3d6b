// Seeded random numbers whose seed is printed when a test fails. FOLD8_TEST_SEED overrides it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace fold8::testing {

class SeededRng {
 public:
  explicit SeededRng(std::uint64_t seed = 8)
      : seed_(std::getenv("FOLD8_TEST_SEED")
                  ? std::strtoull(std::getenv("FOLD8_TEST_SEED"), nullptr, 10)
                  : seed),
        engine_(seed_),
        trace_(__FILE__, __LINE__, "FOLD8_TEST_SEED=" + std::to_string(seed_)) {}

  std::int64_t integer(std::int64_t lo, std::int64_t hi) {
    return std::uniform_int_distribution<std::int64_t>(lo, hi)(engine_);
  }
  float uniform(float lo, float hi) {
    return std::uniform_real_distribution<float>(lo, hi)(engine_);
  }
  float normal(float mean = 0, float stddev = 1) {
    return std::normal_distribution<float>(mean, stddev)(engine_);
  }

  void fill_normal(std::span<float> out, float mean = 0, float stddev = 1) {
    for (float& v : out) v = normal(mean, stddev);
  }
  template <class T>
  void fill_integers(std::span<T> out, std::int64_t lo, std::int64_t hi) {
    for (T& v : out) v = static_cast<T>(integer(lo, hi));
  }

 private:
  std::uint64_t seed_;
  std::mt19937_64 engine_;
  ::testing::ScopedTrace trace_;
};

// Lengths where vector code breaks: 1..4, and one either side of multiples of 4..64.
inline std::vector<std::size_t> awkward_lengths() {
  return {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 127, 128, 129};
}

}  // namespace fold8::testing
