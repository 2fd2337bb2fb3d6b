#include "tools/onnx/node_context.h"

#include <onnx/onnx_pb.h>

#include "tools/onnx/half.h"

namespace fold8::onnx_io {
namespace {

template <class T>
void widen(const Buffer& b, Ints& out) {
  const T* p = reinterpret_cast<const T*>(b.data());
  out.assign(p, p + b.size() / sizeof(T));
}

template <class T, class F>
void widen_reals(const Buffer& b, std::vector<double>& out, F convert) {
  const T* p = reinterpret_cast<const T*>(b.data());
  for (std::size_t i = 0; i < b.size() / sizeof(T); ++i) out.push_back(convert(p[i]));
}

std::optional<Ints> constant_ints(const graph::Value& c) {
  Ints out;
  switch (c.type.dtype) {
    case DType::s64:
      widen<std::int64_t>(*c.constant, out);
      return out;
    case DType::s32:
      widen<std::int32_t>(*c.constant, out);
      return out;
    case DType::s16:
      widen<std::int16_t>(*c.constant, out);
      return out;
    case DType::u16:
      widen<std::uint16_t>(*c.constant, out);
      return out;
    case DType::u32:
      widen<std::uint32_t>(*c.constant, out);
      return out;
    case DType::s8:
    case DType::s4:
      widen<std::int8_t>(*c.constant, out);
      return out;
    case DType::u8:
    case DType::u4:
    case DType::boolean:
      widen<std::uint8_t>(*c.constant, out);
      return out;
    default:
      return std::nullopt;
  }
}

template <class T>
ConstantData scalar_of(DType dtype, T value) {
  auto buffer = Buffer::allocate(sizeof(T));
  *reinterpret_cast<T*>(buffer->mutable_data()) = value;
  return {dtype, Shape(), buffer};
}

ConstantData scalar_data(DType dtype, double v) {
  switch (dtype) {
    case DType::f64:
      return scalar_of<double>(dtype, v);
    case DType::f16:
      return scalar_of<std::uint16_t>(dtype, float_to_half(static_cast<float>(v)));
    case DType::bf16:
      return scalar_of<std::uint16_t>(dtype, float_to_bfloat(static_cast<float>(v)));
    case DType::s64:
      return scalar_of<std::int64_t>(dtype, static_cast<std::int64_t>(v));
    case DType::s32:
      return scalar_of<std::int32_t>(dtype, static_cast<std::int32_t>(v));
    case DType::s16:
      return scalar_of<std::int16_t>(dtype, static_cast<std::int16_t>(v));
    case DType::u16:
      return scalar_of<std::uint16_t>(dtype, static_cast<std::uint16_t>(v));
    case DType::u32:
      return scalar_of<std::uint32_t>(dtype, static_cast<std::uint32_t>(v));
    case DType::u64:
      return scalar_of<std::uint64_t>(dtype, static_cast<std::uint64_t>(v));
    case DType::s8:
    case DType::s4:
      return scalar_of<std::int8_t>(dtype, static_cast<std::int8_t>(v));
    case DType::u8:
    case DType::u4:
    case DType::boolean:
      return scalar_of<std::uint8_t>(dtype, static_cast<std::uint8_t>(v));
    case DType::f32:
      break;
  }
  return scalar_of<float>(DType::f32, static_cast<float>(v));
}

}  // namespace

NodeContext::NodeContext(Builder& builder, const onnx::NodeProto& node, int opset)
    : b_(builder),
      node_(node),
      opset_(opset),
      outs_(static_cast<std::size_t>(node.output_size()), kNoValue) {
  std::string fallback = node.op_type();
  for (int o = node.output_size() - 1; o >= 0; --o)
    if (!node.output(o).empty()) fallback = node.output(o);
  name_ = b_.fresh_node_name(node.name(), fallback);
}

// ----------------------------------------------------------------------------------------------
// operands

int NodeContext::inputs() const { return node_.input_size(); }
std::string NodeContext::input_name(int i) const {
  return i >= 0 && i < node_.input_size() ? node_.input(i) : std::string();
}
ValueId NodeContext::in(int i) const {
  return i >= 0 && i < node_.input_size() && !node_.input(i).empty() ? b_.find(node_.input(i))
                                                                     : kNoValue;
}
std::vector<ValueId> NodeContext::all_inputs() const {
  std::vector<ValueId> all;
  for (int i = 0; i < inputs(); ++i) all.push_back(in(i));
  return all;
}
void NodeContext::need_inputs(int least, int most) {
  if (most >= 0 && inputs() > most)
    fail(invalid_model("has " + std::to_string(inputs()) + " inputs, at most " +
                       std::to_string(most) + " are allowed"));
  for (int i = 0; i < least; ++i)
    if (in(i) == kNoValue) return fail(invalid_model("input " + std::to_string(i) + " is missing"));
}
int NodeContext::outputs() const { return node_.output_size(); }
std::string NodeContext::output_name(int o) const {
  return o < node_.output_size() ? node_.output(o) : std::string();
}
bool NodeContext::wanted(int o) const {
  const std::string name = output_name(o);
  return !name.empty() && (b_.readers.count(name) != 0 || b_.output_names.count(name) != 0);
}

const TensorType* NodeContext::type(ValueId v) const {
  return v != kNoValue && b_.graph.value(v).has_type ? &b_.graph.type(v) : nullptr;
}
std::optional<int> NodeContext::rank(ValueId v) const {
  const TensorType* t = type(v);
  return t != nullptr ? std::optional<int>(t->shape.rank()) : std::nullopt;
}
std::optional<DType> NodeContext::dtype(ValueId v) const {
  const TensorType* t = type(v);
  return t != nullptr ? std::optional<DType>(t->dtype) : std::nullopt;
}

// ----------------------------------------------------------------------------------------------
// attributes

const onnx::AttributeProto* NodeContext::find(std::string_view attribute, int type,
                                              const char* kind) {
  read_.emplace(attribute);
  for (const auto& a : node_.attribute()) {
    if (a.name() != attribute) continue;
    if (!a.ref_attr_name().empty()) {
      fail(unsupported("attribute '" + a.name() + "' refers to a function's attribute"));
      return nullptr;
    }
    // Files older than IR version 4 may leave the type unset.
    if (a.type() != onnx::AttributeProto_AttributeType_UNDEFINED && a.type() != type) {
      fail(invalid_model("attribute '" + a.name() + "' is no " + kind));
      return nullptr;
    }
    return &a;
  }
  return nullptr;
}

bool NodeContext::has(std::string_view attribute) {
  read_.emplace(attribute);
  for (const auto& a : node_.attribute())
    if (a.name() == attribute) return true;
  return false;
}
std::int64_t NodeContext::integer(std::string_view attribute, std::int64_t otherwise) {
  const auto* a = find(attribute, onnx::AttributeProto_AttributeType_INT, "integer");
  return a != nullptr ? a->i() : otherwise;
}
float NodeContext::real(std::string_view attribute, float otherwise) {
  const auto* a = find(attribute, onnx::AttributeProto_AttributeType_FLOAT, "float");
  return a != nullptr ? a->f() : otherwise;
}
std::string NodeContext::text(std::string_view attribute, const std::string& otherwise) {
  const auto* a = find(attribute, onnx::AttributeProto_AttributeType_STRING, "string");
  return a != nullptr ? a->s() : otherwise;
}
Ints NodeContext::integers(std::string_view attribute) {
  const auto* a = find(attribute, onnx::AttributeProto_AttributeType_INTS, "list of integers");
  return a != nullptr ? Ints(a->ints().begin(), a->ints().end()) : Ints();
}
std::vector<float> NodeContext::reals(std::string_view attribute) {
  const auto* a = find(attribute, onnx::AttributeProto_AttributeType_FLOATS, "list of floats");
  return a != nullptr ? std::vector<float>(a->floats().begin(), a->floats().end())
                      : std::vector<float>();
}
const onnx::TensorProto* NodeContext::tensor(std::string_view attribute) {
  const auto* a = find(attribute, onnx::AttributeProto_AttributeType_TENSOR, "tensor");
  return a != nullptr ? &a->t() : nullptr;
}

std::int64_t NodeContext::normalized(std::int64_t axis, std::optional<int> rank) {
  if (!rank) return axis;
  const auto n = normalize_axis(axis, *rank);
  if (!n)
    fail(invalid_model("axis " + std::to_string(axis) + " is outside a tensor of rank " +
                       std::to_string(*rank)));
  return n.value_or(0);
}
void NodeContext::normalize(Ints& axes, std::optional<int> rank) {
  for (auto& a : axes) a = normalized(a, rank);
}
std::int64_t NodeContext::axis(std::string_view attribute, std::int64_t otherwise, ValueId of) {
  return normalized(integer(attribute, otherwise), rank(of));
}

// ----------------------------------------------------------------------------------------------
// constants

std::optional<Ints> NodeContext::known_ints(ValueId v) {
  if (v == kNoValue) return std::nullopt;
  if (graph().is_constant(v)) return constant_ints(graph().value(v));
  const ops::KnownInts* k = b_.propagated(v);
  if (k == nullptr || !k->all_known()) return std::nullopt;
  Ints out;
  for (Dim d : k->values) out.push_back(d.value());
  return out;
}

std::optional<std::vector<double>> NodeContext::known_reals(ValueId v) {
  if (!graph().is_constant(v)) return std::nullopt;
  const graph::Value& c = graph().value(v);
  std::vector<double> out;
  switch (c.type.dtype) {
    case DType::f32:
      widen_reals<float>(*c.constant, out, [](float x) { return double{x}; });
      return out;
    case DType::f64:
      widen_reals<double>(*c.constant, out, [](double x) { return x; });
      return out;
    case DType::f16:
      widen_reals<std::uint16_t>(*c.constant, out,
                                 [](std::uint16_t x) { return double{half_to_float(x)}; });
      return out;
    case DType::bf16:
      widen_reals<std::uint16_t>(*c.constant, out,
                                 [](std::uint16_t x) { return double{bfloat_to_float(x)}; });
      return out;
    default:
      break;
  }
  const auto whole = constant_ints(c);
  if (!whole) return std::nullopt;
  return std::vector<double>(whole->begin(), whole->end());
}

bool NodeContext::empty_constant(ValueId v) const {
  return b_.graph.is_constant(v) && b_.graph.value(v).constant->size() == 0;
}

std::string NodeContext::stem(const std::string& suffix) const {
  const std::string first = output_name(0);
  return (first.empty() ? name_ : first) + "/" + suffix;
}
ValueId NodeContext::ints(const Ints& values, const std::string& suffix) {
  return graph().add_constant<std::int64_t>(
      b_.fresh_value_name(stem(suffix)), Shape{static_cast<std::int64_t>(values.size())}, values);
}
ValueId NodeContext::int_scalar(std::int64_t value, const std::string& suffix) {
  return graph().add_constant<std::int64_t>(b_.fresh_value_name(stem(suffix)), Shape(),
                                            std::span<const std::int64_t>(&value, 1));
}
ValueId NodeContext::floats(const std::vector<float>& values, const Shape& shape,
                            const std::string& suffix) {
  return graph().add_constant<float>(b_.fresh_value_name(stem(suffix)), shape, values);
}
ValueId NodeContext::scalar_like(ValueId like, double value, const std::string& suffix) {
  return b_.add_constant(b_.fresh_value_name(stem(suffix)),
                         scalar_data(dtype(like).value_or(DType::f32), value));
}
ValueId NodeContext::as_s64(ValueId v, const std::string& suffix) {
  const auto d = dtype(v);
  if (v == kNoValue || !d || *d == DType::s64) return v;
  if (graph().is_constant(v)) {
    const auto values = known_ints(v);
    if (!values) {
      fail(invalid_model("input '" + graph().value(v).name + "' must hold integers"));
      return v;
    }
    return graph().add_constant<std::int64_t>(b_.fresh_value_name(stem(suffix)),
                                              graph().type(v).shape, *values);
  }
  return emit(graph::Cast{DType::s64}, {v}, suffix);
}
ValueId NodeContext::ints_operand(int input, std::string_view attribute) {
  if (in(input) != kNoValue) return as_s64(in(input), std::string(attribute));
  return has(attribute) ? ints(integers(attribute), std::string(attribute)) : kNoValue;
}

// ----------------------------------------------------------------------------------------------
// building

ValueId NodeContext::value(const std::string& suffix) {
  return graph().add_untyped_value(b_.fresh_value_name(stem(suffix)));
}
ValueId NodeContext::typed_value(const std::string& suffix, TensorType type) {
  return graph().add_value(b_.fresh_value_name(stem(suffix)), std::move(type));
}
ValueId NodeContext::emit(graph::Op op, std::vector<ValueId> inputs, const std::string& suffix) {
  const ValueId v = value(suffix);
  emit_into(std::move(op), std::move(inputs), {v}, suffix);
  return v;
}
void NodeContext::emit_into(graph::Op op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                            const std::string& suffix) {
  if (failed()) return;
  made_.insert(outputs.begin(), outputs.end());
  while (!inputs.empty() && inputs.back() == kNoValue) inputs.pop_back();
  std::string node_name = name_;
  if (!suffix.empty()) node_name = b_.fresh_node_name("", name_ + "/" + suffix);
  if (auto s = b_.add_node(std::move(op), node_name, std::move(inputs), std::move(outputs));
      !s.ok())
    fail(s.error());
}
ValueId NodeContext::out(int o) {
  ValueId& v = outs_[static_cast<std::size_t>(o)];
  if (v == kNoValue && !output_name(o).empty()) v = graph().add_untyped_value(output_name(o));
  return v;
}
void NodeContext::decide_type(int o, TensorType type) {
  const ValueId v = out(o);
  if (v == kNoValue) return;
  graph().value(v).type = std::move(type);
  graph().value(v).has_type = true;
}
Status NodeContext::finish(graph::Op op, std::vector<ValueId> inputs, int keep) {
  std::vector<ValueId> results;
  for (int o = 0; o < outputs(); ++o)
    results.push_back((o < keep || wanted(o)) && !made_.contains(out(o)) ? out(o) : kNoValue);
  while (results.size() > 1 && results.back() == kNoValue) results.pop_back();
  if (!results.empty() && results[0] == kNoValue)  // the main result is not named, another is read
    results[0] = value("unused");
  emit_into(std::move(op), std::move(inputs), std::move(results), "");
  return done();
}
Status NodeContext::done() {
  if (error_) return *error_;
  for (int o = 0; o < outputs(); ++o)
    if (outs_[static_cast<std::size_t>(o)] != kNoValue)
      b_.bind(output_name(o), outs_[static_cast<std::size_t>(o)]);
  for (const auto& a : node_.attribute())
    if (!read_.contains(a.name()) && a.name() != "consumed_inputs")
      note("attribute '" + a.name() + "' is ignored");
  return ok_status();
}

void NodeContext::note(const std::string& message) { b_.notes.push_back({name_, message}); }
void NodeContext::fail(Error e) {
  if (!error_) error_ = in_context("node '" + name_ + "' (" + node_.op_type() + ")", std::move(e));
}
Status NodeContext::refuse(const std::string& why) {
  fail(unsupported(why));
  return *error_;
}
Status NodeContext::reject(const std::string& why) {
  fail(invalid_model(why));
  return *error_;
}

}  // namespace fold8::onnx_io
