#include "runtime/ops/binary_loops.h"

#include <cmath>

namespace fold8::ops {
namespace {

using graph::BinaryKind;

// y[i] = f(a[i * a_step], b[i * b_step]) for i < n: what is left of an operator and a type, so that
// all that surrounds it exists once.
struct Line {
  void (*run)(const void* a, std::ptrdiff_t a_step, const void* b, std::ptrdiff_t b_step, void* y,
              std::size_t n);
  std::size_t in_size, out_size;
};

template <class T, class R, class F>
std::optional<Line> line(F) {
  return Line{[](const void* a, std::ptrdiff_t a_step, const void* b, std::ptrdiff_t b_step,
                 void* y, std::size_t n) {
                const T *p = static_cast<const T*>(a), *q = static_cast<const T*>(b);
                R* r = static_cast<R*>(y);
                for (std::size_t i = 0; i < n; ++i, p += a_step, q += b_step)
                  r[i] = static_cast<R>(F()(*p, *q));
              },
              sizeof(T), sizeof(R)};
}

Result<StepPtr> step_of(const Line& line, const Broadcast& shape) {
  return make_step([shape, line](const RunContext& run) {
    parallel(run, shape.count, grain_for(2), [&](std::size_t begin, std::size_t end, std::size_t) {
      each_line(shape, begin, end,
                [&](std::size_t first, std::size_t n, const std::ptrdiff_t* at,
                    const std::ptrdiff_t* step) {
                  const auto size = static_cast<std::ptrdiff_t>(line.in_size);
                  line.run(in<std::byte>(run, 0) + at[0] * size, step[0],
                           in<std::byte>(run, 1) + at[1] * size, step[1],
                           out<std::byte>(run, 0) + first * line.out_size, n);
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
std::optional<Line> integer_only(BinaryKind kind) {
  constexpr auto kBits = sizeof(T) * 8;
  using U = std::make_unsigned_t<T>;
  switch (kind) {
    case BinaryKind::pow:
      return line<T, T>([](T a, T b) { return power(a, b); });
    case BinaryKind::bit_and:
      return line<T, T>([](T a, T b) { return static_cast<T>(a & b); });
    case BinaryKind::bit_or:
      return line<T, T>([](T a, T b) { return static_cast<T>(a | b); });
    case BinaryKind::bit_xor:
      return line<T, T>([](T a, T b) { return static_cast<T>(a ^ b); });
    case BinaryKind::shift_left:
      return line<T, T>([](T a, T b) {
        return static_cast<U>(b) < kBits
                   ? static_cast<T>(static_cast<std::uint64_t>(a) << static_cast<U>(b))
                   : T(0);
      });
    case BinaryKind::shift_right:
      return line<T, T>([](T a, T b) {
        return static_cast<U>(b) < kBits ? static_cast<T>(static_cast<U>(a) >> static_cast<U>(b))
                                         : T(0);
      });
    default:
      return std::nullopt;
  }
}

template <class T>
std::optional<Line> for_type(BinaryKind kind) {
  using B = std::uint8_t;
  switch (kind) {
    case BinaryKind::add:
      return line<T, T>([](T a, T b) { return wrap_add(a, b); });
    case BinaryKind::sub:
      return line<T, T>([](T a, T b) { return wrap_sub(a, b); });
    case BinaryKind::mul:
      return line<T, T>([](T a, T b) { return wrap_mul(a, b); });
    case BinaryKind::div:
      return line<T, T>([](T a, T b) { return divide(a, b); });
    case BinaryKind::min:
      return line<T, T>([](T a, T b) { return least(a, b); });
    case BinaryKind::max:
      return line<T, T>([](T a, T b) { return most(a, b); });
    case BinaryKind::mod:
      return line<T, T>([](T a, T b) { return modulo(a, b); });
    case BinaryKind::fmod:
      return line<T, T>([](T a, T b) { return remainder(a, b); });
    case BinaryKind::prelu:
      return line<T, T>([](T a, T b) { return a < T(0) ? wrap_mul(a, b) : a; });
    case BinaryKind::equal:
      return line<T, B>([](T a, T b) { return a == b; });
    case BinaryKind::less:
      return line<T, B>([](T a, T b) { return a < b; });
    case BinaryKind::less_equal:
      return line<T, B>([](T a, T b) { return a <= b; });
    case BinaryKind::greater:
      return line<T, B>([](T a, T b) { return a > b; });
    case BinaryKind::greater_equal:
      return line<T, B>([](T a, T b) { return a >= b; });
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) return integer_only<T>(kind);
  return std::nullopt;
}

std::optional<Line> for_bool(BinaryKind kind) {
  using B = std::uint8_t;
  switch (kind) {
    case BinaryKind::logical_and:
    case BinaryKind::bit_and:
      return line<B, B>([](B a, B b) { return a != 0 && b != 0; });
    case BinaryKind::logical_or:
    case BinaryKind::bit_or:
      return line<B, B>([](B a, B b) { return a != 0 || b != 0; });
    case BinaryKind::logical_xor:
    case BinaryKind::bit_xor:
      return line<B, B>([](B a, B b) { return (a != 0) != (b != 0); });
    case BinaryKind::equal:
      return line<B, B>([](B a, B b) { return (a != 0) == (b != 0); });
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<StepPtr> prepare_binary_loop(BinaryKind kind, DType dtype, const Broadcast& shape) {
  std::optional<Line> line;
  if (dtype == DType::boolean)
    line = for_bool(kind);
  else
    with_number_type(dtype, [&]<class T>() { line = for_type<T>(kind); });
  if (!line)
    return unsupported("'" + std::string(graph::enum_name(kind)) + "' over " +
                       std::string(name(dtype)));
  return step_of(*line, shape);
}

}  // namespace fold8::ops
