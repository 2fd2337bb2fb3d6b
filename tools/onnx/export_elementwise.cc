// Elementwise operators, activations, casts, quantizers.
#include <cmath>

#include "tools/onnx/export_writer.h"
#include "tools/onnx/tensor.h"

namespace fold8::onnx_io {
namespace {

using graph::BinaryKind;
using graph::UnaryKind;

// ONNX operators without attributes; null: written otherwise.
const char* plain_name(UnaryKind k) {
  switch (k) {
    case UnaryKind::relu:
      return "Relu";
    case UnaryKind::sigmoid:
      return "Sigmoid";
    case UnaryKind::tanh:
      return "Tanh";
    case UnaryKind::abs:
      return "Abs";
    case UnaryKind::neg:
      return "Neg";
    case UnaryKind::sqrt:
      return "Sqrt";
    case UnaryKind::exp:
      return "Exp";
    case UnaryKind::log:
      return "Log";
    case UnaryKind::reciprocal:
      return "Reciprocal";
    case UnaryKind::floor:
      return "Floor";
    case UnaryKind::ceil:
      return "Ceil";
    case UnaryKind::round:
      return "Round";
    case UnaryKind::sign:
      return "Sign";
    case UnaryKind::erf:
      return "Erf";
    case UnaryKind::sin:
      return "Sin";
    case UnaryKind::cos:
      return "Cos";
    case UnaryKind::tan:
      return "Tan";
    case UnaryKind::asin:
      return "Asin";
    case UnaryKind::acos:
      return "Acos";
    case UnaryKind::atan:
      return "Atan";
    case UnaryKind::sinh:
      return "Sinh";
    case UnaryKind::cosh:
      return "Cosh";
    case UnaryKind::asinh:
      return "Asinh";
    case UnaryKind::acosh:
      return "Acosh";
    case UnaryKind::atanh:
      return "Atanh";
    case UnaryKind::softplus:
      return "Softplus";
    case UnaryKind::softsign:
      return "Softsign";
    case UnaryKind::mish:
      return "Mish";
    case UnaryKind::logical_not:
      return "Not";
    case UnaryKind::is_nan:
      return "IsNaN";
    case UnaryKind::bitwise_not:
      return "BitwiseNot";
    default:
      return nullptr;
  }
}

const char* binary_name(BinaryKind k) {
  switch (k) {
    case BinaryKind::add:
      return "Add";
    case BinaryKind::sub:
      return "Sub";
    case BinaryKind::mul:
      return "Mul";
    case BinaryKind::div:
      return "Div";
    case BinaryKind::pow:
      return "Pow";
    case BinaryKind::min:
      return "Min";
    case BinaryKind::max:
      return "Max";
    case BinaryKind::mod:
    case BinaryKind::fmod:
      return "Mod";
    case BinaryKind::prelu:
      return "PRelu";
    case BinaryKind::equal:
      return "Equal";
    case BinaryKind::less:
      return "Less";
    case BinaryKind::less_equal:
      return "LessOrEqual";
    case BinaryKind::greater:
      return "Greater";
    case BinaryKind::greater_equal:
      return "GreaterOrEqual";
    case BinaryKind::logical_and:
      return "And";
    case BinaryKind::logical_or:
      return "Or";
    case BinaryKind::logical_xor:
      return "Xor";
    case BinaryKind::bit_and:
      return "BitwiseAnd";
    case BinaryKind::bit_or:
      return "BitwiseOr";
    case BinaryKind::bit_xor:
      return "BitwiseXor";
    case BinaryKind::shift_left:
    case BinaryKind::shift_right:
      return "BitShift";
  }
  return "";
}

Status write_silu(Writer& w, float a, DType dtype, const std::string& x, const std::string& y) {
  const std::string scaled = a == 1 ? x : w.emit("Mul", {x, w.scalar(dtype, a)}, "scaled");
  w.add("Mul", {x, w.emit("Sigmoid", {scaled}, "sigmoid")}, {y});
  return ok_status();
}

Status write_hard_swish(Writer& w, float a, float b, const std::string& x, const std::string& y) {
  if (a == 1.0f / 6.0f && b == 0.5f) {
    w.add("HardSwish", {x}, {y});
    return ok_status();
  }
  const std::string gate = w.fresh(w.current + "/gate");
  w.add("HardSigmoid", {x}, {gate}).set("alpha", a).set("beta", b);
  w.add("Mul", {x, gate}, {y});
  return ok_status();
}

Status write(NodeWriter& n, const graph::Binary& op) {
  const std::string y =
      op.activation == Activation::none ? n.y[0] : n.w.fresh(n.n.name + "/before_activation");
  NodeRef node = n.w.add(binary_name(op.kind), {n.real(0), n.real(1)}, {y});
  if (op.kind == BinaryKind::fmod) node.set("fmod", std::int64_t{1});
  if (op.kind == BinaryKind::shift_left) node.set("direction", std::string("LEFT"));
  if (op.kind == BinaryKind::shift_right) node.set("direction", std::string("RIGHT"));
  return op.activation == Activation::none ? ok_status()
                                           : n.activate(op.activation, op.a, op.b, y, n.y[0]);
}

// Mul and Add with [C, 1, ..] operands.
Status write(NodeWriter& n, const graph::Affine& op) {
  const auto rank = n.type(0).shape.rank();
  const auto spread = [&](std::size_t i) {
    const std::string v = n.real(i);
    if (op.axis == rank - 1) return v;
    graph::Ints shape{-1};
    for (auto a = op.axis + 1; a < rank; ++a) shape.push_back(1);
    return n.w.emit("Reshape", {v, n.w.ints(shape)}, "spread");
  };
  const std::string scaled = n.w.emit("Mul", {n.real(0), spread(1)}, "scaled");
  const std::string y =
      op.activation == Activation::none ? n.y[0] : n.w.fresh(n.n.name + "/before_activation");
  n.w.add("Add", {scaled, spread(2)}, {y});
  return op.activation == Activation::none ? ok_status()
                                           : n.activate(op.activation, op.a, op.b, y, n.y[0]);
}

Status write(NodeWriter& n, const graph::Quantize& op) {
  const graph::Value& y = n.w.graph().value(n.n.outputs[0]);
  if (!n.has(1))
    return y.type.quant ? n.w.quantize(n.raw(0), y.type, y.name)
                        : Status(n.refuse("it has no scale"));
  NodeRef node = n.w.add("QuantizeLinear", {n.raw(0), n.raw(1), n.raw(2)}, {y.name});
  node.set("axis", op.axis);
  if (op.block_size > 0) node.set("block_size", op.block_size);
  if (!n.has(2) && y.type.dtype != DType::u8)
    node.set("output_dtype", std::int64_t{dtype_to_onnx(y.type.dtype)});
  return ok_status();
}

Status write(NodeWriter& n, const graph::Dequantize& op) {
  if (!n.has(1))
    return n.type(0).quant ? n.w.dequantize(n.raw(0), n.type(0), n.y[0])
                           : Status(n.refuse("its input has no scale"));
  NodeRef node = n.w.add("DequantizeLinear", {n.raw(0), n.raw(1), n.raw(2)}, {n.y[0]});
  node.set("axis", op.axis);
  if (op.block_size > 0) node.set("block_size", op.block_size);
  return ok_status();
}

}  // namespace

Status write_unary(NodeWriter& n, UnaryKind kind, float a, float b, DType dtype,
                   const std::string& x, const std::string& y) {
  Writer& w = n.w;
  if (const char* op = plain_name(kind)) {
    w.add(op, {x}, {y});
    return ok_status();
  }
  switch (kind) {
    case UnaryKind::clip:
      w.add("Clip",
            {x, std::isinf(a) ? "" : w.scalar(dtype, a), std::isinf(b) ? "" : w.scalar(dtype, b)},
            {y});
      return ok_status();
    case UnaryKind::leaky_relu:
      w.add("LeakyRelu", {x}, {y}).set("alpha", a);
      return ok_status();
    case UnaryKind::elu:
      w.add("Elu", {x}, {y}).set("alpha", a);
      return ok_status();
    case UnaryKind::celu:
      w.add("Celu", {x}, {y}).set("alpha", a);
      return ok_status();
    case UnaryKind::thresholded_relu:
      w.add("ThresholdedRelu", {x}, {y}).set("alpha", a);
      return ok_status();
    case UnaryKind::hard_sigmoid:
      w.add("HardSigmoid", {x}, {y}).set("alpha", a).set("beta", b);
      return ok_status();
    case UnaryKind::selu:
      w.add("Selu", {x}, {y}).set("alpha", a).set("gamma", b);
      return ok_status();
    case UnaryKind::shrink:
      w.add("Shrink", {x}, {y}).set("lambd", a).set("bias", b);
      return ok_status();
    case UnaryKind::is_inf:
      w.add("IsInf", {x}, {y})
          .set("detect_negative", std::int64_t{a != 0})
          .set("detect_positive", std::int64_t{b != 0});
      return ok_status();
    case UnaryKind::gelu_erf:
      w.add("Gelu", {x}, {y});
      return ok_status();
    case UnaryKind::gelu_tanh:
      w.add("Gelu", {x}, {y}).set("approximate", std::string("tanh"));
      return ok_status();
    case UnaryKind::square:
      w.add("Mul", {x, x}, {y});
      return ok_status();
    case UnaryKind::silu:
      return write_silu(w, a, dtype, x, y);
    case UnaryKind::hard_swish:
      return write_hard_swish(w, a, b, x, y);
    default:
      return n.refuse("the function has no ONNX operator");
  }
}

Status NodeWriter::activate(Activation kind, float a, float b, const std::string& x,
                            const std::string& to) {
  static constexpr UnaryKind kKinds[] = {
      UnaryKind::relu,       UnaryKind::clip,      UnaryKind::leaky_relu, UnaryKind::hard_sigmoid,
      UnaryKind::hard_swish, UnaryKind::sigmoid,   UnaryKind::silu,       UnaryKind::tanh,
      UnaryKind::gelu_erf,   UnaryKind::gelu_tanh, UnaryKind::elu};
  const auto i = static_cast<std::size_t>(kind);
  if (kind == Activation::none || i >= std::size(kKinds))
    return refuse("its activation is unknown");
  if (kind == Activation::clip && a == 0 && std::isinf(b))
    return write_unary(*this, UnaryKind::relu, 0, 0, DType::f32, x, to);
  return write_unary(*this, kKinds[i], a, b, DType::f32, x, to);
}

Status write_elementwise(NodeWriter& n, const graph::Op& op, bool& known) {
  known = true;
  if (const auto* o = std::get_if<graph::Unary>(&op))
    return write_unary(n, o->kind, o->a, o->b,
                       n.type(0).dtype == DType::f64 || n.type(0).dtype == DType::f16
                           ? n.type(0).dtype
                           : DType::f32,
                       n.real(0), n.y[0]);
  if (const auto* o = std::get_if<graph::Binary>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::Affine>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::Quantize>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::Dequantize>(&op)) return write(n, *o);
  if (std::holds_alternative<graph::Where>(op))
    n.w.add("Where", {n.raw(0), n.real(1), n.real(2)}, {n.y[0]});
  else if (std::holds_alternative<graph::Identity>(op))
    n.w.add("Identity", {n.real(0)}, {n.y[0]});
  else if (const auto* cast = std::get_if<graph::Cast>(&op))
    n.w.add("Cast", {n.raw(0)}, {n.y[0]}).set("to", std::int64_t{dtype_to_onnx(cast->to)});
  else if (const auto* d = std::get_if<graph::DynamicQuantize>(&op); d != nullptr && d->onnx)
    n.w.add("DynamicQuantizeLinear", {n.raw(0)}, n.y);
  else
    known = false;
  return ok_status();
}

}  // namespace fold8::onnx_io
