#include "quant/exact_sum.h"

#include <bit>
#include <cstddef>

namespace fold8::quant {
namespace {

constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52) - 1, kDigitMask = 0xffffffffu;
constexpr std::int32_t kMostPending = 1 << 28;  // additions of less than 2^33 to a digit

}  // namespace

void ExactSum::add(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  if (exponent == 0) return;  // 0: nothing in the range is subnormal
  std::uint64_t mantissa = (bits & kMantissa) | (kMantissa + 1);
  int shift = exponent - 1075 - kLowest;  // of the mantissa's lowest bit
  if (shift < 0) {                        // the bits below are zero
    mantissa >>= -shift;
    shift = 0;
  }
  const auto digit = static_cast<std::size_t>(shift / kDigitBits);
  const int within = shift % kDigitBits;
  const std::uint64_t low = (mantissa & kDigitMask) << within, high = (mantissa >> 32) << within;
  const std::int64_t sign = bits >> 63 ? -1 : 1;
  digits_[digit] += sign * static_cast<std::int64_t>(low & kDigitMask);
  digits_[digit + 1] += sign * static_cast<std::int64_t>((low >> 32) + (high & kDigitMask));
  digits_[digit + 2] += sign * static_cast<std::int64_t>(high >> 32);
  if (++pending_ >= kMostPending) {
    carry(digits_);
    pending_ = 0;
  }
}

void ExactSum::carry(Digits& digits) {
  for (std::size_t i = 0; i + 1 < kDigits; ++i) {
    const std::int64_t over = digits[i] >> kDigitBits;  // floor
    digits[i] -= over * (std::int64_t{1} << kDigitBits);
    digits[i + 1] += over;
  }
}

void ExactSum::merge(const ExactSum& other) {
  carry(digits_);
  Digits more = other.digits_;
  carry(more);
  for (std::size_t i = 0; i < kDigits; ++i) digits_[i] += more[i];
  pending_ = 1;
}

double ExactSum::value() const {
  Digits d = digits_;
  carry(d);
  const bool negative = d[kDigits - 1] < 0;
  if (negative) {
    for (std::int64_t& digit : d) digit = -digit;
    carry(d);
  }
  std::size_t top = kDigits;
  while (top > 0 && d[top - 1] == 0) --top;
  if (top == 0) return 0;
  // The upper digits in 64 bits whose highest bit is set, and whether anything lies below them.
  std::uint64_t head = 0;
  int exponent = kLowest + kDigitBits * static_cast<int>(top);
  int missing = 64;
  bool sticky = false;
  for (std::size_t i = top; i-- > 0;) {
    const auto digit = static_cast<std::uint64_t>(d[i]);
    if (i + 1 == top) {
      const int used = static_cast<int>(std::bit_width(digit));
      exponent -= kDigitBits - used;
      missing -= used;
      head = digit;
    } else if (missing >= kDigitBits) {
      head = head << kDigitBits | digit;
      missing -= kDigitBits;
    } else {
      const int keep = missing, drop = kDigitBits - keep;
      head = head << keep | digit >> drop;
      sticky = sticky || (digit & ((std::uint64_t{1} << drop) - 1)) != 0;
      missing = 0;
    }
  }
  head <<= missing;
  // 53 bits, the half way to even.
  std::uint64_t kept = head >> 11;
  const std::uint64_t rest = head & 0x7ff;
  if (rest > 0x400 || (rest == 0x400 && (sticky || (kept & 1) != 0))) ++kept;
  const double size = __builtin_ldexp(static_cast<double>(kept), exponent - 53);
  return negative ? -size : size;
}

}  // namespace fold8::quant
