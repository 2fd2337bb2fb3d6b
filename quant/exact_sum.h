// A sum of doubles without any rounding: the same for every order and grouping (Kulisch, "Very fast
// and exact accumulation of products", 2011, with carries kept for later).
#pragma once

#include <array>
#include <cstdint>

namespace fold8::quant {

// Holds sums of up to 2^62 floats and of products of two floats: magnitudes of 0 or 2^-298 to
// 2^256.
class ExactSum {
 public:
  void add(double finite);  // 0 or in that range; at most 53 bits, the lowest not below 2^-298
  void merge(const ExactSum& other);
  double value() const;  // rounded once, to even

 private:
  static constexpr int kLowest = -298, kDigitBits = 32, kDigits = 20;
  using Digits = std::array<std::int64_t, kDigits>;
  static void carry(Digits& digits);  // all but the last into [0, 2^32)

  Digits digits_{};  // digit i counts 2^(32 i + kLowest)
  std::int32_t pending_ = 0;
};

}  // namespace fold8::quant
