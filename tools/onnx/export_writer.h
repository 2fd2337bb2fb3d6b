// What the export of all operators shares: names, constants, and one node at a time.
#pragma once

#include <onnx/onnx_pb.h>

#include <initializer_list>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/graph/graph.h"

namespace fold8::onnx_io {

using Names = std::vector<std::string>;

// An ONNX node under construction; attributes are added to it.
class NodeRef {
 public:
  explicit NodeRef(onnx::NodeProto* node) : node_(node) {}
  NodeRef& set(const char* attribute, std::int64_t v);
  NodeRef& set(const char* attribute, float v);
  NodeRef& set(const char* attribute, const std::string& v);
  NodeRef& set(const char* attribute, const graph::Ints& v);

 private:
  onnx::NodeProto* node_;
};

class Writer {
 public:
  Writer(const graph::Graph& g, onnx::GraphProto& out, int opset);

  const graph::Graph& graph() const { return g_; }
  int opset() const { return opset_; }
  std::string fresh(const std::string& stem);
  NodeRef add(const char* op, const Names& inputs, const Names& outputs);
  // Adds a node with one fresh result and returns its name.
  std::string emit(const char* op, const Names& inputs, const std::string& stem);

  // Constants made here; they get fresh names.
  std::string scalar(DType dtype, double value);
  std::string ints(const graph::Ints& values);
  std::string floats(const std::vector<float>& values, const Shape& shape);
  std::string tensor(DType dtype, const Shape& shape, const void* data, std::size_t bytes,
                     const std::string& stem);

  // A value as it is stored, "" if absent; and as real numbers: behind a DequantizeLinear if it is
  // quantized.
  std::string name(graph::ValueId v) const { return v == graph::kNoValue ? "" : g_.value(v).name; }
  std::string real(graph::ValueId v);
  // Operands of QuantizeLinear and DequantizeLinear from a type's parameters; errors for per-token
  // scales.
  Status quantize(const std::string& x, const TensorType& type, const std::string& y);
  Status dequantize(const std::string& x, const TensorType& type, const std::string& y);

  std::string current;         // name of the graph node being written
  std::optional<Error> error;  // the first that real() met

 private:
  struct Scales {
    std::string scale, zero_point;
  };
  Result<Scales> scales(const TensorType& type);

  const graph::Graph& g_;
  onnx::GraphProto& out_;
  int opset_;
  std::unordered_set<std::string> value_names_, node_names_;
};

// Writes one operator; y: names of the node's outputs. Defined per family in export_*.cc.
struct NodeWriter {
  Writer& w;
  const graph::Node& n;
  Names y;  // outputs as real numbers: a quantized output is quantized afterwards

  std::size_t count() const { return n.inputs.size(); }
  graph::ValueId in(std::size_t i) const {
    return i < n.inputs.size() ? n.inputs[i] : graph::kNoValue;
  }
  bool has(std::size_t i) const { return in(i) != graph::kNoValue; }
  std::string raw(std::size_t i) const { return w.name(in(i)); }
  std::string real(std::size_t i) { return w.real(in(i)); }
  const TensorType& type(std::size_t i) const { return w.graph().type(in(i)); }
  Error refuse(const std::string& why) const;
  // y = activation(x); x is a value of dtype `dtype`.
  Status activate(Activation kind, float a, float b, const std::string& x, const std::string& to);
};

// Each writes the operators of its family and leaves `known` false for the others.
Status write_attention(NodeWriter& w, const graph::Op& op, bool& known);
Status write_elementwise(NodeWriter& w, const graph::Op& op, bool& known);
Status write_linear(NodeWriter& w, const graph::Op& op, bool& known);
Status write_norm(NodeWriter& w, const graph::Op& op, bool& known);
Status write_window(NodeWriter& w, const graph::Op& op, bool& known);
Status write_shape(NodeWriter& w, const graph::Op& op, bool& known);
Status write_unary(NodeWriter& w, graph::UnaryKind kind, float a, float b, DType dtype,
                   const std::string& x, const std::string& y);

}  // namespace fold8::onnx_io
