// What the tests of elementwise kernels share: values that break things, and bit comparison of two
// results.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "runtime/kernels/kernel_table.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/random.h"

namespace fold8::kernels::testing {

using fold8::testing::awkward_lengths;
using fold8::testing::GuardedBuffer;
using fold8::testing::SeededRng;

inline const KernelTable& reference_table() { return *targets().back().kernels; }

// Calls f(target) for each vector target this CPU can run, with its name in every failure.
template <class Function>
void for_each_vector_target(Function&& f) {
  for (const Target& t : targets()) {
    if (t.name == "reference" || !t.cpu_can_run()) continue;
    SCOPED_TRACE(std::string(t.name));
    f(*t.kernels);
  }
}

inline std::vector<float> special_values() {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> v = {0.0f,          1.0f,
                          0.5f,          2.0f,
                          3.0f,          1.5f,
                          2.5f,          6.0f,
                          88.7f,         88.8f,
                          104.0f,        1e-40f,
                          1e-45f,        1.17549435e-38f,
                          3.4028235e38f, 1e10f,
                          8388609.0f,    16777217.0f,
                          2147483648.0f, 127.5f,
                          0.70710678f,   1.41421356f,
                          3.9f,          9.02f,
                          65504.0f,      inf};
  const std::size_t n = v.size();
  for (std::size_t i = 0; i < n; ++i) v.push_back(-v[i]);
  v.push_back(std::numeric_limits<float>::quiet_NaN());
  return v;
}

// Special values, then normal ones of several sizes.
inline std::vector<float> awkward_values(SeededRng& rng, std::size_t n) {
  std::vector<float> v = special_values();
  while (v.size() < n)
    v.push_back(rng.normal(0, 1) * (v.size() % 3 == 0 ? 100.0f : v.size() % 3 == 1 ? 1.0f : 0.01f));
  v.resize(n);
  return v;
}

template <class T>
void copy_to(GuardedBuffer<T>& to, const std::vector<T>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = from[i];
}

// Equal bits; any NaN equals any NaN (a payload is no part of the contract, graph outputs get one
// NaN).
inline bool same_bits(float a, float b) {
  return (a != a && b != b) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}
template <class T>
bool same_bits(T a, T b) {
  return a == b;
}

template <class T>
::testing::AssertionResult same_bits(const T* got, const T* want, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    if (!same_bits(got[i], want[i]))
      return ::testing::AssertionFailure() << "element " << i << " of " << n << ": got " << +got[i]
                                           << ", reference has " << +want[i];
  return ::testing::AssertionSuccess();
}

inline double sqnr_db(const std::vector<double>& want, const std::vector<double>& got) {
  double signal = 0, noise = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    signal += want[i] * want[i];
    noise += (want[i] - got[i]) * (want[i] - got[i]);
  }
  return 10 * std::log10(signal / noise);
}

}  // namespace fold8::kernels::testing
