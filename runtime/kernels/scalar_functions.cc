#include "runtime/kernels/scalar_functions.h"

#include <cmath>

#include "runtime/kernels/math_double.h"

namespace fold8::kernels {

float unary_scalar(UnaryKind kind, float x) noexcept {
  double (*f)(double) = sin_f64;
  switch (kind) {
    case UnaryKind::cos:
      f = cos_f64;
      break;
    case UnaryKind::tan:
      f = tan_f64;
      break;
    case UnaryKind::asin:
      f = asin_f64;
      break;
    case UnaryKind::acos:
      f = acos_f64;
      break;
    case UnaryKind::atan:
      f = atan_f64;
      break;
    case UnaryKind::sinh:
      f = sinh_f64;
      break;
    case UnaryKind::cosh:
      f = cosh_f64;
      break;
    case UnaryKind::asinh:
      f = asinh_f64;
      break;
    case UnaryKind::acosh:
      f = acosh_f64;
      break;
    case UnaryKind::atanh:
      f = atanh_f64;
      break;
    default:
      break;
  }
  return static_cast<float>(f(x));
}

float pow_scalar(float x, float y) noexcept {
  if (y == 2.0f) return x * x;
  if (y == 3.0f) return (x * x) * x;
  if (y == 1.0f) return x;
  return static_cast<float>(pow_f64(x, y));
}

float mod_scalar(float x, float y) noexcept {
  return std::fmod(x, y);
}  // exact, so the same in every libm

}  // namespace fold8::kernels
