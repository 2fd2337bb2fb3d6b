// Reading ONNX protobuf messages from bytes and files.
#pragma once

#include <string>

#include "runtime/core/result.h"
#include "tools/onnx/large_tensors.h"

namespace onnx {
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace fold8::onnx_io {

// `what` is how errors call the source (a path). Sub-messages nested deeper than protobuf's limit
// (100) are an error.
Status parse_model(const void* data, std::size_t bytes, const std::string& what,
                   onnx::ModelProto& out);
// Without the data of the initializers that are in `left_out` then.
Status read_model(const std::string& path, onnx::ModelProto& out, LargeTensors& left_out);

// The folder a model's external data may lie in: where the model itself lies.
std::string folder_of(const std::string& path);

// A whole regular file of at most `limit` bytes.
Result<std::string> read_whole_file(const std::string& path, std::size_t limit);

}  // namespace fold8::onnx_io
