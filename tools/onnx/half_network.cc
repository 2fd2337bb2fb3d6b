#include "tools/onnx/half_network.h"

#include <onnx/onnx_pb.h>

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "tools/onnx/half.h"

namespace fold8::onnx_io {
namespace {

using Names = std::unordered_set<std::string>;

bool is_half(std::int64_t type) {
  return type == onnx::TensorProto::FLOAT16 || type == onnx::TensorProto::BFLOAT16;
}

std::int32_t declared(const onnx::ValueInfoProto& v) {
  return v.type().has_tensor_type() ? v.type().tensor_type().elem_type() : 0;
}

// The attributes that name the element type of a result.
bool names_a_type(const onnx::AttributeProto& a) {
  return a.type() == onnx::AttributeProto::INT &&
         (a.name() == "to" || a.name() == "dtype" || a.name() == "output_dtype");
}

bool makes_half(const onnx::NodeProto& n) {
  for (const auto& a : n.attribute())
    if ((names_a_type(a) && is_half(a.i())) || (a.has_t() && is_half(a.t().data_type())))
      return true;
  return false;
}

Names declared_halves(const onnx::GraphProto& g) {
  Names names;
  for (const auto* list : {&g.input(), &g.output(), &g.value_info()})
    for (const auto& v : *list)
      if (is_half(declared(v))) names.insert(v.name());
  for (const auto& t : g.initializer())
    if (is_half(t.data_type())) names.insert(t.name());
  for (const auto& n : g.node())
    if (makes_half(n)) names.insert(n.output().begin(), n.output().end());
  return names;
}

// The elements of a 16-bit tensor as float32, where they lie inside the message; else unchanged
// (reading it then fails or finds the file it names).
void widen(onnx::TensorProto& t) {
  const bool brain = t.data_type() == onnx::TensorProto::BFLOAT16;
  const auto value = [&](std::uint32_t bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    return brain ? bfloat_to_float(half) : half_to_float(half);
  };
  if (t.data_location() == onnx::TensorProto::EXTERNAL) return;
  if (t.has_raw_data()) {
    const std::string raw = t.raw_data();
    if (raw.size() % 2 != 0) return;
    for (std::size_t i = 0; i < raw.size(); i += 2)  // little endian, as ONNX says
      t.add_float_data(
          value(static_cast<unsigned char>(raw[i]) |
                static_cast<std::uint32_t>(static_cast<unsigned char>(raw[i + 1])) << 8));
    t.clear_raw_data();
  } else {
    for (std::int32_t bits : t.int32_data())
      t.add_float_data(value(static_cast<std::uint32_t>(bits)));
    t.clear_int32_data();
  }
  t.set_data_type(onnx::TensorProto::FLOAT);
}

std::string fresh(const std::string& stem, Names& taken) {
  std::string name = stem;
  while (!taken.insert(name).second) name += "_";
  return name;
}

void add_cast(onnx::GraphProto& g, const std::string& from, const std::string& to,
              std::int32_t type) {
  onnx::NodeProto& n = *g.add_node();
  n.set_op_type("Cast");
  n.add_input(from);
  n.add_output(to);
  onnx::AttributeProto& a = *n.add_attribute();
  a.set_name("to");
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(type);
}

}  // namespace

bool computes_in_half(const onnx::GraphProto& g) {
  const Names halves = declared_halves(g);
  if (halves.empty()) return false;
  static const Names kConversions{
      "Cast",     "CastLike",       "Constant",        "ConstantOfShape",
      "Identity", "QuantizeLinear", "DequantizeLinear"};
  for (const auto& n : g.node()) {
    if (kConversions.count(n.op_type())) continue;
    for (const auto* list : {&n.input(), &n.output()})
      for (const auto& name : *list)
        if (halves.count(name)) return true;
  }
  return false;
}

void compute_in_float(onnx::GraphProto& g) {
  Names taken, constants;
  for (const auto& t : g.initializer()) constants.insert(t.name());
  taken = constants;
  for (const auto& i : g.input()) taken.insert(i.name());
  for (const auto& n : g.node()) taken.insert(n.output().begin(), n.output().end());

  std::unordered_map<std::string, std::string> renamed;  // what nodes read and write instead
  std::unordered_map<std::string, std::int32_t> inputs, outputs;
  for (const auto& i : g.input())
    if (is_half(declared(i)) && !constants.count(i.name())) inputs[i.name()] = declared(i);
  for (const auto& o : g.output())
    if (is_half(declared(o)) && !inputs.count(o.name()) && !constants.count(o.name()))
      outputs[o.name()] = declared(o);
  for (const auto* edge : {&g.input(), &g.output()})
    for (const auto& v : *edge)
      if ((inputs.count(v.name()) || outputs.count(v.name())) && !renamed.count(v.name()))
        renamed[v.name()] = fresh(v.name() + "/f32", taken);

  for (auto& n : *g.mutable_node()) {
    for (auto* list : {n.mutable_input(), n.mutable_output()})
      for (auto& name : *list)
        if (const auto it = renamed.find(name); it != renamed.end()) name = it->second;
    for (auto& a : *n.mutable_attribute()) {
      if (names_a_type(a) && is_half(a.i())) a.set_i(onnx::TensorProto::FLOAT);
      if (a.has_t() && is_half(a.t().data_type())) widen(*a.mutable_t());
    }
  }
  for (const auto& i : g.input())
    if (inputs.count(i.name())) add_cast(g, i.name(), renamed[i.name()], onnx::TensorProto::FLOAT);
  for (const auto& o : g.output())
    if (const auto it = outputs.find(o.name()); it != outputs.end()) {
      add_cast(g, renamed[o.name()], o.name(), it->second);
      outputs.erase(it);  // an output listed twice is converted once
    }
}

}  // namespace fold8::onnx_io
