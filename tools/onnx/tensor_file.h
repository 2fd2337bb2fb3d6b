// The .pb tensors of ONNX's test_data_set folders.
#pragma once

#include <string>

#include "runtime/core/result.h"
#include "runtime/core/tensor.h"

namespace fold8::onnx_io {

struct TensorFile {
  std::string name;  // may be empty
  Tensor tensor;
};

Result<TensorFile> read_tensor_file(const std::string& path);

}  // namespace fold8::onnx_io
