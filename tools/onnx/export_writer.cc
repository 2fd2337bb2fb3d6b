#include "tools/onnx/export_writer.h"

#include <cstring>

#include "tools/onnx/half.h"
#include "tools/onnx/tensor.h"

namespace fold8::onnx_io {
namespace {

using graph::ValueId;

std::string fresh_in(std::unordered_set<std::string>& taken, const std::string& stem) {
  if (taken.insert(stem).second) return stem;
  for (int i = 1;; ++i)
    if (std::string s = stem + "_" + std::to_string(i); taken.insert(s).second) return s;
}

}  // namespace

NodeRef& NodeRef::set(const char* attribute, std::int64_t v) {
  auto* a = node_->add_attribute();
  a->set_name(attribute);
  a->set_type(onnx::AttributeProto_AttributeType_INT);
  a->set_i(v);
  return *this;
}
NodeRef& NodeRef::set(const char* attribute, float v) {
  auto* a = node_->add_attribute();
  a->set_name(attribute);
  a->set_type(onnx::AttributeProto_AttributeType_FLOAT);
  a->set_f(v);
  return *this;
}
NodeRef& NodeRef::set(const char* attribute, const std::string& v) {
  auto* a = node_->add_attribute();
  a->set_name(attribute);
  a->set_type(onnx::AttributeProto_AttributeType_STRING);
  a->set_s(v);
  return *this;
}
NodeRef& NodeRef::set(const char* attribute, const graph::Ints& v) {
  auto* a = node_->add_attribute();
  a->set_name(attribute);
  a->set_type(onnx::AttributeProto_AttributeType_INTS);
  for (auto i : v) a->add_ints(i);
  return *this;
}

Writer::Writer(const graph::Graph& g, onnx::GraphProto& out, int opset)
    : g_(g), out_(out), opset_(opset) {
  for (ValueId v = 0; v < g.value_count(); ++v) value_names_.insert(g.value(v).name);
}

std::string Writer::fresh(const std::string& stem) { return fresh_in(value_names_, stem); }

NodeRef Writer::add(const char* op, const Names& inputs, const Names& outputs) {
  auto* n = out_.add_node();
  n->set_op_type(op);
  n->set_name(fresh_in(node_names_, current));
  std::size_t used = inputs.size();
  while (used > 0 && inputs[used - 1].empty()) --used;
  for (std::size_t i = 0; i < used; ++i) n->add_input(inputs[i]);
  for (const auto& o : outputs) n->add_output(o);
  return NodeRef(n);
}

std::string Writer::emit(const char* op, const Names& inputs, const std::string& stem) {
  std::string y = fresh(current + "/" + stem);
  add(op, inputs, {y});
  return y;
}

std::string Writer::tensor(DType dtype, const Shape& shape, const void* data, std::size_t bytes,
                           const std::string& stem) {
  auto* t = out_.add_initializer();
  t->set_name(fresh(stem));
  t->set_data_type(dtype_to_onnx(dtype));
  for (Dim d : shape.dims()) t->add_dims(d.value());
  if (dtype == DType::s4 || dtype == DType::u4) {  // two elements a byte, the first in the low half
    const auto* p = static_cast<const std::uint8_t*>(data);
    std::string packed((bytes + 1) / 2, '\0');
    for (std::size_t i = 0; i < bytes; ++i)
      packed[i / 2] = static_cast<char>(packed[i / 2] | ((p[i] & 15) << (i % 2 * 4)));
    t->set_raw_data(std::move(packed));
  } else {
    t->set_raw_data(std::string(static_cast<const char*>(data), bytes));
  }
  return t->name();
}

std::string Writer::scalar(DType dtype, double value) {
  const std::string stem = current + "/constant";
  const auto f = static_cast<float>(value);
  const auto i = static_cast<std::int64_t>(value);
  const std::uint16_t half = dtype == DType::bf16 ? float_to_bfloat(f) : float_to_half(f);
  if (dtype == DType::f32) return tensor(dtype, Shape(), &f, sizeof f, stem);
  if (dtype == DType::f64) return tensor(dtype, Shape(), &value, sizeof value, stem);
  if (dtype == DType::f16 || dtype == DType::bf16)
    return tensor(dtype, Shape(), &half, sizeof half, stem);
  return tensor(dtype, Shape(), &i, size_of(dtype),
                stem);  // little-endian: the low bytes are the value
}
std::string Writer::ints(const graph::Ints& v) {
  return tensor(DType::s64, Shape{static_cast<std::int64_t>(v.size())}, v.data(),
                v.size() * sizeof v[0], current + "/constant");
}
std::string Writer::floats(const std::vector<float>& v, const Shape& shape) {
  return tensor(DType::f32, shape, v.data(), v.size() * sizeof(float), current + "/constant");
}

Result<Writer::Scales> Writer::scales(const TensorType& type) {
  const QuantParams& q = *type.quant;
  if (q.granularity() == Granularity::per_token)
    return unsupported("scales per token have no standard ONNX form");
  Shape shape;
  if (q.granularity() == Granularity::per_channel)
    shape.push_back(static_cast<std::int64_t>(q.scales().size()));
  if (q.granularity() == Granularity::per_group) {
    shape = type.shape;
    shape[q.axis()] = (type.shape.extent(q.axis()) + q.group() - 1) / q.group();
  }
  Scales s;
  s.scale =
      tensor(DType::f32, shape, q.scales().data(), q.scales().size_bytes(), current + "/scale");
  std::vector<std::int8_t> zero(q.scales().size() * size_of(type.dtype), 0);
  for (std::size_t i = 0; i < q.scales().size(); ++i) {
    const std::int32_t z = q.zero_point(i);
    std::memcpy(zero.data() + i * size_of(type.dtype), &z, size_of(type.dtype));
  }
  // An INT32 zero point must be absent before opset 19 wherever it says nothing.
  if (type.dtype != DType::s32)
    s.zero_point = tensor(type.dtype, shape, zero.data(), zero.size(), current + "/zero_point");
  return s;
}

Status Writer::quantize(const std::string& x, const TensorType& type, const std::string& y) {
  FOLD8_TRY(const Scales s, scales(type));
  NodeRef n = add("QuantizeLinear", {x, s.scale, s.zero_point}, {y});
  if (!type.quant->is_per_tensor()) n.set("axis", std::int64_t{type.quant->axis()});
  if (type.quant->granularity() == Granularity::per_group) n.set("block_size", type.quant->group());
  return ok_status();
}

Status Writer::dequantize(const std::string& x, const TensorType& type, const std::string& y) {
  FOLD8_TRY(const Scales s, scales(type));
  NodeRef n = add("DequantizeLinear", {x, s.scale, s.zero_point}, {y});
  if (!type.quant->is_per_tensor()) n.set("axis", std::int64_t{type.quant->axis()});
  if (type.quant->granularity() == Granularity::per_group) n.set("block_size", type.quant->group());
  return ok_status();
}

std::string Writer::real(ValueId v) {
  if (v == graph::kNoValue || !g_.type(v).quant) return name(v);
  const std::string y = fresh(name(v) + "/real");
  if (auto s = dequantize(name(v), g_.type(v), y); !s.ok() && !error) error = s.error();
  return y;
}

Error NodeWriter::refuse(const std::string& why) const {
  return unsupported("node '" + n.name + "' (" + graph::display_name(n.op) +
                     ") cannot be written as ONNX: " + why);
}

}  // namespace fold8::onnx_io
