// One ONNX node on its way into the graph: typed access to attributes and operands, and the
// building of what stands for it.
//
// The first error sticks: later calls do nothing and finish() returns it, so that the maps read as
// straight code.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/onnx/builder.h"

namespace onnx {
class AttributeProto;
class TensorProto;
}  // namespace onnx

namespace fold8::onnx_io {

using graph::Ints;
using graph::kNoValue;
using graph::ValueId;

class NodeContext {
 public:
  NodeContext(Builder& builder, const onnx::NodeProto& node, int opset);

  Builder& builder() { return b_; }
  graph::Graph& graph() { return b_.graph; }
  const std::string& name() const { return name_; }
  int opset() const { return opset_; }  // of the node's domain

  // ---- operands and results
  int inputs() const;
  ValueId in(int i) const;  // kNoValue: absent
  std::string input_name(int i) const;
  std::vector<ValueId> all_inputs() const;
  void need_inputs(int least,
                   int most);  // an error if fewer are present or more are given (most < 0: any)
  int outputs() const;
  std::string output_name(int o) const;
  bool wanted(int o) const;  // named, and read by a node or a graph output

  const TensorType* type(ValueId v) const;  // null: absent, or behind an unsupported operator
  std::optional<int> rank(ValueId v) const;
  std::optional<DType> dtype(ValueId v) const;

  // ---- attributes (the default if absent; an attribute of another kind is an error)
  bool has(std::string_view attribute);
  std::int64_t integer(std::string_view attribute, std::int64_t otherwise = 0);
  bool flag(std::string_view attribute, bool otherwise = false) {
    return integer(attribute, otherwise) != 0;
  }
  float real(std::string_view attribute, float otherwise = 0);
  std::string text(std::string_view attribute, const std::string& otherwise = "");
  Ints integers(std::string_view attribute);
  std::vector<float> reals(std::string_view attribute);
  const onnx::TensorProto* tensor(std::string_view attribute);
  // An axis attribute, or value, brought into [0, rank); left alone where the rank is not known; an
  // error outside.
  std::int64_t axis(std::string_view attribute, std::int64_t otherwise, ValueId of);
  std::int64_t normalized(std::int64_t axis, std::optional<int> rank);
  void normalize(Ints& axes, std::optional<int> rank);

  // ---- constants
  std::optional<Ints> known_ints(ValueId v);  // integer or bool constant of any size, or propagated
  std::optional<std::vector<double>> known_reals(ValueId v);          // any numeric constant
  bool empty_constant(ValueId v) const;                               // present, with no elements
  ValueId ints(const Ints& values, const std::string& suffix);        // s64 [n]
  ValueId int_scalar(std::int64_t value, const std::string& suffix);  // s64 []
  ValueId floats(const std::vector<float>& values, const Shape& shape, const std::string& suffix);
  ValueId scalar_like(ValueId like, double value,
                      const std::string& suffix);  // [], of the dtype of `like` (f32 if unknown)
  ValueId as_s64(ValueId v, const std::string& suffix);  // v, converted if it is s32
  // The operand of that number as s64, or the attribute of that name as a constant (older opsets);
  // kNoValue if neither.
  ValueId ints_operand(int input, std::string_view attribute);

  // ---- building
  // A fresh value, untyped, or of a decided type.
  ValueId value(const std::string& suffix);
  ValueId typed_value(const std::string& suffix, TensorType type);
  ValueId emit(graph::Op op, std::vector<ValueId> inputs, const std::string& suffix);
  void emit_into(graph::Op op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                 const std::string& suffix);
  // The value that bears output o's name (made on first use).
  ValueId out(int o);
  // Last node: its results are the ONNX node's. `keep`: how many outputs are kept although nobody
  // reads them.
  Status finish(graph::Op op, std::vector<ValueId> inputs, int keep = 1);
  Status done();                             // nothing more to add; notes unread attributes
  void decide_type(int o, TensorType type);  // of output o, before finish

  void note(const std::string& message);
  void fail(Error e);                     // the node's name is put in front
  Status refuse(const std::string& why);  // Code::unsupported
  Status reject(const std::string& why);  // Code::invalid_model
  bool failed() const { return error_.has_value(); }

 private:
  const onnx::AttributeProto* find(std::string_view attribute, int type, const char* kind);
  std::string stem(const std::string& suffix) const;

  Builder& b_;
  const onnx::NodeProto& node_;
  int opset_;
  std::string name_;
  std::set<std::string, std::less<>> read_;
  std::vector<ValueId> outs_;
  std::set<ValueId> made_;  // outputs an emitted node already makes
  std::optional<Error> error_;
};

}  // namespace fold8::onnx_io
