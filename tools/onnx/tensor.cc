#include "tools/onnx/tensor.h"

#include <onnx/onnx_pb.h>

#include <cstring>
#include <vector>

#include "tools/onnx/external_data.h"
#include "tools/onnx/half.h"

namespace fold8::onnx_io {
namespace {

// ONNX's numbers; Debian's header ends at 16.
constexpr std::int32_t kUint4 = 21, kInt4 = 22, kLastKnownType = 26;

Error bad(const std::string& name, const std::string& why) {
  return invalid_model("tensor '" + name + "': " + why);
}

Result<Shape> read_shape(const onnx::TensorProto& t, const std::string& name) {
  if (t.dims_size() > Shape::kMaxRank)
    return unsupported("tensor '" + name + "' has rank " + std::to_string(t.dims_size()) +
                       ", fold8 handles up to " + std::to_string(Shape::kMaxRank));
  std::int64_t extents = 1;  // zeros left out: other code multiplies parts of a shape
  Shape shape;
  for (std::int64_t d : t.dims()) {
    if (d < 0) return bad(name, "negative dim " + std::to_string(d) + " in its shape");
    if (d > 0 && __builtin_mul_overflow(extents, d, &extents))
      return bad(name, "the size of its shape overflows: a dim is " + std::to_string(d));
    shape.push_back(d);
  }
  if (extents > (std::int64_t{1} << 56))
    return bad(name, "its shape of " + std::to_string(extents) + " elements is impossible");
  return shape;
}

// Elements of a repeated field, narrowed to T.
template <class T, class Field>
Status copy_field(const Field& field, std::int64_t n, const std::string& name,
                  const char* field_name, Buffer& out) {
  if (field.size() != n)
    return bad(name, "its shape needs " + std::to_string(n) + " elements, " + field_name +
                         " has a size of " + std::to_string(field.size()));
  T* to = reinterpret_cast<T*>(out.mutable_data());
  for (const auto v : field) *to++ = static_cast<T>(v);
  return ok_status();
}

Status copy_typed(const onnx::TensorProto& t, DType dtype, std::int64_t n, const std::string& name,
                  Buffer& out) {
  switch (dtype) {
    case DType::f32:
      return copy_field<float>(t.float_data(), n, name, "float_data", out);
    case DType::f64:
      return copy_field<double>(t.double_data(), n, name, "double_data", out);
    case DType::s64:
      return copy_field<std::int64_t>(t.int64_data(), n, name, "int64_data", out);
    case DType::u64:
      return copy_field<std::uint64_t>(t.uint64_data(), n, name, "uint64_data", out);
    case DType::u32:
      return copy_field<std::uint32_t>(t.uint64_data(), n, name, "uint64_data", out);
    case DType::s32:
      return copy_field<std::int32_t>(t.int32_data(), n, name, "int32_data", out);
    case DType::s16:
      return copy_field<std::int16_t>(t.int32_data(), n, name, "int32_data", out);
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      return copy_field<std::uint16_t>(t.int32_data(), n, name, "int32_data", out);
    default:
      return copy_field<std::uint8_t>(t.int32_data(), n, name, "int32_data", out);
  }
}

std::int64_t typed_elements(const onnx::TensorProto& t, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return t.float_data_size();
    case DType::f64:
      return t.double_data_size();
    case DType::s64:
      return t.int64_data_size();
    case DType::u64:
    case DType::u32:
      return t.uint64_data_size();
    default:
      return t.int32_data_size();
  }
}

bool is_4bit(DType d) { return d == DType::s4 || d == DType::u4; }

// Two elements a byte, the first in the low half.
std::shared_ptr<Buffer> spread_4bit(const Buffer& packed, std::int64_t n, DType dtype) {
  auto out = Buffer::allocate(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto byte = static_cast<std::uint8_t>(packed.data()[i / 2]);
    std::uint8_t v = (i % 2 ? byte >> 4 : byte) & 15;
    if (dtype == DType::s4 && v > 7) v = static_cast<std::uint8_t>(v - 16);
    out->mutable_data()[i] = static_cast<std::byte>(v);
  }
  return out;
}

Result<std::shared_ptr<Buffer>> read_bytes(const onnx::TensorProto& t, DType dtype,
                                           std::int64_t stored, const std::string& name,
                                           const std::string& folder,
                                           const std::optional<RawData>& raw) {
  const std::size_t need = static_cast<std::size_t>(stored) * size_of(dtype);
  if (t.data_location() == onnx::TensorProto_DataLocation_EXTERNAL) {
    if (!t.name().empty()) return read_external(t, need, folder);
    onnx::TensorProto named = t;
    named.set_name(name);
    return read_external(named, need, folder);
  }
  if (t.has_raw_data() || raw) {
    const std::size_t has = raw ? raw->bytes : t.raw_data().size();
    if (has != need)
      return bad(name, "its shape needs " + std::to_string(need) + " bytes, raw_data has " +
                           std::to_string(has));
    auto buffer = Buffer::allocate(need);
    if (raw)
      FOLD8_CHECK_OK(raw->read(buffer->mutable_data()));
    else if (need > 0)
      std::memcpy(buffer->mutable_data(), t.raw_data().data(), need);
    return buffer;
  }
  if (typed_elements(t, dtype) != stored)  // before memory is taken for the shape
    return bad(name, "its shape needs " + std::to_string(need) + " bytes (" +
                         std::to_string(stored) + " elements), the stored size is " +
                         std::to_string(typed_elements(t, dtype)) + " elements");
  auto buffer = Buffer::allocate(need);
  FOLD8_CHECK_OK(copy_typed(t, dtype, stored, name, *buffer));
  return buffer;
}

}  // namespace

Result<DType> dtype_from_onnx(std::int32_t type, const std::string& what) {
  switch (type) {
    case onnx::TensorProto_DataType_FLOAT:
      return DType::f32;
    case onnx::TensorProto_DataType_UINT8:
      return DType::u8;
    case onnx::TensorProto_DataType_INT8:
      return DType::s8;
    case onnx::TensorProto_DataType_UINT16:
      return DType::u16;
    case onnx::TensorProto_DataType_INT16:
      return DType::s16;
    case onnx::TensorProto_DataType_INT32:
      return DType::s32;
    case onnx::TensorProto_DataType_INT64:
      return DType::s64;
    case onnx::TensorProto_DataType_BOOL:
      return DType::boolean;
    case onnx::TensorProto_DataType_FLOAT16:
      return DType::f16;
    case onnx::TensorProto_DataType_DOUBLE:
      return DType::f64;
    case onnx::TensorProto_DataType_UINT32:
      return DType::u32;
    case onnx::TensorProto_DataType_UINT64:
      return DType::u64;
    case onnx::TensorProto_DataType_BFLOAT16:
      return DType::bf16;
    case kUint4:
      return DType::u4;
    case kInt4:
      return DType::s4;
    default:
      break;
  }
  if (type == onnx::TensorProto_DataType_STRING)
    return unsupported(what + ": strings are not supported");
  if (type > 0 && type <= kLastKnownType)
    return unsupported(what + ": ONNX data type " + std::to_string(type) +
                       " (complex, float8 or narrower) is not supported");
  return invalid_model(what + ": " + std::to_string(type) + " is no ONNX data type");
}

std::int32_t dtype_to_onnx(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return onnx::TensorProto_DataType_FLOAT;
    case DType::s32:
      return onnx::TensorProto_DataType_INT32;
    case DType::s64:
      return onnx::TensorProto_DataType_INT64;
    case DType::u8:
      return onnx::TensorProto_DataType_UINT8;
    case DType::s8:
      return onnx::TensorProto_DataType_INT8;
    case DType::boolean:
      return onnx::TensorProto_DataType_BOOL;
    case DType::f16:
      return onnx::TensorProto_DataType_FLOAT16;
    case DType::bf16:
      return onnx::TensorProto_DataType_BFLOAT16;
    case DType::f64:
      return onnx::TensorProto_DataType_DOUBLE;
    case DType::s16:
      return onnx::TensorProto_DataType_INT16;
    case DType::u16:
      return onnx::TensorProto_DataType_UINT16;
    case DType::u32:
      return onnx::TensorProto_DataType_UINT32;
    case DType::u64:
      return onnx::TensorProto_DataType_UINT64;
    case DType::s4:
      return kInt4;
    case DType::u4:
      return kUint4;
  }
  return onnx::TensorProto_DataType_UNDEFINED;
}

Result<ConstantData> read_tensor(const onnx::TensorProto& t, const std::string& name,
                                 const std::string& folder, const std::optional<RawData>& raw) {
  ConstantData out;
  FOLD8_TRY(out.dtype, dtype_from_onnx(t.data_type(), "tensor '" + name + "'"));
  FOLD8_TRY(out.shape, read_shape(t, name));
  if (t.has_segment())
    return unsupported("tensor '" + name + "': tensors in segments are not supported");
  const std::int64_t n = out.shape.count();
  const std::int64_t stored = is_4bit(out.dtype) ? (n + 1) / 2 : n;
  FOLD8_TRY(auto buffer, read_bytes(t, out.dtype, stored, name, folder, raw));
  if (is_4bit(out.dtype)) buffer = spread_4bit(*buffer, n, out.dtype);
  if (out.dtype == DType::boolean)
    for (std::size_t i = 0; i < buffer->size(); ++i)
      if (buffer->data()[i] != std::byte{0}) buffer->mutable_data()[i] = std::byte{1};
  out.data = std::move(buffer);
  return out;
}

ConstantData widened(ConstantData data) {
  if (data.dtype != DType::f16 && data.dtype != DType::bf16) return data;
  const auto count = static_cast<std::size_t>(data.shape.count());
  auto wide = Buffer::allocate(count * sizeof(float));
  const auto* from = reinterpret_cast<const std::uint16_t*>(data.data->data());
  auto* to = reinterpret_cast<float*>(wide->mutable_data());
  for (std::size_t i = 0; i < count; ++i)
    to[i] = data.dtype == DType::f16 ? half_to_float(from[i]) : bfloat_to_float(from[i]);
  return {DType::f32, data.shape, std::move(wide)};
}

}  // namespace fold8::onnx_io
