// NumPy's .npy and .npz files.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/core/tensor.h"
#include "tools/data/byte_stream.h"

namespace fold8::data {

struct NpyHeader {
  DType dtype = DType::f32;
  Shape shape;
  bool fortran = false;  // columns first
  bool swapped = false;  // big-endian
  std::size_t data_bytes() const {
    return static_cast<std::size_t>(shape.count()) * size_of(dtype);
  }
};

// Reads the header; the stream then stands at the data. `what` names the array in errors. The
// announced data must be exactly what the stream holds behind the header, so that no memory is
// taken for a size nobody stored.
Result<NpyHeader> read_npy_header(ByteStream& stream, const std::string& what);
// The data behind the header, row-major and little-endian.
Result<Tensor> read_npy_data(ByteStream& stream, const NpyHeader& header);

Result<Tensor> read_npy(const std::string& path);
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
Result<NamedTensors> read_npz(const std::string& path);

// One array of a file, not yet read.
struct ArrayPlace {
  std::string file, name;  // name: the .npz entry without ".npy"; empty for a .npy file
  std::string what() const {
    return name.empty() ? "'" + file + "'" : "'" + file + "', array '" + name + "'";
  }
  Result<std::unique_ptr<ByteStream>> open() const;
};
Result<std::vector<ArrayPlace>> list_npz(const std::string& path);

// bf16 and 4-bit tensors have no NumPy type: unsupported.
Result<std::string> npy_bytes(const TensorView& tensor);
Status write_npy(const std::string& path, const TensorView& tensor);
Status write_npz(const std::string& path,
                 const std::vector<std::pair<std::string, TensorView>>& tensors);

}  // namespace fold8::data
