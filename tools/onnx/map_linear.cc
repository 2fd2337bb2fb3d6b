// Gemm, MatMul, Einsum, convolutions.
#include <algorithm>

#include "tools/onnx/op_map.h"

namespace fold8::onnx_io {
namespace {

using graph::Binary;
using graph::BinaryKind;
using graph::Conv;

constexpr int kMaxSpatial = 3;

Status map_matmul(NodeContext& ctx) {
  ctx.need_inputs(2, 2);
  return ctx.finish(graph::MatMul{}, {ctx.in(0), ctx.in(1)});
}

Status map_einsum(NodeContext& ctx) {
  ctx.need_inputs(1, -1);
  return ctx.finish(graph::Einsum{ctx.text("equation")}, ctx.all_inputs());
}

bool constant_f32(NodeContext& ctx, ValueId v) {
  return ctx.graph().is_constant(v) && ctx.graph().type(v).dtype == DType::f32;
}

// alpha * B, as [N, K], in double, rounded once. B itself where there is nothing to do.
ValueId linear_weight(NodeContext& ctx, ValueId b, bool transposed, double alpha) {
  if (transposed && alpha == 1) return b;
  const Shape shape = ctx.graph().type(b).shape;
  const auto from = ctx.graph().constant<float>(b);
  const std::int64_t n = shape.extent(transposed ? 0 : 1), k = shape.extent(transposed ? 1 : 0);
  std::vector<float> to(from.size());
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < k; ++j)
      to[static_cast<std::size_t>(i * k + j)] = static_cast<float>(
          alpha * from[static_cast<std::size_t>(transposed ? i * k + j : j * n + i)]);
  return ctx.floats(to, Shape{n, k}, "weight");
}

// beta * C as [N], if C is a constant row of one or N elements.
std::optional<ValueId> linear_bias(NodeContext& ctx, ValueId c, std::int64_t n, double beta) {
  if (c == kNoValue || beta == 0) return kNoValue;
  if (!constant_f32(ctx, c)) return std::nullopt;
  const Shape& shape = ctx.graph().type(c).shape;
  const auto count = shape.count();
  const bool row = shape.rank() == 0 || shape.back().value() == count;
  if (!row || (count != 1 && count != n)) return std::nullopt;
  if (shape.rank() == 1 && count == n && beta == 1) return c;
  const auto from = ctx.graph().constant<float>(c);
  std::vector<float> to(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<float>(beta * from[count == 1 ? 0 : i]);
  return ctx.floats(to, Shape{n}, "bias");
}

ValueId times(NodeContext& ctx, ValueId v, float factor, const std::string& suffix) {
  if (factor == 1 || v == kNoValue) return v;
  return ctx.emit(Binary{BinaryKind::mul}, {v, ctx.scalar_like(v, factor, suffix + "_factor")},
                  suffix);
}

// y = product + beta * c, in place of a Linear with a bias of its own.
Status finish_sum(NodeContext& ctx, graph::Op product, std::vector<ValueId> operands, ValueId c,
                  float beta) {
  if (c == kNoValue || beta == 0) return ctx.finish(std::move(product), std::move(operands));
  const ValueId p = ctx.emit(std::move(product), std::move(operands), "product");
  return ctx.finish(Binary{BinaryKind::add}, {p, times(ctx, c, beta, "scaled_c")});
}

// Fills kernel, strides, dilations, pads where the file leaves them out.
void complete(NodeContext& ctx, Conv& op, std::size_t spatial) {
  if (op.strides.empty()) op.strides.assign(spatial, 1);
  if (op.dilations.empty()) op.dilations.assign(spatial, 1);
  if (op.pads.empty()) op.pads.assign(2 * spatial, 0);
  const auto positive = [](std::int64_t v) { return v >= 1 && v <= INT32_MAX; };
  if (op.kernel.size() != spatial || op.strides.size() != spatial ||
      op.dilations.size() != spatial || op.pads.size() != 2 * spatial)
    ctx.fail(invalid_model("kernel_shape, strides, dilations and pads do not fit " +
                           std::to_string(spatial) + " spatial axes"));
  else if (!std::all_of(op.kernel.begin(), op.kernel.end(), positive) ||
           !std::all_of(op.strides.begin(), op.strides.end(), positive) ||
           !std::all_of(op.dilations.begin(), op.dilations.end(), positive))
    ctx.fail(invalid_model("kernel_shape, strides and dilations must be at least 1"));
  else if (std::any_of(op.pads.begin(), op.pads.end(),
                       [](std::int64_t p) { return p < 0 || p > INT32_MAX; }))
    ctx.fail(unsupported("negative or huge pads"));
}

// SAME padding, where it does not depend on the size of the input.
void resolve_same(Conv& op) {
  for (std::size_t i = 0; i < op.kernel.size(); ++i) {
    const std::int64_t reach = (op.kernel[i] - 1) * op.dilations[i] + 1;
    if (op.transposed ? reach < op.strides[i] : op.strides[i] != 1) return;
  }
  for (std::size_t i = 0; i < op.kernel.size(); ++i) {
    const std::int64_t extra =
        op.transposed && !op.output_padding.empty() ? op.output_padding[i] : 0;
    const std::int64_t total = (op.kernel[i] - 1) * op.dilations[i] + 1 - op.strides[i] + extra;
    const std::int64_t less = total / 2, more = total - less;
    op.pads[i] = op.auto_pad == graph::AutoPad::same_upper ? less : more;
    op.pads[op.kernel.size() + i] = total - op.pads[i];
  }
  op.auto_pad = graph::AutoPad::none;
}

template <bool transposed>
Status map_conv(NodeContext& ctx) {
  ctx.need_inputs(2, 3);
  const Conv op = conv_attributes(ctx, ctx.in(0), ctx.in(1), transposed);
  return ctx.finish(op, {ctx.in(0), ctx.in(1), ctx.in(2)});
}

constexpr MapEntry kOps[] = {
    {"Conv", map_conv<false>}, {"ConvTranspose", map_conv<true>},
    {"Einsum", map_einsum},    {"Gemm", map_gemm},
    {"MatMul", map_matmul},
};

}  // namespace

std::span<const MapEntry> linear_ops() { return kOps; }

Conv conv_attributes(NodeContext& ctx, ValueId x, ValueId w, bool transposed) {
  Conv op;
  op.transposed = transposed;
  op.kernel = ctx.integers("kernel_shape");
  op.strides = ctx.integers("strides");
  op.dilations = ctx.integers("dilations");
  op.group = ctx.integer("group", 1);
  const std::string auto_pad = ctx.text("auto_pad", "NOTSET");
  if (ctx.has("pads") && (auto_pad == "NOTSET" || auto_pad.empty())) op.pads = ctx.integers("pads");
  if (auto_pad == "SAME_UPPER")
    op.auto_pad = graph::AutoPad::same_upper;
  else if (auto_pad == "SAME_LOWER")
    op.auto_pad = graph::AutoPad::same_lower;
  else if (auto_pad != "NOTSET" && auto_pad != "VALID" && !auto_pad.empty())
    ctx.fail(invalid_model("auto_pad='" + auto_pad + "' is unknown"));
  if (op.kernel.empty())
    if (const TensorType* t = ctx.type(w); t != nullptr && t->shape.rank() > 2)
      for (int i = 2; i < t->shape.rank(); ++i)
        if (t->shape[i].known()) op.kernel.push_back(t->shape.extent(i));
  std::size_t spatial = op.kernel.size();
  if (const auto rank = ctx.rank(x)) {
    if (*rank < 3)
      ctx.fail(invalid_model("the input has rank " + std::to_string(*rank) +
                             ", a convolution needs [N, C, spatial..]"));
    spatial = static_cast<std::size_t>(std::max(*rank - 2, 0));
  }
  if (spatial > kMaxSpatial)
    ctx.fail(
        unsupported(std::to_string(spatial) + " spatial axes; fold8 convolves along one to three"));
  if (op.group < 1 || op.group > INT32_MAX)
    ctx.fail(invalid_model("group is " + std::to_string(op.group)));
  complete(ctx, op, spatial);
  if (transposed) {
    op.output_padding = ctx.integers("output_padding");
    op.output_shape = ctx.integers("output_shape");
    if (op.output_shape.size() == spatial + 2)
      op.output_shape.erase(op.output_shape.begin(), op.output_shape.begin() + 2);
    if (op.output_padding.empty()) op.output_padding.assign(spatial, 0);
    if (op.output_padding.size() != spatial ||
        (!op.output_shape.empty() && op.output_shape.size() != spatial))
      ctx.fail(invalid_model("output_padding or output_shape does not fit the spatial axes"));
  }
  if (!ctx.failed() && op.auto_pad != graph::AutoPad::none && op.output_shape.empty())
    resolve_same(op);
  return op;
}

Status map_gemm(NodeContext& ctx) {
  ctx.need_inputs(2, 3);
  const float alpha = ctx.real("alpha", 1), beta = ctx.real("beta", 1);
  const bool trans_a = ctx.flag("transA"), trans_b = ctx.flag("transB");
  ctx.flag("broadcast", true);  // opset 6: C always broadcasts since
  const ValueId a = ctx.in(0), b = ctx.in(1), c = ctx.in(2);
  for (ValueId v : {a, b})
    if (const auto r = ctx.rank(v); r && *r != 2)
      return ctx.reject("operand '" + ctx.graph().value(v).name + "' has rank " +
                        std::to_string(*r) + ", a Gemm needs matrices");
  const auto a_type = ctx.dtype(a);
  if (!constant_f32(ctx, b) || (a_type && *a_type != DType::f32))
    return finish_sum(ctx, graph::MatMul{alpha, trans_a, trans_b}, {a, b}, c, beta);
  const std::int64_t n = ctx.graph().type(b).shape.extent(trans_b ? 0 : 1);
  const auto bias = linear_bias(ctx, c, n, beta);
  const ValueId weight = linear_weight(ctx, b, trans_b, alpha);
  const ValueId x = trans_a ? ctx.emit(graph::Transpose{{1, 0}}, {a}, "transposed_a") : a;
  if (bias) return ctx.finish(graph::Linear{}, {x, weight, *bias});
  return finish_sum(ctx, graph::Linear{}, {x, weight}, c, beta);
}

}  // namespace fold8::onnx_io
