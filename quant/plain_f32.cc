#include "quant/plain_f32.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/wide.h"

namespace fold8::quant {
namespace {

// [N, space, channels] as [N, channels, space], `n` elements in all.
template <class T>
std::vector<T> channels_first(const T* from, std::size_t n, std::size_t channels,
                              std::size_t space) {
  std::vector<T> to(n);
  constexpr std::size_t kTile = 32;  // its cache lines stay at hand on both sides
  for (std::size_t at = 0; at < n; at += channels * space)
    for (std::size_t s0 = 0; s0 < space; s0 += kTile)
      for (std::size_t c0 = 0; c0 < channels; c0 += kTile)
        for (std::size_t c = c0; c < std::min(c0 + kTile, channels); ++c)
          for (std::size_t s = s0; s < std::min(s0 + kTile, space); ++s)
            to[at + c * space + s] = from[at + s * channels + c];
  return to;
}

std::size_t row_length(const Shape& shape) {
  return shape.rank() > 0 ? std::max<std::size_t>(1, static_cast<std::size_t>(shape.back().value()))
                          : 1;
}
std::size_t rows_of(const Shape& shape) {
  return static_cast<std::size_t>(shape.count()) / row_length(shape);
}

// (code - zero point) * scale of a run that has one of each.
template <class T>
void dequantize_run(const T* q, std::size_t n, std::int32_t zero_point, float scale, float* out) {
  using Wide = std::conditional_t<sizeof(T) == 1, std::int32_t, std::int64_t>;
  wide([&] {
    for (std::size_t i = 0; i < n; ++i)
      out[i] = static_cast<float>(static_cast<Wide>(q[i]) - static_cast<Wide>(zero_point)) * scale;
  });
}

template <class T>
std::vector<float> dequantized(const T* q, std::size_t n, const Shape& shape,
                               const QuantParams& params, std::span<const float> row_scales) {
  std::vector<float> out(n);
  if (params.granularity() == Granularity::per_token) {
    const std::size_t row = row_length(shape);
    for (std::size_t i = 0; i < n; i += row)
      dequantize_run(q + i, row, 128, row_scales[i / row], out.data() + i);
    return out;
  }
  if (params.granularity() != Granularity::per_channel) {
    dequantize_run(q, n, params.zero_point(0), params.scales()[0], out.data());
    return out;
  }
  const auto inner = static_cast<std::size_t>(shape.count(params.axis() + 1, shape.rank()));
  for (std::size_t i = 0; i < n; i += inner) {
    const std::size_t c = i / inner % params.scales().size();
    dequantize_run(q + i, inner, params.zero_point(c), params.scales()[c], out.data() + i);
  }
  return out;
}

template <class T>
std::vector<float> dequantized(const TensorView& view, const QuantParams& params,
                               std::span<const float> row_scales, bool reorder) {
  const auto n = static_cast<std::size_t>(view.shape.count());
  const auto* q = static_cast<const T*>(view.data);
  if (!reorder) return dequantized(q, n, view.shape, params, row_scales);
  const std::vector<T> plain =
      channels_first(q, n, static_cast<std::size_t>(view.shape.extent(1)),
                     static_cast<std::size_t>(view.shape.count(2, view.shape.rank())));
  return dequantized(plain.data(), n, view.shape, params, row_scales);
}

}  // namespace

std::optional<std::vector<float>> plain_f32(const TensorView& view, const TensorType& type,
                                            std::span<const float> row_scales) {
  const auto n = static_cast<std::size_t>(view.shape.count());
  const bool reorder = n > 0 && view.layout == Layout::channels_last && view.shape.rank() >= 3;
  if (view.dtype == DType::f32) {
    const auto* p = static_cast<const float*>(view.data);
    if (!reorder) return std::vector<float>(p, p + n);
    return channels_first(p, n, static_cast<std::size_t>(view.shape.extent(1)),
                          static_cast<std::size_t>(view.shape.count(2, view.shape.rank())));
  }
  if (!type.quant) return std::nullopt;
  if (type.quant->granularity() == Granularity::per_token &&
      row_scales.size() < rows_of(view.shape))
    return std::nullopt;
  if (type.quant->granularity() == Granularity::per_group) return std::nullopt;
  switch (view.dtype) {
    case DType::u8:
      return dequantized<std::uint8_t>(view, *type.quant, row_scales, reorder);
    case DType::s8:
      return dequantized<std::int8_t>(view, *type.quant, row_scales, reorder);
    case DType::s32:
      return dequantized<std::int32_t>(view, *type.quant, row_scales, reorder);
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

}  // namespace fold8::quant
