#include "tools/onnx/tensor_file.h"

#include <onnx/onnx_pb.h>

#include <climits>
#include <cstring>

#include "tools/onnx/model_file.h"
#include "tools/onnx/tensor.h"

namespace fold8::onnx_io {

Result<TensorFile> read_tensor_file(const std::string& path) {
  FOLD8_TRY(const std::string bytes, read_whole_file(path, INT_MAX));
  onnx::TensorProto proto;
  if (bytes.empty() || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return invalid_model("'" + path +
                         "' is no readable ONNX tensor (cut short, damaged, or something else)");
  auto data = read_tensor(proto, proto.name().empty() ? path : proto.name(), "");
  if (!data.ok()) return in_context("'" + path + "'", data.error());
  TensorFile file{proto.name(), Tensor(data->dtype, data->shape)};
  if (data->data->size() > 0)
    std::memcpy(file.tensor.view().data, data->data->data(), data->data->size());
  return file;
}

}  // namespace fold8::onnx_io
