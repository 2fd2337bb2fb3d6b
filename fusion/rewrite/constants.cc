#include "fusion/rewrite/constants.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace fold8::fusion {

using graph::Graph;
using graph::ValueId;

namespace {

double half_to_double(std::uint16_t h) {
  const int exponent = (h >> 10) & 31;
  const double mantissa = h & 1023;
  double magnitude = 0;
  if (exponent == 31)
    magnitude = mantissa == 0 ? HUGE_VAL : static_cast<double>(NAN);
  else if (exponent == 0)
    magnitude = std::ldexp(mantissa, -24);
  else
    magnitude = std::ldexp(1024 + mantissa, exponent - 25);
  return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

template <class T>
std::vector<double> converted(std::span<const T> data) {
  return std::vector<double>(data.begin(), data.end());
}

}  // namespace

std::optional<std::vector<double>> doubles(const Graph& g, ValueId v) {
  if (!g.is_constant(v)) return std::nullopt;
  const TensorType& type = g.type(v);
  if (type.layout != Layout::plain || type.quant) return std::nullopt;
  switch (type.dtype) {
    case DType::f32:
      return converted(g.constant<float>(v));
    case DType::f64:
      return converted(g.constant<double>(v));
    case DType::f16:
    case DType::bf16: {
      std::vector<double> out;
      for (const std::uint16_t bits : g.constant<std::uint16_t>(v))
        out.push_back(type.dtype == DType::f16 ? half_to_double(bits)
                                               : static_cast<double>(std::bit_cast<float>(
                                                     static_cast<std::uint32_t>(bits) << 16)));
      return out;
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> scalar_value(const Graph& g, ValueId v) {
  if (!g.is_constant(v) || g.type(v).shape.elements() != 1) return std::nullopt;
  const auto values = doubles(g, v);
  if (!values || values->size() != 1) return std::nullopt;
  return values->front();
}

std::optional<std::vector<std::int64_t>> integers(const Graph& g, ValueId v) {
  if (!g.is_constant(v)) return std::nullopt;
  if (g.type(v).dtype == DType::s64) {
    const auto data = g.constant<std::int64_t>(v);
    return std::vector<std::int64_t>(data.begin(), data.end());
  }
  if (g.type(v).dtype == DType::s32) {
    const auto data = g.constant<std::int32_t>(v);
    return std::vector<std::int64_t>(data.begin(), data.end());
  }
  return std::nullopt;
}

ValueId add_floats(Graph& g, std::string_view stem, const Shape& shape,
                   std::span<const double> values) {
  auto buffer = Buffer::allocate(values.size() * sizeof(float));
  auto* out = reinterpret_cast<float*>(buffer->mutable_data());
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = static_cast<float>(values[i]);
  return g.add_constant(g.fresh_name(stem), TensorType{DType::f32, shape, {}, Layout::plain},
                        std::move(buffer));
}

bool all_finite_as_float(std::span<const double> values) {
  for (const double v : values)
    if (!std::isfinite(static_cast<float>(v))) return false;
  return true;
}

std::optional<PerChannel> per_channel(const Graph& g, ValueId constant, const Shape& x) {
  auto values = doubles(g, constant);
  if (!values || values->empty()) return std::nullopt;
  const Shape& shape = g.type(constant).shape;
  if (shape.rank() > x.rank()) return std::nullopt;  // it would add axes
  PerChannel result;
  result.values = std::move(*values);
  bool found = false;
  for (int i = 0; i < shape.rank(); ++i) {
    if (same(shape[i], Dim(1))) continue;
    const int axis = x.rank() - shape.rank() + i;
    if (found || !same(shape[i], x[axis])) return std::nullopt;
    found = true;
    result.axis = axis;
  }
  return result;
}

bool same_shape(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i)
    if (!same(a[i], b[i])) return false;
  return true;
}

bool is_gate(const Shape& gate, const Shape& map) {
  if (gate.rank() != map.rank() || map.rank() < 3) return false;
  for (int a = 2; a < gate.rank(); ++a)
    if (!gate[a].known() || gate[a].value() != 1) return false;
  return true;
}

bool same_shape_given_count(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  int open = 0;
  for (int i = 0; i < a.rank(); ++i) {
    if (same(a[i], b[i])) {
      // A zero extent leaves the others undetermined by the count.
      if (a[i].known() && a[i].value() == 0) return same_shape(a, b);
      continue;
    }
    if (a[i].known() && b[i].known()) return false;
    ++open;
  }
  return open <= 1;
}

}  // namespace fold8::fusion
