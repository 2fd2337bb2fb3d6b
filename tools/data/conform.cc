#include "tools/data/conform.h"

#include <cstring>

#include "tools/onnx/half.h"

namespace fold8::data {
namespace {

// Bytes and sign of an integer type; 0 bytes for others.
struct IntegerKind {
  std::size_t bytes = 0;
  bool is_signed = false;
};
IntegerKind integer_kind(DType d) {
  switch (d) {
    case DType::s8:
      return {1, true};
    case DType::u8:
      return {1, false};
    case DType::s16:
      return {2, true};
    case DType::u16:
      return {2, false};
    case DType::s32:
      return {4, true};
    case DType::u32:
      return {4, false};
    case DType::s64:
      return {8, true};
    case DType::u64:
      return {8, false};
    default:
      return {};
  }
}

std::int64_t load_integer(const std::byte* p, DType d) {
  switch (d) {
    case DType::s8: {
      std::int8_t v;
      std::memcpy(&v, p, 1);
      return v;
    }
    case DType::u8: {
      std::uint8_t v;
      std::memcpy(&v, p, 1);
      return v;
    }
    case DType::s16: {
      std::int16_t v;
      std::memcpy(&v, p, 2);
      return v;
    }
    case DType::u16: {
      std::uint16_t v;
      std::memcpy(&v, p, 2);
      return v;
    }
    case DType::s32: {
      std::int32_t v;
      std::memcpy(&v, p, 4);
      return v;
    }
    default: {
      std::uint32_t v;
      std::memcpy(&v, p, 4);
      return v;
    }
  }
}

std::string type_words(DType d) {
  if (d == DType::f32) return "f32 (float)";
  if (d == DType::s64) return "s64 (int64)";
  return std::string(name(d));
}

}  // namespace

Signature signature_of(const graph::Graph& g) {
  Signature s;
  for (graph::ValueId v : g.inputs) s.inputs.push_back({g.value(v).name, g.type(v)});
  s.symbols = g.symbols;
  return s;
}

std::string list_names(const Signature& s) {
  std::string names;
  for (const auto& i : s.inputs) names += (names.empty() ? "'" : ", '") + i.name + "'";
  return names.empty() ? "none" : names;
}

Status check_array(const Signature& s, const InputSpec& input, DType dtype, const Shape& shape,
                   const std::string& where, SymbolExtents& symbols) {
  const auto wrong = [&](const std::string& what) {
    return invalid_model(where + ": input '" + input.name + "' " + what);
  };
  if (dtype != input.type.dtype && !convertible(dtype, input.type.dtype))
    return wrong("is " + type_words(dtype) + ", the model wants " + type_words(input.type.dtype));
  const std::string given = to_string(shape), wanted = to_string(input.type.shape, s.symbols);
  if (shape.rank() != input.type.shape.rank())
    return wrong("has shape " + given + ", the model wants " + wanted);
  for (int a = 0; a < shape.rank(); ++a) {
    const Dim want = input.type.shape[a];
    if (want.known() && want.value() != shape.extent(a))
      return wrong(
          "has shape " + given + ", the model wants " + wanted +
          (a == 0 && want.value() == 1 ? " (--stacked if axis 0 counts the samples)" : ""));
    if (!want.is_symbol()) continue;
    const auto [it, fresh] = symbols.emplace(want.symbol_id(), shape.extent(a));
    if (!fresh && it->second != shape.extent(a))
      return wrong("has shape " + given + " for " + wanted +
                   ", but another extent of the same name is " + std::to_string(it->second));
  }
  return ok_status();
}

bool convertible(DType from, DType to) {
  if (from == to) return true;
  if (to == DType::f32) return from == DType::f64 || from == DType::f16;
  if (to == DType::f64) return from == DType::f32;
  const IntegerKind a = integer_kind(from), b = integer_kind(to);
  return a.bytes != 0 && b.bytes > a.bytes && (b.is_signed || !a.is_signed);
}

Result<Tensor> convert(const Tensor& t, DType to) {
  if (t.dtype() == to) return t;
  if (!convertible(t.dtype(), to))
    return invalid_model("cannot convert " + std::string(name(t.dtype())) + " to " +
                         std::string(name(to)));
  Tensor out(to, t.shape());
  const auto n = static_cast<std::size_t>(t.shape().count());
  const std::byte* from = t.buffer()->data();
  const std::size_t width = size_of(t.dtype()), out_width = size_of(to);
  auto* bytes = static_cast<std::byte*>(out.view().data);
  for (std::size_t i = 0; i < n; ++i, from += width) {
    if (to == DType::f32 && t.dtype() == DType::f64) {
      double v;
      std::memcpy(&v, from, sizeof v);
      out.as<float>()[i] = static_cast<float>(v);
    } else if (to == DType::f32) {
      std::uint16_t v;
      std::memcpy(&v, from, sizeof v);
      out.as<float>()[i] = onnx_io::half_to_float(v);
    } else if (to == DType::f64) {
      float v;
      std::memcpy(&v, from, sizeof v);
      out.as<double>()[i] = v;
    } else {
      const std::int64_t v =
          load_integer(from, t.dtype());  // little-endian: the low bytes are the value
      std::memcpy(bytes + i * out_width, &v, out_width);
    }
  }
  return out;
}

}  // namespace fold8::data
