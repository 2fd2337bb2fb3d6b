#include "quant/numbers.h"

#include <cstdint>
#include <type_traits>

#include "quant/plain_f32.h"
#include "runtime/ops/half.h"

namespace fold8::quant {
namespace {

// What rounding to a double leaves of an integer.
template <class T>
double rest_of(T x) {
  return static_cast<double>(static_cast<__int128>(x) -
                             static_cast<__int128>(static_cast<double>(x)));
}

template <class T>
Numbers elements(const TensorView& view) {
  const auto* p = static_cast<const T*>(view.data);
  const auto n = static_cast<std::size_t>(view.shape.count());
  Numbers all;
  all.values.resize(n);
  for (std::size_t i = 0; i < n; ++i) all.values[i] = static_cast<double>(p[i]);
  if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
    bool wide = false;
    for (std::size_t i = 0; i < n && !wide; ++i) wide = rest_of(p[i]) != 0;
    if (wide)
      for (std::size_t i = 0; i < n; ++i) all.rest.push_back(rest_of(p[i]));
  }
  return all;
}

template <class Decode>
Numbers decoded(const TensorView& view, const Decode& decode) {
  const auto* p = static_cast<const std::uint16_t*>(view.data);
  const auto n = static_cast<std::size_t>(view.shape.count());
  Numbers all;
  all.values.reserve(n);
  for (std::size_t i = 0; i < n; ++i) all.values.push_back(static_cast<double>(decode(p[i])));
  return all;
}

}  // namespace

Numbers numbers_of(const TensorView& view, const TensorType& type) {
  if (view.dtype == DType::f32 || type.quant)
    if (const auto reals = plain_f32(view, type)) return {{reals->begin(), reals->end()}, {}};
  switch (view.dtype) {
    case DType::f32:
      return elements<float>(view);
    case DType::f64:
      return elements<double>(view);
    case DType::f16:
      return decoded(view, ops::half_to_float);
    case DType::bf16:
      return decoded(view, ops::bfloat_to_float);
    case DType::boolean: {
      Numbers all = elements<std::uint8_t>(view);
      for (double& v : all.values) v = v != 0;
      return all;
    }
    case DType::u8:
    case DType::u4:  // one element a byte
      return elements<std::uint8_t>(view);
    case DType::s8:
    case DType::s4:
      return elements<std::int8_t>(view);
    case DType::s16:
      return elements<std::int16_t>(view);
    case DType::u16:
      return elements<std::uint16_t>(view);
    case DType::s32:
      return elements<std::int32_t>(view);
    case DType::u32:
      return elements<std::uint32_t>(view);
    case DType::s64:
      return elements<std::int64_t>(view);
    case DType::u64:
      return elements<std::uint64_t>(view);
  }
  return {};
}

}  // namespace fold8::quant
