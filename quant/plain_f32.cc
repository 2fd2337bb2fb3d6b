#include "quant/plain_f32.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fold8::quant {
namespace {

// Index of the element that plain position `i` has in channels_last order of [N, C, S].
struct Reorder {
  std::size_t channels, space;
  bool needed;
  std::size_t operator()(std::size_t i) const {
    if (!needed) return i;
    const std::size_t s = i % space, c = i / space % channels, n = i / space / channels;
    return (n * space + s) * channels + c;
  }
};

std::size_t row_length(const Shape& shape) {
  return shape.rank() > 0 ? std::max<std::size_t>(1, static_cast<std::size_t>(shape.back().value()))
                          : 1;
}
std::size_t rows_of(const Shape& shape) {
  return static_cast<std::size_t>(shape.count()) / row_length(shape);
}

template <class T>
std::vector<float> dequantized(const T* q, std::size_t n, const Shape& shape,
                               const QuantParams& params, std::span<const float> row_scales,
                               const Reorder& at) {
  std::vector<float> out(n);
  const bool per_channel = params.granularity() == Granularity::per_channel;
  const std::size_t row = row_length(shape);
  const std::size_t inner =
      per_channel ? static_cast<std::size_t>(shape.count(params.axis() + 1, shape.rank())) : 1;
  const std::size_t channels = per_channel ? params.scales().size() : 1;
  for (std::size_t i = 0; i < n; ++i) {
    const auto code = static_cast<std::int64_t>(q[at(i)]);
    if (params.granularity() == Granularity::per_token) {
      out[i] = static_cast<float>(code - 128) * row_scales[i / row];
    } else {
      const std::size_t c = per_channel ? i / inner % channels : 0;
      out[i] = static_cast<float>(code - params.zero_point(c)) * params.scales()[c];
    }
  }
  return out;
}

}  // namespace

std::optional<std::vector<float>> plain_f32(const TensorView& view, const TensorType& type,
                                            std::span<const float> row_scales) {
  const auto n = static_cast<std::size_t>(view.shape.count());
  Reorder at{1, 1, view.layout == Layout::channels_last && view.shape.rank() >= 3};
  if (at.needed) {
    at.channels = static_cast<std::size_t>(view.shape.extent(1));
    at.space = static_cast<std::size_t>(view.shape.count(2, view.shape.rank()));
  }
  if (view.dtype == DType::f32) {
    const auto* p = static_cast<const float*>(view.data);
    std::vector<float> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = p[at(i)];
    return out;
  }
  if (!type.quant) return std::nullopt;
  if (type.quant->granularity() == Granularity::per_token &&
      row_scales.size() < rows_of(view.shape))
    return std::nullopt;
  if (type.quant->granularity() == Granularity::per_group) return std::nullopt;
  switch (view.dtype) {
    case DType::u8:
      return dequantized(static_cast<const std::uint8_t*>(view.data), n, view.shape, *type.quant,
                         row_scales, at);
    case DType::s8:
      return dequantized(static_cast<const std::int8_t*>(view.data), n, view.shape, *type.quant,
                         row_scales, at);
    case DType::s32:
      return dequantized(static_cast<const std::int32_t*>(view.data), n, view.shape, *type.quant,
                         row_scales, at);
    default:
      return std::nullopt;
  }
}

namespace {

template <class T>
T code(float x, float scale, std::int32_t zero_point) {
  constexpr auto kLow = static_cast<float>(std::numeric_limits<T>::min()),
                 kHigh = static_cast<float>(std::numeric_limits<T>::max());
  const auto z = static_cast<float>(zero_point);
  const float q = std::clamp(std::rint(x / scale), kLow - z, kHigh - z);
  return static_cast<T>((q != q ? 0 : q) + z);
}

template <class T>
void round_to_codes(std::span<const float> reals, const Shape& shape, const QuantParams& params,
                    std::span<T> codes) {
  const bool per_channel = params.granularity() == Granularity::per_channel;
  const std::size_t inner =
      per_channel ? static_cast<std::size_t>(shape.count(params.axis() + 1, shape.rank())) : 1;
  const std::size_t channels = per_channel ? params.scales().size() : 1;
  for (std::size_t i = 0; i < reals.size(); ++i) {
    const std::size_t c = per_channel ? i / inner % channels : 0;
    codes[i] = code<T>(reals[i], params.scales()[c], params.zero_point(c));
  }
}

Stored per_token(std::span<const float> reals, const Shape& shape) {
  Shape rows = shape;
  if (rows.rank() > 0) rows[rows.rank() - 1] = Dim(1);
  Stored s{Tensor(DType::u8, shape), Tensor(DType::f32, rows)};
  const std::size_t length = row_length(shape);
  const auto codes = s.elements.as<std::uint8_t>();
  const auto scales = s.row_scales->as<float>();
  for (std::size_t r = 0; r < reals.size() / length; ++r) {
    float most = 0;
    for (std::size_t i = r * length; i < (r + 1) * length; ++i)
      most = std::max(most, std::fabs(reals[i]));
    scales[r] = std::max(most / 127, std::numeric_limits<float>::min());  // 2^-126
    for (std::size_t i = r * length; i < (r + 1) * length; ++i)
      codes[i] = std::max<std::uint8_t>(1, code<std::uint8_t>(reals[i], scales[r], 128));
  }
  return s;
}

}  // namespace

std::optional<Stored> stored(std::span<const float> reals, const Shape& shape,
                             const TensorType& type) {
  if (type.dtype == DType::f32) {
    Stored s{Tensor(DType::f32, shape), {}};
    std::copy(reals.begin(), reals.end(), s.elements.as<float>().begin());
    return s;
  }
  if (!type.quant || (type.dtype != DType::u8 && type.dtype != DType::s8)) return std::nullopt;
  if (type.quant->granularity() == Granularity::per_token)
    return type.dtype == DType::u8 ? std::optional(per_token(reals, shape)) : std::nullopt;
  if (type.quant->granularity() == Granularity::per_group) return std::nullopt;
  Stored s{Tensor(type.dtype, shape), {}};
  if (type.dtype == DType::u8)
    round_to_codes(reals, shape, *type.quant, s.elements.as<std::uint8_t>());
  else
    round_to_codes(reals, shape, *type.quant, s.elements.as<std::int8_t>());
  return s;
}

namespace {

template <class T>
std::vector<float> numbers(const TensorView& view) {
  const auto* p = static_cast<const T*>(view.data);
  return {p, p + view.shape.count()};
}

}  // namespace

std::optional<std::vector<float>> output_as_f32(const TensorView& view, const TensorType& type) {
  if (auto reals = plain_f32(view, type)) return reals;
  switch (view.dtype) {
    case DType::boolean:
    case DType::u8:
      return numbers<std::uint8_t>(view);
    case DType::s8:
      return numbers<std::int8_t>(view);
    case DType::s16:
      return numbers<std::int16_t>(view);
    case DType::u16:
      return numbers<std::uint16_t>(view);
    case DType::s32:
      return numbers<std::int32_t>(view);
    case DType::u32:
      return numbers<std::uint32_t>(view);
    case DType::s64:
      return numbers<std::int64_t>(view);
    case DType::u64:
      return numbers<std::uint64_t>(view);
    case DType::f64:
      return numbers<double>(view);
    default:
      return std::nullopt;
  }
}

}  // namespace fold8::quant
