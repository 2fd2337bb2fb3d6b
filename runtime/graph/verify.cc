#include "runtime/graph/verify.h"

#include <unordered_map>

#include "runtime/graph/text.h"

namespace fold8::graph {
namespace {

// How many operands an operator takes; max < 0: any number.
struct Arity {
  int min_in, max_in, min_out, max_out;
};

struct ArityOf {
  Arity operator()(const Unary&) const { return {1, 1, 1, 1}; }
  Arity operator()(const Binary&) const { return {2, 2, 1, 1}; }
  Arity operator()(const Where&) const { return {3, 3, 1, 1}; }
  Arity operator()(const Affine&) const { return {3, 3, 1, 1}; }
  Arity operator()(const Linear&) const { return {2, 5, 1, 1}; }
  Arity operator()(const MatMul&) const { return {2, 4, 1, 1}; }
  Arity operator()(const Conv&) const { return {2, 4, 1, 1}; }
  Arity operator()(const Pool&) const { return {1, 1, 1, 2}; }
  Arity operator()(const Resize&) const { return {1, 4, 1, 1}; }
  Arity operator()(const BatchNorm&) const { return {5, 5, 1, 3}; }
  Arity operator()(const Norm&) const { return {1, 7, 1, 4}; }
  Arity operator()(const Reduce&) const { return {1, 2, 1, 1}; }
  Arity operator()(const Attention&) const { return {3, 6, 1, 3}; }
  Arity operator()(const Rotary&) const { return {3, 3, 1, 1}; }
  Arity operator()(const CumSum&) const { return {2, 2, 1, 1}; }
  Arity operator()(const TopK&) const { return {2, 2, 1, 2}; }
  Arity operator()(const Reshape&) const { return {2, 2, 1, 1}; }
  Arity operator()(const Concat&) const { return {1, -1, 1, 1}; }
  Arity operator()(const Split&) const { return {1, 2, 1, -1}; }
  Arity operator()(const Slice&) const { return {3, 5, 1, 1}; }
  Arity operator()(const Pad&) const { return {2, 4, 1, 1}; }
  Arity operator()(const Expand&) const { return {2, 2, 1, 1}; }
  Arity operator()(const Tile&) const { return {2, 2, 1, 1}; }
  Arity operator()(const Gather&) const { return {2, 2, 1, 1}; }
  Arity operator()(const GatherElements&) const { return {2, 2, 1, 1}; }
  Arity operator()(const GatherND&) const { return {2, 2, 1, 1}; }
  Arity operator()(const ScatterElements&) const { return {3, 3, 1, 1}; }
  Arity operator()(const ScatterND&) const { return {3, 3, 1, 1}; }
  Arity operator()(const Trilu&) const { return {1, 2, 1, 1}; }
  Arity operator()(const OneHot&) const { return {3, 3, 1, 1}; }
  Arity operator()(const Range&) const { return {3, 3, 1, 1}; }
  Arity operator()(const Einsum&) const { return {1, -1, 1, 1}; }
  Arity operator()(const Quantize&) const { return {1, 3, 1, 1}; }
  Arity operator()(const Dequantize&) const { return {1, 3, 1, 1}; }
  Arity operator()(const DynamicQuantize&) const { return {1, 2, 1, 3}; }
  Arity operator()(const Lookup&) const { return {2, 2, 1, 1}; }
  Arity operator()(const If&) const { return {1, -1, 1, -1}; }
  Arity operator()(const Loop&) const { return {0, -1, 0, -1}; }
  Arity operator()(const Scan&) const { return {0, -1, 0, -1}; }
  template <class Other>
  Arity operator()(const Other&) const {
    return {1, 1, 1, 1};
  }
};

Arity arity(const Op& op) { return std::visit(ArityOf{}, op); }

Error at_node(const Node& n, const std::string& why) {
  return invalid_model("node '" + n.name + "' (" + display_name(n.op) + "): " + why);
}
Error at_value(const Value& v, const std::string& why) {
  return invalid_model("tensor '" + v.name + "': " + why);
}

bool zero_point_fits(DType d, std::int32_t z) {
  switch (d) {
    case DType::u8:
      return z >= 0 && z <= 255;
    case DType::s8:
      return z >= -128 && z <= 127;
    case DType::u4:
      return z >= 0 && z <= 15;
    case DType::s4:
      return z >= -8 && z <= 7;
    case DType::u16:
      return z >= 0 && z <= 65535;
    case DType::s16:
      return z >= -32768 && z <= 32767;
    default:
      return true;
  }
}

Status verify_quant(const Value& v) {
  const QuantParams& q = *v.type.quant;
  const Shape& s = v.type.shape;
  if (is_floating(v.type.dtype) || v.type.dtype == DType::boolean)
    return at_value(v, "a " + std::string(fold8::name(v.type.dtype)) +
                           " tensor carries quantization parameters");
  for (std::int32_t z : q.zero_points())
    if (!zero_point_fits(v.type.dtype, z))
      return at_value(v, "zero point " + std::to_string(z) + " does not fit " +
                             std::string(fold8::name(v.type.dtype)));
  if (q.granularity() == Granularity::per_channel) {
    if (q.axis() < 0 || q.axis() >= s.rank())
      return at_value(v, "quantization axis " + std::to_string(q.axis()) +
                             " is outside its shape " + to_string(s));
    const Dim d = s[q.axis()];
    // Grouped ConvTranspose weights [C, M/group, ..] have a scale per (group, column): a multiple
    // of the extent.
    const auto scales = static_cast<std::int64_t>(q.scales().size());
    if (d.known() && (d.value() == 0 ? scales != 0 : scales == 0 || scales % d.value() != 0))
      return at_value(v, "has " + std::to_string(q.scales().size()) + " scales for " +
                             std::to_string(d.value()) + " channels");
  }
  return ok_status();
}

Status verify_value(const Value& v) {
  for (Dim d : v.type.shape.dims())
    if (d.known() && d.value() < 0)
      return at_value(v, "negative extent in shape " + to_string(v.type.shape));
  if (v.type.quant) FOLD8_CHECK_OK(verify_quant(v));
  if (!v.is_constant()) return ok_status();
  const auto n = v.type.shape.elements();
  if (!n)
    return at_value(v, "a constant needs a known shape, this one has " + to_string(v.type.shape));
  if (v.type.layout != Layout::plain && v.type.layout != Layout::channels_last)
    return ok_status();  // packed: format checks
  std::size_t bytes;
  if (__builtin_mul_overflow(static_cast<std::size_t>(*n), size_of(v.type.dtype), &bytes) ||
      bytes != v.constant->size())
    return at_value(v, "shape " + to_string(v.type.shape) + " needs " + std::to_string(*n) +
                           " elements of " + std::string(fold8::name(v.type.dtype)) +
                           ", the data has " + std::to_string(v.constant->size()) + " bytes");
  return ok_status();
}

class Verifier {
 public:
  explicit Verifier(const Graph& g)
      : g_(g), defined_(static_cast<std::size_t>(g.value_count()), false) {}

  Status run() {
    FOLD8_CHECK_OK(values());
    for (ValueId v : g_.inputs) FOLD8_CHECK_OK(define_input(v));
    for (NodeId n = 0; n < g_.node_count(); ++n)
      if (!g_.node(n).dead) FOLD8_CHECK_OK(operands(g_.node(n)));
    for (NodeId n = 0; n < g_.node_count(); ++n)
      if (!g_.node(n).dead) FOLD8_CHECK_OK(reads(g_.node(n)));
    for (ValueId v : g_.outputs) {
      if (v < 0 || v >= g_.value_count()) return invalid_model("a graph output does not exist");
      if (!is_defined(v))
        return invalid_model("graph output '" + g_.value(v).name + "' is made by no node");
    }
    const auto order = g_.topological_order();
    if (!order.ok()) return order.error();
    return ok_status();
  }

 private:
  bool is_defined(ValueId v) const {
    return defined_[static_cast<std::size_t>(v)] || g_.value(v).is_constant();
  }

  Status values() {
    std::unordered_map<std::string_view, ValueId> by_name;
    for (ValueId v = 0; v < g_.value_count(); ++v) {
      FOLD8_CHECK_OK(verify_value(g_.value(v)));
      if (!by_name.emplace(g_.value(v).name, v).second)
        return invalid_model("two tensors are named '" + g_.value(v).name + "'");
    }
    return ok_status();
  }

  Status define_input(ValueId v) {
    if (v < 0 || v >= g_.value_count()) return invalid_model("a graph input does not exist");
    if (is_defined(v))
      return invalid_model("graph input '" + g_.value(v).name + "' is defined twice");
    defined_[static_cast<std::size_t>(v)] = true;
    return ok_status();
  }

  Status operands(const Node& n) {
    const Arity a = arity(n.op);
    const int in = static_cast<int>(n.inputs.size()), out = static_cast<int>(n.outputs.size());
    if (in < a.min_in || (a.max_in >= 0 && in > a.max_in))
      return at_node(n, "has " + std::to_string(in) + " inputs, expected " +
                            std::to_string(a.min_in) +
                            (a.max_in == a.min_in ? ""
                             : a.max_in < 0       ? " or more"
                                                  : " to " + std::to_string(a.max_in)));
    if (out < a.min_out || (a.max_out >= 0 && out > a.max_out))
      return at_node(n, "has " + std::to_string(out) + " outputs");
    for (ValueId v : n.outputs) {
      if (v == kNoValue) continue;
      if (v < 0 || v >= g_.value_count()) return at_node(n, "an output does not exist");
      if (is_defined(v))
        return at_node(
            n, "tensor '" + g_.value(v).name + "' is made twice: it is already defined elsewhere");
      defined_[static_cast<std::size_t>(v)] = true;
    }
    return ok_status();
  }

  Status reads(const Node& n) {
    const Arity a = arity(n.op);
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId v = n.inputs[i];
      if (v == kNoValue) {
        if (static_cast<int>(i) < a.min_in && !std::holds_alternative<Loop>(n.op))
          return at_node(n, "input " + std::to_string(i) + " is absent");
        continue;
      }
      if (v < 0 || v >= g_.value_count()) return at_node(n, "an input does not exist");
      if (!is_defined(v))
        return at_node(n,
                       "reads tensor '" + g_.value(v).name + "', which nobody makes (not defined)");
    }
    return quantized_rules(n);
  }

  // What must hold for integer linear layers and for norms.
  Status quantized_rules(const Node& n) {
    const auto type_of = [&](std::size_t i) -> const TensorType* {
      return i < n.inputs.size() && n.inputs[i] != kNoValue && g_.value(n.inputs[i]).has_type
                 ? &g_.type(n.inputs[i])
                 : nullptr;
    };
    if (std::holds_alternative<Linear>(n.op) || std::holds_alternative<Conv>(n.op)) {
      for (std::size_t i : {0u, 1u}) {
        const TensorType* t = type_of(i);
        if (t != nullptr && is_quantizable(t->dtype) && !t->quant)
          return at_node(n, "operand '" + g_.value(n.inputs[i]).name + "' is " +
                                std::string(fold8::name(t->dtype)) +
                                " without scale and zero point");
      }
    }
    if (std::holds_alternative<Norm>(n.op))
      if (const TensorType* t = type_of(0); t != nullptr && t->dtype != DType::f32 &&
                                            t->dtype != DType::s32 && !is_quantizable(t->dtype) &&
                                            !is_floating(t->dtype))
        return at_node(n, "norms read f32, INT32 accumulators or quantized tensors, not " +
                              std::string(fold8::name(t->dtype)));
    return ok_status();
  }

  const Graph& g_;
  std::vector<bool> defined_;
};

}  // namespace

Status verify(const Graph& g) { return Verifier(g).run(); }

}  // namespace fold8::graph
