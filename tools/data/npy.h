// NumPy's .npy and .npz: readers that trust nothing, and a writer.
#pragma once

#include <map>
#include <string>

#include "runtime/core/result.h"
#include "runtime/core/tensor.h"

namespace fold8::data {

Result<Tensor> read_npy(const std::string& path);
Result<std::map<std::string, Tensor>> read_npz(const std::string& path);      // names without ".npy"
Status write_npy(const std::string& path, const TensorView& tensor);          // atomically; plain layout

}  // namespace fold8::data
