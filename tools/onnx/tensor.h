// ONNX tensors and element types in fold8's terms.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/core/result.h"
#include "runtime/core/tensor.h"
#include "tools/onnx/large_tensors.h"

namespace onnx {
class TensorProto;
}

namespace fold8::onnx_io {

struct ConstantData {
  DType dtype = DType::f32;
  Shape shape;
  std::shared_ptr<const Buffer> data;
};

// TensorProto.DataType to DType. Types fold8 has no word for (strings, complex, float8):
// unsupported. Numbers that are no ONNX type: invalid_model. The message holds the number and
// `what`.
Result<DType> dtype_from_onnx(std::int32_t type, const std::string& what);
std::int32_t dtype_to_onnx(DType dtype);

// Checks dims, data type and amount of data before memory is taken; 4-bit elements are spread to
// one per byte. `name` is how errors call the tensor (its own name may be empty). `raw`: where its
// raw_data lies, if the message does not hold it.
Result<ConstantData> read_tensor(const onnx::TensorProto& tensor, const std::string& name,
                                 const std::string& folder,
                                 const std::optional<RawData>& raw = std::nullopt);

// f16 and bf16 as f32, exactly; other types as they are.
ConstantData widened(ConstantData data);

}  // namespace fold8::onnx_io
