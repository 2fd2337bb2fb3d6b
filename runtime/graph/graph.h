// The model as typed values and operators.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/core/tensor.h"
#include "runtime/core/tensor_type.h"
#include "runtime/graph/ops.h"

namespace fold8::graph {

using ValueId = std::int32_t;
using NodeId = std::int32_t;
inline constexpr ValueId kNoValue = -1;  // an optional operand that is absent
inline constexpr NodeId kNoNode = -1;

// A tensor. The ONNX name survives as long as the float value does. A value that a pass rescaled
// keeps the factor: original = stored * rescale[c] along rescale_axis (SmoothQuant, equalization),
// so that reports can undo it.
struct Value {
  std::string name;
  TensorType type;
  std::shared_ptr<const Buffer>
      constant;  // its bytes, if it is a constant (in the order of type.layout)
  std::vector<float> rescale;
  std::int32_t rescale_axis = -1;
  bool has_type = true;  // false: an imported intermediate before inference

  bool is_constant() const { return constant != nullptr; }
};

struct Node {
  Op op;
  std::string name;                      // ONNX node name, or one derived from its first output
  std::vector<ValueId> inputs, outputs;  // kNoValue: absent
  std::vector<std::string> inside;  // names of values (and nodes) that were fused into this one
  bool dead = false;                // erased; compact() removes it
};

class Graph {
 public:
  std::vector<ValueId> inputs, outputs;
  std::vector<std::string> symbols;  // names of symbolic dims
  std::map<std::string, std::string>
      metadata;  // producer, ONNX metadata_props, what convert wants remembered

  // ---- building
  ValueId add_value(std::string name, TensorType type);
  ValueId add_untyped_value(std::string name);  // type comes from inference
  ValueId add_constant(std::string name, TensorType type, std::shared_ptr<const Buffer> data);
  template <class T>
  ValueId add_constant(std::string name, const Shape& shape, std::span<const T> data);
  NodeId add_node(Op op, std::string name, std::vector<ValueId> inputs,
                  std::vector<ValueId> outputs);
  Dim symbol(std::string_view name);  // interned
  // `stem`, or `stem_1`, `stem_2`, ... if a value of that name exists.
  std::string fresh_name(std::string_view stem) const;

  // ---- reading
  Value& value(ValueId v) { return values_[static_cast<std::size_t>(v)]; }
  const Value& value(ValueId v) const { return values_[static_cast<std::size_t>(v)]; }
  const TensorType& type(ValueId v) const { return value(v).type; }
  Node& node(NodeId n) { return nodes_[static_cast<std::size_t>(n)]; }
  const Node& node(NodeId n) const { return nodes_[static_cast<std::size_t>(n)]; }
  std::int32_t value_count() const { return static_cast<std::int32_t>(values_.size()); }
  std::int32_t node_count() const {
    return static_cast<std::int32_t>(nodes_.size());
  }  // dead ones included
  bool is_constant(ValueId v) const { return v != kNoValue && value(v).is_constant(); }
  bool is_input(ValueId v) const;
  bool is_output(ValueId v) const;
  template <class T>
  std::span<const T> constant(ValueId v) const;     // elements of a constant of dtype T
  ValueId find_value(std::string_view name) const;  // kNoValue if there is none; linear
  std::vector<NodeId> producers() const;  // [value_count]: the node that makes a value, or kNoNode
  std::vector<std::vector<NodeId>> consumers()
      const;  // [value_count]: live nodes that read it (once per operand)
  std::size_t live_nodes() const;

  // Live nodes so that producers come before consumers; stable with respect to node numbers. A
  // cycle is an error that names its nodes.
  Result<std::vector<NodeId>> topological_order() const;

  // ---- editing
  void replace_uses(ValueId from, ValueId to);  // in live nodes and graph outputs
  void erase(NodeId n) { node(n).dead = true; }
  // Drops dead nodes, nodes whose outputs nobody reads, and unused values; renumbers in topological
  // order. Graph inputs stay. Fails on a cycle.
  Status compact();

 private:
  std::vector<Value> values_;
  std::vector<Node> nodes_;
};

template <class T>
ValueId Graph::add_constant(std::string name, const Shape& shape, std::span<const T> data) {
  auto buffer = Buffer::allocate(data.size_bytes());
  std::copy(data.begin(), data.end(), reinterpret_cast<T*>(buffer->mutable_data()));
  return add_constant(std::move(name), TensorType{dtype_of<T>::value, shape, {}, Layout::plain},
                      std::move(buffer));
}

template <class T>
std::span<const T> Graph::constant(ValueId v) const {
  const Value& c = value(v);
  return {reinterpret_cast<const T*>(c.constant->data()), c.constant->size() / sizeof(T)};
}

}  // namespace fold8::graph
