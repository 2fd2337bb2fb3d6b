// Export with the limit on inline weights as a parameter, for tests.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/graph/graph.h"

namespace fold8::onnx_io {

inline constexpr std::size_t kLargestInline = std::size_t{1500}
                                              << 20;  // bytes of weights; protobuf ends at 2 GiB

// Weights beyond `largest_inline` bytes in total go to PATH.data, beside the model.
Status export_file(const graph::Graph& g, const std::string& path, std::size_t largest_inline);

}  // namespace fold8::onnx_io
