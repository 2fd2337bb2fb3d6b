// Who makes and who reads each tensor of an ONNX graph, checked before anything is built.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/core/result.h"

namespace onnx {
class GraphProto;
}

namespace fold8::onnx_io {

struct NodeOrder {
  // Indices of the nodes some graph output needs, producers first, otherwise in the file's order.
  std::vector<int> order;
  std::vector<int> unneeded;  // the others, in the file's order
};

// Errors: a tensor made twice, a tensor read or returned that nothing makes, a cycle; all by name.
Result<NodeOrder> order_nodes(const onnx::GraphProto& graph);

}  // namespace fold8::onnx_io
