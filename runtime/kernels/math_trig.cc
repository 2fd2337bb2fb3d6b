// Sine, cosine, tangent in double over the whole range: the argument is reduced by exact integer
// arithmetic.
#include <bit>
#include <cstdint>

#include "runtime/kernels/math_double.h"

namespace fold8::kernels {
namespace {

__extension__ using U128 = unsigned __int128;

// The first 1216 fractional bits of 2 / pi, most significant word first.
constexpr std::uint64_t kTwoOverPi[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
    0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
};

struct Reduced {
  int quadrant;      // of 4
  double high, low;  // in [-pi/4, pi/4]
};

// Word i (64 bits) of the fraction of 2/pi that starts at bit `from`; bits before the binary point
// are 0.
std::uint64_t word_at(int from) {
  std::uint64_t w[2];
  const int first = from >> 6, shift = from & 63;
  for (int k = 0; k < 2; ++k) {
    const int i = first + k;
    w[k] = i < 0 || i >= static_cast<int>(sizeof(kTwoOverPi) / 8) ? 0 : kTwoOverPi[i];
  }
  return shift == 0 ? w[0] : (w[0] << shift) | (w[1] >> (64 - shift));
}

// x = 2^e m, m an integer of 53 bits. x * 2/pi modulo 4 needs of 2/pi only the bits from 2^(1-e)
// down; with 192 of them the fraction keeps 128 - 53 correct bits below the point. |x| > pi/4,
// finite.
Reduced reduce(double x) {
  const std::uint64_t b = std::bit_cast<std::uint64_t>(x);
  const int e = static_cast<int>((b >> 52) & 2047) - 1075;
  const std::uint64_t m = (b & 0xfffffffffffffull) | (1ull << 52);
  // P = m * W, W = 192 bits of 2/pi, the first of weight 2^(1-e): P 2^-190 = x * 2/pi modulo 4,
  // kept in 192 bits.
  const int from = e - 2;
  const std::uint64_t w0 = word_at(from), w1 = word_at(from + 64), w2 = word_at(from + 128);
  const U128 p2 = static_cast<U128>(m) * w2;
  const U128 p1 = static_cast<U128>(m) * w1 + static_cast<std::uint64_t>(p2 >> 64);
  const std::uint64_t top = m * w0 + static_cast<std::uint64_t>(p1 >> 64);
  const U128 all = (static_cast<U128>(top) << 64) |
                   static_cast<std::uint64_t>(p1);  // 2 integer bits, 126 of fraction
  int quadrant = static_cast<int>(all >> 126);
  U128 fraction = all << 2;
  bool negative = false;
  if (fraction >> 127) {  // above one half: to the next quadrant, negative rest
    quadrant = (quadrant + 1) & 3;
    fraction = -fraction;
    negative = true;
  }
  const double f_high =
      static_cast<double>(static_cast<std::uint64_t>(fraction >> 75)) * 0x1p-53;  // 53 bits, exact
  const double f_low =
      static_cast<double>(static_cast<std::uint64_t>((fraction << 53) >> 64)) * 0x1p-117;
  const double half_pi = 0x1.921fb54442d18p+0, half_pi_low = 0x1.1a62633145c07p-54;
  const double r = f_high * half_pi;
  double low = __builtin_fma(f_high, half_pi, -r) + (f_high * half_pi_low + f_low * half_pi);
  double high = r + low;
  low = (r - high) + low;
  if (b >> 63) negative = !negative, quadrant = -quadrant & 3;
  return negative ? Reduced{quadrant, -high, -low} : Reduced{quadrant, high, low};
}

double sin_part(double r, double low) {
  constexpr double kRatio[] = {-1.0 / (19 * 18), -1.0 / (17 * 16), -1.0 / (15 * 14),
                               -1.0 / (13 * 12), -1.0 / (11 * 10), -1.0 / (9 * 8),
                               -1.0 / (7 * 6),   -1.0 / (5 * 4),   -1.0 / (3 * 2)};
  const double z = r * r;
  double p = 0;
  for (double c : kRatio) p = (1 + p) * (z * c);
  return r + (r * p + low);
}

double cos_part(double r, double low) {
  constexpr double kRatio[] = {-1.0 / (18 * 17), -1.0 / (16 * 15), -1.0 / (14 * 13),
                               -1.0 / (12 * 11), -1.0 / (10 * 9),  -1.0 / (8 * 7),
                               -1.0 / (6 * 5),   -1.0 / (4 * 3)};
  const double z = r * r;
  double p = 0;
  for (double c : kRatio) p = (1 + p) * (z * c);
  // 1 - z/2 + ... with the rounding of 1 - z/2 given back
  const double half = 0.5 * z, w = 1 - half;
  return w + (((1 - w) - half) + (half * -p - r * low));
}

Reduced reduce_any(double x) {
  if (x > -0.785 && x < 0.785) return {0, x, 0};
  return reduce(x);
}

bool finite(double x) { return x - x == 0; }

}  // namespace

double sin_f64(double x) {
  if (!finite(x)) return __builtin_nan("");
  if (x == 0) return x;
  const Reduced r = reduce_any(x);
  const double v = r.quadrant & 1 ? cos_part(r.high, r.low) : sin_part(r.high, r.low);
  return r.quadrant & 2 ? -v : v;
}

double cos_f64(double x) {
  if (!finite(x)) return __builtin_nan("");
  const Reduced r = reduce_any(x);
  const double v = r.quadrant & 1 ? sin_part(r.high, r.low) : cos_part(r.high, r.low);
  return (r.quadrant + 1) & 2 ? -v : v;
}

double tan_f64(double x) {
  if (!finite(x)) return __builtin_nan("");
  if (x == 0) return x;
  const Reduced r = reduce_any(x);
  const double s = sin_part(r.high, r.low), c = cos_part(r.high, r.low);
  return r.quadrant & 1 ? -c / s : s / c;
}

}  // namespace fold8::kernels
