// Linear, MatMul, Conv: with what was fused into them written out behind.
#include "tools/onnx/export_writer.h"

namespace fold8::onnx_io {
namespace {

// [.., N, K] to [.., K, N].
std::string swap_last(NodeWriter& n, const std::string& w, int rank) {
  graph::Ints perm;
  for (int a = 0; a < rank; ++a) perm.push_back(a);
  std::swap(perm[static_cast<std::size_t>(rank - 1)], perm[static_cast<std::size_t>(rank - 2)]);
  const std::string y = n.w.fresh(n.n.name + "/transposed");
  n.w.add("Transpose", {w}, {y}).set("perm", perm);
  return y;
}

// The weight as MatMul wants it; a float constant is written transposed rather than transposed at
// run time.
std::string matmul_weight(NodeWriter& n) {
  const graph::Value& w = n.w.graph().value(n.in(1));
  const int rank = w.type.shape.rank();
  if (!w.is_constant() || rank != 2 || w.type.dtype != DType::f32)
    return swap_last(n, n.real(1), rank);
  const auto rows = static_cast<std::size_t>(w.type.shape.extent(0)),
             cols = static_cast<std::size_t>(w.type.shape.extent(1));
  const auto* from = reinterpret_cast<const float*>(w.constant->data());
  std::vector<float> to(rows * cols);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) to[j * rows + i] = from[i * cols + j];
  return n.w.tensor(DType::f32, Shape{w.type.shape[1], w.type.shape[0]}, to.data(),
                    to.size() * sizeof(float), w.name + "/transposed");
}

// Adds bias (if given) and residual to x, then the activation, into y[0].
Status finish(NodeWriter& n, std::string x, const std::string& bias, const std::string& residual,
              Activation kind, float a, float b) {
  for (const std::string& term : {bias, residual}) {
    if (term.empty()) continue;
    const bool last = kind == Activation::none && (residual.empty() || term == residual);
    const std::string sum = last ? n.y[0] : n.w.fresh(n.n.name + "/sum");
    n.w.add("Add", {x, term}, {sum});
    x = sum;
  }
  return kind == Activation::none ? ok_status() : n.activate(kind, a, b, x, n.y[0]);
}

Status write(NodeWriter& n, const graph::Linear& op) {
  if (n.type(1).layout != Layout::plain) return n.refuse("its weight is packed");
  if (n.has(4)) return n.refuse("its input has a scale per token");
  const std::string bias = n.has(2) ? n.real(2) : "", residual = n.has(3) ? n.real(3) : "";
  const bool gemm = n.type(0).shape.rank() == 2 && n.type(1).shape.rank() == 2;
  const bool bare = op.activation == Activation::none && residual.empty();
  if (gemm) {
    const std::string y = bare ? n.y[0] : n.w.fresh(n.n.name + "/gemm");
    n.w.add("Gemm", {n.real(0), n.real(1), bias}, {y}).set("transB", std::int64_t{1});
    return bare ? ok_status() : finish(n, y, "", residual, op.activation, op.a, op.b);
  }
  const std::string y = bare && bias.empty() ? n.y[0] : n.w.fresh(n.n.name + "/matmul");
  n.w.add("MatMul", {n.real(0), matmul_weight(n)}, {y});
  return bare && bias.empty() ? ok_status()
                              : finish(n, y, bias, residual, op.activation, op.a, op.b);
}

Status write(NodeWriter& n, const graph::MatMul& op) {
  const bool integers =
      !is_floating(n.type(0).dtype) && !is_floating(n.w.graph().type(n.n.outputs[0]).dtype);
  if (integers) {
    if (op.alpha != 1 || op.transpose_a || op.transpose_b)
      return n.refuse("integer products have no factors or transposes in ONNX");
    n.w.add("MatMulInteger", {n.raw(0), n.raw(1), n.raw(2), n.raw(3)}, {n.y[0]});
    return ok_status();
  }
  const std::string a =
      op.transpose_a ? swap_last(n, n.real(0), n.type(0).shape.rank()) : n.real(0);
  const std::string b =
      op.transpose_b ? swap_last(n, n.real(1), n.type(1).shape.rank()) : n.real(1);
  const std::string y = op.alpha == 1 ? n.y[0] : n.w.fresh(n.n.name + "/product");
  n.w.add("MatMul", {a, b}, {y});
  if (op.alpha != 1)
    n.w.add("Mul",
            {y, n.w.scalar(n.type(0).dtype == DType::f64 ? DType::f64 : DType::f32, op.alpha)},
            {n.y[0]});
  return ok_status();
}

// INT32 results: ConvInteger, whose zero points are in the types of the operands here.
Status write(NodeWriter& n, const graph::Conv& op) {
  if (n.type(1).layout != Layout::plain) return n.refuse("its weight is packed");
  if (op.shift != 0) return n.refuse("its codes are shifted behind the activation");
  const bool integers = n.w.graph().type(n.n.outputs[0]).dtype == DType::s32;
  const std::string residual = n.has(3) ? n.real(3) : "";
  const bool bare = op.activation == Activation::none && residual.empty();
  const std::string y = bare ? n.y[0] : n.w.fresh(n.n.name + "/conv");
  Names inputs =
      integers ? Names{n.raw(0), n.raw(1)} : Names{n.real(0), n.real(1), n.has(2) ? n.real(2) : ""};
  if (integers) {
    if (op.transposed || !bare || n.has(2))
      return n.refuse("INT32 results exist for plain convolutions only");
    for (std::size_t i : {0u, 1u}) {
      const QuantParams& q = *n.type(i).quant;
      if (!q.is_per_tensor()) return n.refuse("zero points per channel");
      inputs.push_back(n.w.scalar(n.type(i).dtype, q.zero_point()));
    }
  }
  NodeRef node = n.w.add(integers        ? "ConvInteger"
                         : op.transposed ? "ConvTranspose"
                                         : "Conv",
                         inputs, {y});
  if (!op.kernel.empty()) node.set("kernel_shape", op.kernel);
  if (!op.strides.empty()) node.set("strides", op.strides);
  if (!op.dilations.empty()) node.set("dilations", op.dilations);
  node.set("group", op.group);
  if (op.auto_pad != graph::AutoPad::none)
    node.set("auto_pad",
             std::string(op.auto_pad == graph::AutoPad::same_upper ? "SAME_UPPER" : "SAME_LOWER"));
  else if (!op.pads.empty() && op.output_shape.empty())
    node.set("pads", op.pads);
  if (op.transposed && !op.output_padding.empty()) node.set("output_padding", op.output_padding);
  if (op.transposed && !op.output_shape.empty()) node.set("output_shape", op.output_shape);
  return bare ? ok_status() : finish(n, y, "", residual, op.activation, op.a, op.b);
}

}  // namespace

Status write_linear(NodeWriter& n, const graph::Op& op, bool& known) {
  known = true;
  if (const auto* o = std::get_if<graph::Linear>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::MatMul>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::Conv>(&op)) return write(n, *o);
  if (const auto* o = std::get_if<graph::Einsum>(&op)) {
    Names inputs;
    for (std::size_t i = 0; i < n.count(); ++i) inputs.push_back(n.real(i));
    n.w.add("Einsum", inputs, {n.y[0]}).set("equation", o->equation);
    return ok_status();
  }
  known = false;
  return ok_status();
}

}  // namespace fold8::onnx_io
