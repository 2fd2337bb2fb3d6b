// What the tests of the f32 and data-movement kernels share.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "runtime/kernels/kernel_table.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/random.h"

namespace fold8::kernels {

// The parameter is the target: a new target or CPU needs no new test code.
class TargetTest : public ::testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (!GetParam().cpu_can_run()) GTEST_SKIP() << "this CPU cannot run " << GetParam().name;
  }
  const KernelTable& kernels() const { return *GetParam().kernels; }
};

#define FOLD8_FOR_ALL_TARGETS(Suite)                                                \
  INSTANTIATE_TEST_SUITE_P(Targets, Suite,                                          \
                           ::testing::ValuesIn(targets().begin(), targets().end()), \
                           [](const auto& info) { return std::string(info.param.name); })

// Bit for bit; any NaN equals any NaN (payloads become 0x7fc00000 at graph outputs only).
inline ::testing::AssertionResult same_bits(std::span<const float> got,
                                            std::span<const float> want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    if (std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(want[i]))
      return ::testing::AssertionFailure()
             << "[" << i << "]: got " << got[i] << ", want " << want[i];
  }
  return ::testing::AssertionSuccess();
}

// Normal values with zeros of both signs, denormals and, if asked, infinities and NaN in between.
inline void fill_wild(testing::SeededRng& rng, std::span<float> out, bool non_finite = true) {
  const float special[] = {0.0f,
                           -0.0f,
                           1e-40f,
                           -1e-42f,
                           3e38f,
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()};
  for (float& v : out)
    v = rng.integer(0, 40) == 0 ? special[rng.integer(0, non_finite ? 7 : 3)] : rng.normal();
}

}  // namespace fold8::kernels
