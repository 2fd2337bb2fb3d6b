// Tensor bytes that an ONNX model keeps in files of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/core/result.h"
#include "runtime/core/tensor.h"

namespace onnx {
class TensorProto;
}

namespace fold8::onnx_io {

// Reads the `need` bytes that `tensor` keeps outside the model. Only regular files inside `folder`
// are opened: no absolute path, no "..", no link that leads outside. Offset and length are checked
// against the file and against `need` before memory is taken. `folder` empty: external data is not
// allowed at all. Errors name tensor, file and numbers.
Result<std::shared_ptr<Buffer>> read_external(const onnx::TensorProto& tensor, std::size_t need,
                                              const std::string& folder);

}  // namespace fold8::onnx_io
