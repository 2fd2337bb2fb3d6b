// What is common to the import of all nodes: the graph under construction, names, and types
// inferred as it grows.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/ops/op_impl.h"
#include "tools/onnx/onnx.h"
#include "tools/onnx/tensor.h"

namespace onnx {
class NodeProto;
}

namespace fold8::onnx_io {

class Builder {
 public:
  graph::Graph graph;
  std::vector<ImportNote> notes;
  std::string folder;                           // where external data may lie
  std::unordered_map<std::string, int> opsets;  // by domain; "" is the default one
  // ONNX tensor name -> the nodes that read it, once per operand.
  std::unordered_map<std::string, std::vector<const onnx::NodeProto*>> readers;
  std::unordered_set<std::string> output_names;  // graph outputs

  // ---- names
  void reserve_value_name(const std::string& name) { value_names_.insert(name); }
  std::string fresh_value_name(const std::string& stem);
  std::string fresh_node_name(const std::string& wanted, const std::string& fallback);

  // ---- values by ONNX name
  graph::ValueId find(
      const std::string& name) const;  // kNoValue if nothing of that name exists (yet)
  void bind(const std::string& name, graph::ValueId v) { by_name_[name] = v; }
  graph::ValueId add_constant(std::string name, ConstantData data);

  // Appends a node and infers the types of its outputs; where the operator wants f32 and is given
  // f16, bf16 or f64, between conversions. Errors do not yet say which node they are about.
  Status add_node(graph::Op op, const std::string& name, std::vector<graph::ValueId> inputs,
                  std::vector<graph::ValueId> outputs);

  // Small integers known without running: constants or propagated through shape arithmetic.
  const ops::KnownInts* propagated(graph::ValueId v) const;

 private:
  Status infer(graph::NodeId n);
  bool is_sum_of_halves(graph::NodeId n) const;
  bool add_in_f32(graph::NodeId failed);

  std::unordered_map<std::string, graph::ValueId> by_name_;
  std::unordered_set<std::string> value_names_, node_names_;
  std::vector<std::optional<ops::KnownInts>> ints_;  // by value
};

}  // namespace fold8::onnx_io
