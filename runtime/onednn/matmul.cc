// Linear layers and products of two activations.
#include "runtime/onednn/parts.h"

namespace fold8::onednn {
namespace {

using DataType = dnnl::memory::data_type;

// [rows, columns], row-major.
MemoryDesc matrix(std::int64_t rows, std::int64_t columns, DataType type) {
  return MemoryDesc({rows, columns}, type, Dims{columns, 1});
}

// Row-major matrices, the last two axes swapped if asked; leading axes of extent 1 broadcast.
MemoryDesc operand(const Shape& s, int rank, bool transposed) {
  Dims dims = dims_of(s);
  dims.insert(dims.begin(), static_cast<std::size_t>(rank - s.rank()), 1);
  Dims strides = plain_strides(dims);
  const std::size_t last = dims.size() - 1;
  if (transposed) {
    std::swap(dims[last], dims[last - 1]);
    std::swap(strides[last], strides[last - 1]);
  }
  return MemoryDesc(dims, DataType::f32, strides);
}

struct Linear {
  MemoryDesc x, w_plain, w_any, bias, y;
  dnnl::primitive_attr attr;
  std::int64_t m = 0, n = 0, k = 0;
  const Int8Params* int8 = nullptr;
};

StepPtr finish(const Library& library, const ops::PrepareContext& c, const Linear& l,
               const void* weight, const void* bias_data) {
  const auto pd = describe<dnnl::matmul>(library.engine, l.attr, l.x, l.w_any, l.bias, l.y);
  if (!pd) return nullptr;
  const double macs =
      static_cast<double>(l.m) * static_cast<double>(l.n) * static_cast<double>(l.k);
  auto step =
      std::make_unique<PrimitiveStep>(library, dnnl::matmul(*pd), pd->scratchpad_desc(), macs);
  step->bind_input(DNNL_ARG_SRC, l.x, 0);
  step->bind_output(DNNL_ARG_DST, l.y);
  step->bind_constant(DNNL_ARG_WEIGHTS, reordered(library, l.w_plain, weight, pd->weights_desc()));
  if (bias_data != nullptr)
    step->bind_constant(DNNL_ARG_BIAS, reordered(library, l.bias, bias_data, l.bias));
  else if (c.has(2))
    step->bind_input(DNNL_ARG_BIAS, l.bias, 2);
  if (l.int8 != nullptr) bind_int8(library, *step, *l.int8);
  if (c.has(3)) step->bind_input(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, l.y, 3);
  return step;
}

}  // namespace

StepPtr make_linear(const Library& library, const graph::Linear& op, const ops::PrepareContext& c) {
  const TensorType &x = c.type(0), &w = c.type(1), &y = c.out(0);
  if (w.shape.rank() != 2 || x.layout != Layout::plain || y.layout != Layout::plain ||
      x.shape.count() == 0 || c.has(4))
    return nullptr;
  Linear l;
  l.n = w.shape.extent(0);
  l.k = w.shape.extent(1);
  l.m = x.shape.count() / l.k;
  const bool f32 = x.dtype == DType::f32;
  if (!f32 && (!library.exact_int8 || c.has(3))) return nullptr;
  const DataType x_type = f32 ? DataType::f32 : DataType::u8,
                 w_type = f32 ? DataType::f32 : DataType::s8;
  l.x = matrix(l.m, l.k, x_type);
  l.w_plain = MemoryDesc({l.k, l.n}, w_type, Dims{1, l.k});
  l.w_any = MemoryDesc({l.k, l.n}, w_type, dnnl::memory::format_tag::any);
  l.y = matrix(l.m, l.n, y.dtype == DType::u8 ? DataType::u8 : DataType::f32);
  if (c.has(2)) l.bias = matrix(1, l.n, DataType::f32);
  dnnl::post_ops post;
  if (f32) {
    const auto weight = plain_f32_weight(op, w, c.inputs[1].constant);
    if (!weight || y.dtype != DType::f32) return nullptr;
    if (c.has(3)) {
      if (c.type(3).dtype != DType::f32 || c.type(3).layout != Layout::plain) return nullptr;
      post.append_binary(dnnl::algorithm::binary_add, l.y);
    }
    if (!append_activation(post, op.activation, op.a, op.b)) return nullptr;
    l.attr.set_post_ops(post);
    return finish(library, c, l, weight->data(), nullptr);
  }
  const auto params = int8_params(c, 0, static_cast<std::size_t>(l.n));
  const auto weight = plain_s8_weight(op, w, c.inputs[1].constant);
  if (!params || !weight || !append_activation(post, op.activation, op.a, op.b, params->y_scale))
    return nullptr;
  set_int8(l.attr, *params, 1 << 1);
  l.int8 = &*params;
  l.attr.set_post_ops(post);
  return finish(library, c, l, weight->data(),
                params->bias.empty() ? nullptr : params->bias.data());
}

StepPtr make_matmul(const Library& library, const graph::MatMul& op, const ops::PrepareContext& c) {
  const TensorType &a = c.type(0), &b = c.type(1), &y = c.out(0);
  for (const TensorType* t : {&a, &b, &y})
    if (t->dtype != DType::f32 || t->layout != Layout::plain || t->shape.rank() < 2 ||
        t->shape.count() == 0)
      return nullptr;
  if (c.has(2) || c.has(3)) return nullptr;
  const int rank = y.shape.rank();
  const MemoryDesc x = operand(a.shape, rank, op.transpose_a),
                   w = operand(b.shape, rank, op.transpose_b), out = operand(y.shape, rank, false);
  dnnl::primitive_attr attr;
  if (op.alpha != 1) {
    dnnl::post_ops post;
    append_eltwise(post, dnnl::algorithm::eltwise_linear, op.alpha, 0);
    attr.set_post_ops(post);
  }
  const auto pd = describe<dnnl::matmul>(library.engine, attr, x, w, out);
  if (!pd) return nullptr;
  const std::int64_t k = a.shape.extent(op.transpose_a ? a.shape.rank() - 2 : a.shape.rank() - 1);
  auto step = std::make_unique<PrimitiveStep>(
      library, dnnl::matmul(*pd), pd->scratchpad_desc(),
      static_cast<double>(y.shape.count()) * static_cast<double>(k));
  step->bind_input(DNNL_ARG_SRC, x, 0);
  step->bind_input(DNNL_ARG_WEIGHTS, w, 1);
  step->bind_output(DNNL_ARG_DST, out);
  return step;
}

}  // namespace fold8::onednn
