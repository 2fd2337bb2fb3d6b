// What is known about each value of a graph, and the walk over one node that finds it out. The same
// code serves convert time (symbolic extents) and plan time (numbers).
#pragma once

#include <optional>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/ops/op_impl.h"

namespace fold8::exec {

struct Facts {
  TensorType type;
  bool has_type = false;
  std::optional<ops::KnownInts> ints;  // elements found without running
  std::optional<Shape> bound;          // the extent depends on data: at most this
  const void* data =
      nullptr;  // bytes in the order of type.layout: constants, and values read while planning
};

// Facts of inputs and constants; those of all other values are as declared, or unknown.
std::vector<Facts> initial_facts(const graph::Graph& g);
Facts initial_facts(const graph::Graph& g, graph::ValueId v);

// If, Loop or Scan.
bool is_control_flow(const graph::Op& op);

// Fills the facts of the node's outputs from those of its operands. Declared types keep dtype,
// params and layout, and fill extents that inference cannot tell. Errors name the node. Not for
// control flow.
Status infer_node(const graph::Graph& g, graph::NodeId n, std::vector<Facts>& facts);

// "node 'conv1' (conv)": where an error happened.
std::string describe(const graph::Node& n);

}  // namespace fold8::exec
