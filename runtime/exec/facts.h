// What is known about each value of a graph, and the walk over one node that finds it out. The same
// code serves convert time (symbolic extents) and plan time (numbers).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/ops/op_impl.h"

namespace fold8::exec {

struct Facts {
  TensorType type;
  bool has_type = false;
  std::unique_ptr<ops::KnownInts> ints;  // elements found without running
  std::unique_ptr<Shape> bound;          // the extent depends on data: at most this
  const void* data =
      nullptr;  // bytes in the order of type.layout: constants, and values read while planning
  std::optional<std::size_t> bytes;  // at most; nullopt: unknown, or more than a size_t holds

  void count_bytes();  // from type and bound
};

// What never changes about the constants of a graph, shared by all its plans: models have more
// constants than activations. Their types here lack QuantParams (FactsTable::type() has them).
struct ConstantFacts {
  explicit ConstantFacts(const graph::Graph& graph);
  const graph::Graph& g;
  std::vector<std::int32_t>
      slot;  // [values]: of activations, in their order; constants: -1 - index
  std::vector<Facts> constants;
};

// Facts of every value, those of constants looked up elsewhere.
class FactsTable {
 public:
  FactsTable() = default;
  // Inputs as declared; those of other values are as declared, or unknown.
  explicit FactsTable(const ConstantFacts& constants);

  const Facts& operator[](graph::ValueId v) const {
    const std::int32_t s = constants_->slot[static_cast<std::size_t>(v)];
    return s >= 0 ? own_[static_cast<std::size_t>(s)]
                  : constants_->constants[static_cast<std::size_t>(-1 - s)];
  }
  // v is no constant.
  Facts& edit(graph::ValueId v) {
    return own_[static_cast<std::size_t>(constants_->slot[static_cast<std::size_t>(v)])];
  }
  void reset(graph::ValueId v);  // as in the beginning
  // With QuantParams, of constants too.
  const TensorType& type(graph::ValueId v) const {
    return constants_->slot[static_cast<std::size_t>(v)] < 0 ? constants_->g.type(v)
                                                             : (*this)[v].type;
  }
  const graph::Graph& graph() const { return constants_->g; }

 private:
  const ConstantFacts* constants_ = nullptr;
  std::vector<Facts> own_;
};

// If, Loop or Scan.
bool is_control_flow(const graph::Op& op);

// Fills the facts of the node's outputs from those of its operands. Declared types keep dtype,
// params and layout, and fill extents that inference cannot tell. Errors name the node. Not for
// control flow.
// `context` is room that a caller may keep from node to node.
Status infer_node(graph::NodeId n, FactsTable& facts, ops::InferContext& context);

// "node 'conv1' (conv)": where an error happened.
std::string describe(const graph::Node& n);

}  // namespace fold8::exec
