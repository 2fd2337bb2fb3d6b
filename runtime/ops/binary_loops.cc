#include "runtime/ops/binary_loops.h"

#include <cmath>

namespace fold8::ops {
namespace {

using graph::BinaryKind;

template <class T, class R, class F>
Result<StepPtr> loop(const Broadcast& shape, F f) {
  return make_step([shape, f](const RunContext& run) {
    parallel(run, shape.count, grain_for(2), [&](std::size_t begin, std::size_t end, std::size_t) {
      each_line(shape, begin, end,
                [&](std::size_t first, std::size_t n, const std::ptrdiff_t* at,
                    const std::ptrdiff_t* step) {
                  const T* a = in<T>(run, 0) + at[0];
                  const T* b = in<T>(run, 1) + at[1];
                  R* y = out<R>(run, 0) + first;
                  for (std::size_t i = 0; i < n; ++i) {
                    const auto k = static_cast<std::ptrdiff_t>(i);
                    y[i] = static_cast<R>(f(a[k * step[0]], b[k * step[1]]));
                  }
                });
    });
    return ok_status();
  });
}

template <class T>
T divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a / b;
  else if (b == T(0))
    return T(0);
  else if (std::is_signed_v<T> && b == static_cast<T>(-1))
    return wrap_sub(T(0), a);
  else
    return static_cast<T>(a / b);
}

// Sign of the dividend.
template <class T>
T remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return std::fmod(a, b);
  else if (b == T(0) || (std::is_signed_v<T> && b == static_cast<T>(-1)))
    return T(0);
  else
    return static_cast<T>(a % b);
}

// Sign of the divisor.
template <class T>
T modulo(T a, T b) {
  const T r = remainder(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? wrap_add(r, b) : r;
}

template <class T>
T power(T base, T exponent) {
  if (exponent < T(0))
    return base == T(1)
               ? T(1)
               : (std::is_signed_v<T> && base == static_cast<T>(-1) ? (exponent % 2 ? base : T(1))
                                                                    : T(0));
  T r = 1;
  for (auto e = static_cast<std::uint64_t>(exponent); e != 0; e >>= 1) {
    if (e & 1) r = wrap_mul(r, base);
    base = wrap_mul(base, base);
  }
  return r;
}

// NaN wins.
template <class T>
T least(T a, T b) {
  return a != a || a < b ? a : b;
}
template <class T>
T most(T a, T b) {
  return a != a || a > b ? a : b;
}

template <class T>
std::optional<Result<StepPtr>> integer_only(BinaryKind kind, const Broadcast& s) {
  constexpr auto kBits = sizeof(T) * 8;
  using U = std::make_unsigned_t<T>;
  switch (kind) {
    case BinaryKind::pow:
      return loop<T, T>(s, [](T a, T b) { return power(a, b); });
    case BinaryKind::bit_and:
      return loop<T, T>(s, [](T a, T b) { return static_cast<T>(a & b); });
    case BinaryKind::bit_or:
      return loop<T, T>(s, [](T a, T b) { return static_cast<T>(a | b); });
    case BinaryKind::bit_xor:
      return loop<T, T>(s, [](T a, T b) { return static_cast<T>(a ^ b); });
    case BinaryKind::shift_left:
      return loop<T, T>(s, [](T a, T b) {
        return static_cast<U>(b) < kBits
                   ? static_cast<T>(static_cast<std::uint64_t>(a) << static_cast<U>(b))
                   : T(0);
      });
    case BinaryKind::shift_right:
      return loop<T, T>(s, [](T a, T b) {
        return static_cast<U>(b) < kBits ? static_cast<T>(static_cast<U>(a) >> static_cast<U>(b))
                                         : T(0);
      });
    default:
      return std::nullopt;
  }
}

template <class T>
std::optional<Result<StepPtr>> for_type(BinaryKind kind, const Broadcast& s) {
  using B = std::uint8_t;
  switch (kind) {
    case BinaryKind::add:
      return loop<T, T>(s, [](T a, T b) { return wrap_add(a, b); });
    case BinaryKind::sub:
      return loop<T, T>(s, [](T a, T b) { return wrap_sub(a, b); });
    case BinaryKind::mul:
      return loop<T, T>(s, [](T a, T b) { return wrap_mul(a, b); });
    case BinaryKind::div:
      return loop<T, T>(s, [](T a, T b) { return divide(a, b); });
    case BinaryKind::min:
      return loop<T, T>(s, [](T a, T b) { return least(a, b); });
    case BinaryKind::max:
      return loop<T, T>(s, [](T a, T b) { return most(a, b); });
    case BinaryKind::mod:
      return loop<T, T>(s, [](T a, T b) { return modulo(a, b); });
    case BinaryKind::fmod:
      return loop<T, T>(s, [](T a, T b) { return remainder(a, b); });
    case BinaryKind::prelu:
      return loop<T, T>(s, [](T a, T b) { return a < T(0) ? wrap_mul(a, b) : a; });
    case BinaryKind::equal:
      return loop<T, B>(s, [](T a, T b) { return a == b; });
    case BinaryKind::less:
      return loop<T, B>(s, [](T a, T b) { return a < b; });
    case BinaryKind::less_equal:
      return loop<T, B>(s, [](T a, T b) { return a <= b; });
    case BinaryKind::greater:
      return loop<T, B>(s, [](T a, T b) { return a > b; });
    case BinaryKind::greater_equal:
      return loop<T, B>(s, [](T a, T b) { return a >= b; });
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) return integer_only<T>(kind, s);
  return std::nullopt;
}

std::optional<Result<StepPtr>> for_bool(BinaryKind kind, const Broadcast& s) {
  using B = std::uint8_t;
  switch (kind) {
    case BinaryKind::logical_and:
    case BinaryKind::bit_and:
      return loop<B, B>(s, [](B a, B b) { return a != 0 && b != 0; });
    case BinaryKind::logical_or:
    case BinaryKind::bit_or:
      return loop<B, B>(s, [](B a, B b) { return a != 0 || b != 0; });
    case BinaryKind::logical_xor:
    case BinaryKind::bit_xor:
      return loop<B, B>(s, [](B a, B b) { return (a != 0) != (b != 0); });
    case BinaryKind::equal:
      return loop<B, B>(s, [](B a, B b) { return (a != 0) == (b != 0); });
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<StepPtr> prepare_binary_loop(BinaryKind kind, DType dtype, const Broadcast& shape) {
  std::optional<Result<StepPtr>> step;
  if (dtype == DType::boolean)
    step = for_bool(kind, shape);
  else
    with_number_type(dtype, [&]<class T>() { step = for_type<T>(kind, shape); });
  if (!step)
    return unsupported("'" + std::string(graph::enum_name(kind)) + "' over " +
                       std::string(name(dtype)));
  return std::move(*step);
}

}  // namespace fold8::ops
