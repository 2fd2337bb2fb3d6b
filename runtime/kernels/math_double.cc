#include "runtime/kernels/math_double.h"

#include <bit>
#include <cstdint>

namespace fold8::kernels {
namespace {

constexpr double kInf = __builtin_inf();
constexpr double kNaN = __builtin_nan("");
constexpr double kPi = 0x1.921fb54442d18p+1, kPiLow = 0x1.1a62633145c07p-53;
constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;  // n * high is exact

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }
double magnitude(double x) { return std::bit_cast<double>(bits(x) & ~(1ull << 63)); }
double with_sign_of(double m, double s) { return (bits(s) >> 63) ? -m : m; }
double power_of_two(int e) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52);
}
double scale2(double x, int n) {  // |n| <= 2044, rounded once
  const int h = n / 2;
  return x * power_of_two(h) * power_of_two(n - h);
}
double nearest(double x) { return __builtin_rint(x); }

// a + b and a * b without any rounding, as high + low.
struct Double2 {
  double high, low;
};
Double2 two_sum(double a, double b) {
  const double s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
Double2 two_product(double a, double b) {
  const double p = a * b;
  return {p, __builtin_fma(a, b, -p)};
}

// e^(x + low), |low| far below |x|.
double exp_sum(double x, double low) {
  if (x != x) return x;
  if (x > 709.8) return kInf;
  if (x < -745.2) return 0;
  const double n = nearest(x * 0x1.71547652b82fep+0);
  const double high = x - n * kLn2High;
  const double small = low - n * kLn2Low;
  const double r = high + small, rest = (high - r) + small;
  double p = 1.0 / 6227020800.0;  // Taylor: |r| < 0.347, the next term is below 2^-60
  constexpr double kInverse[] = {
      1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
      1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      0.5};
  for (double c : kInverse) p = p * r + c;
  const double tail = r * r * p + rest * (1 + r);
  return scale2(1 + (r + tail), static_cast<int>(n));
}

// log(x) as an unevaluated sum, x > 0 and finite: x = 2^e m, s = (m - 1) / (m + 1), log m = 2
// atanh(s).
Double2 log_sum(double x) {
  int e = 0;
  if (x < 0x1p-1022) x *= 0x1p54, e = -54;
  const std::uint64_t b = bits(x);
  e += static_cast<int>(b >> 52) - 1023;
  double m = std::bit_cast<double>((b & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) m *= 0.5, ++e;
  const double f = m - 1;  // exact
  const Double2 d = two_sum(2.0, f);
  const double s = f / d.high;
  const double s_low = (__builtin_fma(-s, d.high, f) - s * d.low) / d.high;
  const double z = s * s;
  double p = 0;
  for (int k = 23; k >= 3; k -= 2) p = p * z + 1.0 / k;
  const Double2 whole = two_product(static_cast<double>(e), kLn2High);
  const double tail = 2 * s_low + 2 * s * z * p + static_cast<double>(e) * kLn2Low + whole.low;
  const Double2 a = two_sum(whole.high, 2 * s);
  const Double2 r = two_sum(a.high, a.low + tail);
  return r;
}

}  // namespace

double exp_f64(double x) { return exp_sum(x, 0); }

double log_f64(double x) {
  if (x == 0) return -kInf;
  if (!(x > 0)) return kNaN;
  if (x == kInf) return x;
  const Double2 r = log_sum(x);
  return r.high + r.low;
}

double log1p_f64(double x) {
  if (!(x > -1)) return x == -1 ? -kInf : kNaN;
  if (magnitude(x) < 0.25) {
    const double s = x / (2 + x), z = s * s;
    double p = 0;
    for (int k = 23; k >= 3; k -= 2) p = p * z + 1.0 / k;
    return x == 0 ? x : 2 * s + 2 * s * z * p;
  }
  if (x == kInf) return x;
  const Double2 u = two_sum(1.0, x);
  const Double2 r = log_sum(u.high);
  return r.high + (r.low + u.low / u.high);
}

double log2_f64(double x) {
  if (!(x > 0) || x == kInf) return log_f64(x);
  const Double2 r = log_sum(x);
  const Double2 p = two_product(r.high, 0x1.71547652b82fep+0);
  return p.high + (p.low + r.high * 0x1.777d0ffda0d24p-56 + r.low * 0x1.71547652b82fep+0);
}

double log10_f64(double x) {
  if (!(x > 0) || x == kInf) return log_f64(x);
  const Double2 r = log_sum(x);
  const Double2 p = two_product(r.high, 0x1.bcb7b1526e50ep-2);
  return p.high + (p.low + r.high * 0x1.95355baaafad3p-57 + r.low * 0x1.bcb7b1526e50ep-2);
}

double pow_f64(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return kNaN;
  const double ay = magnitude(y), ax = magnitude(x);
  const bool integral = ay >= 0x1p53 || __builtin_trunc(y) == y;
  const bool odd = integral && ay < 0x1p53 && __builtin_trunc(y * 0.5) != y * 0.5;
  if (ay == kInf) return ax == 1 ? 1 : ((ax > 1) == (y > 0)) ? kInf : 0;
  double r;
  if (ax == 0 || ax == kInf) {
    r = (ax == 0) == (y > 0) ? 0 : kInf;
  } else {
    if (x < 0 && !integral) return kNaN;
    const Double2 l = log_sum(ax);
    const Double2 p = two_product(y, l.high);
    // Beyond the range of exp, the low part is of no account (and may be NaN).
    r = magnitude(p.high) > 800 ? exp_sum(p.high, 0) : exp_sum(p.high, p.low + y * l.low);
  }
  return odd ? with_sign_of(r, x) : r;
}

double sinh_f64(double x) {
  const double a = magnitude(x);
  if (a < 0.5) {  // Taylor: cancellation in e^x - e^-x
    const double z = x * x;
    double p = 0;
    for (int k = 17; k >= 3; k -= 2) p = (1 + p) * z / (k * (k - 1));
    return x + x * p;
  }
  if (a > 709) {
    const double h = exp_f64(a * 0.5);
    return with_sign_of(0.5 * h * h, x);
  }
  const double e = exp_f64(a);
  return with_sign_of(0.5 * e - 0.5 / e, x);
}

double cosh_f64(double x) {
  const double a = magnitude(x);
  if (a > 709) {
    const double h = exp_f64(a * 0.5);
    return 0.5 * h * h;
  }
  const double e = exp_f64(a);
  return 0.5 * e + 0.5 / e;
}

double tanh_f64(double x) {
  const double a = magnitude(x);
  if (a < 0.5) {  // continued fraction x / (1 + x^2 / (3 + x^2 / (5 + ...)))
    const double z = x * x;
    double d = 21;
    for (int k = 19; k >= 1; k -= 2) d = k + z / d;
    return x / d;
  }
  if (a > 22) return with_sign_of(1, x);
  return with_sign_of(1 - 2 / (exp_f64(2 * a) + 1), x);
}

double asinh_f64(double x) {
  const double a = magnitude(x);
  if (!(a < kInf) || a == 0) return x;
  if (a > 0x1p28) return with_sign_of(log_f64(a) + 0x1.62e42fefa39efp-1, x);
  const double z = a * a;
  return with_sign_of(log1p_f64(a + z / (1 + __builtin_sqrt(1 + z))), x);
}

double acosh_f64(double x) {
  if (!(x >= 1)) return kNaN;
  if (x > 0x1p28) return log_f64(x) + 0x1.62e42fefa39efp-1;
  const double t = x - 1;
  return log1p_f64(t + __builtin_sqrt(2 * t + t * t));
}

double atanh_f64(double x) {
  const double a = magnitude(x);
  if (!(a <= 1)) return kNaN;
  if (a == 0) return x;
  return with_sign_of(0.5 * log1p_f64(2 * a / (1 - a)), x);
}

// atan t = atan c + atan((t - c) / (1 + t c)) with c the nearest quarter: the series sees 1/8 at
// most, and what it adds is small beside atan c, which is stored in two parts.
double atan_f64(double x) {
  struct Parts {
    double high, low;
  };
  constexpr Parts kQuarters[] = {{0, 0},
                                 {0x1.f5b75f92c80ddp-3, 0x1.8a8p-57},
                                 {0x1.dac670561bb4fp-2, 0x1.a28p-56},
                                 {0x1.4978fa3269ee1p-1, 0x1.24p-56},
                                 {0x1.921fb54442d18p-1, 0x1.1a8p-55}};
  if (x != x || x == 0) return x;
  const double a = magnitude(x);
  const bool inverted = a > 1;
  const double t = inverted ? 1 / a : a;
  const int quarter = static_cast<int>(4 * t + 0.5);
  const double c = 0.25 * quarter, d = quarter == 0 ? t : (t - c) / (1 + t * c);
  const double z = d * d;
  double p = 0;
  for (int k = 19; k >= 3; k -= 2) p = 1.0 / k - z * p;
  const Parts at_c = kQuarters[quarter];
  const double rest = at_c.low - d * z * p;
  if (inverted) return with_sign_of((kPi / 2 - at_c.high) - (d + (rest - kPiLow / 2)), x);
  return with_sign_of(at_c.high + (d + rest), x);
}

double asin_f64(double x) {
  if (!(magnitude(x) <= 1)) return kNaN;
  if (magnitude(x) == 1) return with_sign_of(kPi / 2, x);
  return atan_f64(x / __builtin_sqrt((1 - x) * (1 + x)));
}

double acos_f64(double x) {
  if (!(magnitude(x) <= 1)) return kNaN;
  if (x == -1) return kPi;
  return 2 * atan_f64(__builtin_sqrt((1 - x) / (1 + x)));
}

// Below 2.5 the series 2/sqrt(pi) e^(-x^2) sum of 2^n x^(2n+1) / (2n+1)!!, all terms positive;
// above it the continued fraction of erfc.
double erf_f64(double x) {
  if (x != x) return x;
  const double a = magnitude(x);
  if (a > 6) return with_sign_of(1, x);
  constexpr double kTwoOverRootPi = 0x1.20dd750429b6dp+0;
  const double z = a * a;
  if (a < 2.5) {
    double sum = 0;
    for (int n = 60; n >= 1; --n) sum = (1 + sum) * (2 * z / (2 * n + 1));
    return with_sign_of(kTwoOverRootPi * exp_f64(-z) * (a + a * sum), x);
  }
  double d = a;
  for (int n = 60; n >= 1; --n) d = a + 0.5 * n / d;
  return with_sign_of(1 - 0.5 * kTwoOverRootPi * exp_f64(-z) / d, x);
}

}  // namespace fold8::kernels
