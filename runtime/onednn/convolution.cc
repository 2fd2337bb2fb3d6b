#include <algorithm>

#include "runtime/onednn/parts.h"

namespace fold8::onednn {
namespace {

using dnnl::algorithm;
using dnnl::prop_kind;
using DataType = dnnl::memory::data_type;

struct Geometry {
  Dims strides, dilations, begin, end;
};

std::optional<Geometry> geometry_of(const graph::Conv& op, const ops::PrepareContext& c) {
  const auto axes = static_cast<std::size_t>(c.type(0).shape.rank() - 2);
  if (op.auto_pad != graph::AutoPad::none) return std::nullopt;  // resolved per shape: rare
  Geometry g;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t x = c.type(0).shape.extent(static_cast<int>(i) + 2),
                       y = c.out(0).shape.extent(static_cast<int>(i) + 2);
    const std::int64_t kernel = c.type(1).shape.extent(static_cast<int>(i) + 2);
    const std::int64_t stride = op.strides.empty() ? 1 : op.strides[i],
                       dilation = op.dilations.empty() ? 1 : op.dilations[i];
    const std::int64_t begin = op.pads.empty() ? 0 : op.pads[i], span = (kernel - 1) * dilation + 1;
    g.strides.push_back(stride);
    g.dilations.push_back(dilation - 1);
    g.begin.push_back(begin);
    // What is padded at the end follows from the extents (this also covers output_padding and
    // output_shape).
    g.end.push_back(op.transposed ? (x - 1) * stride + span - begin - y
                                  : (y - 1) * stride + span - begin - x);
    if (begin < 0 || (!op.transposed && g.end.back() < -stride)) return std::nullopt;
  }
  return g;
}

// oneDNN spells groups as a leading axis, and transposed weights [groups, out, in, ..].
MemoryDesc weight_desc(const graph::Conv& op, const Shape& w, DataType type, bool any) {
  Dims dims = dims_of(w);
  if (op.group > 1) {
    dims[0] /= op.group;
    dims.insert(dims.begin(), op.group);
  }
  Dims strides = plain_strides(dims);
  if (op.transposed) {
    const std::size_t at = op.group > 1 ? 1 : 0;
    std::swap(dims[at], dims[at + 1]);
    std::swap(strides[at], strides[at + 1]);
  }
  return any ? MemoryDesc(dims, type, dnnl::memory::format_tag::any)
             : MemoryDesc(dims, type, strides);
}

struct Layer {
  const Library& library;
  const graph::Conv& op;
  const ops::PrepareContext& c;
  Geometry geometry;
  MemoryDesc x, y, bias;
  dnnl::primitive_attr attr;
  const void* weight = nullptr;     // plain
  const void* bias_data = nullptr;  // constant; else operand 2 is read
  DataType weight_type = DataType::f32;
  const Int8Params* int8 = nullptr;
};

template <class Primitive>
StepPtr finish(const Layer& l, algorithm kind) {
  const Shape& w = l.c.type(1).shape;
  const auto pd = describe<Primitive>(l.library.engine, l.attr, prop_kind::forward_inference, kind,
                                      l.x, weight_desc(l.op, w, l.weight_type, true), l.bias, l.y,
                                      l.geometry.strides, l.geometry.dilations, l.geometry.begin,
                                      l.geometry.end);
  if (!pd) return nullptr;
  const double macs =
      static_cast<double>(l.op.transposed ? l.c.type(0).shape.count() : l.c.out(0).shape.count()) *
      static_cast<double>(w.count()) / static_cast<double>(w.extent(0));
  auto step =
      std::make_unique<PrimitiveStep>(l.library, Primitive(*pd), pd->scratchpad_desc(), macs);
  step->bind_input(DNNL_ARG_SRC, l.x, 0);
  step->bind_output(DNNL_ARG_DST, l.y);
  step->bind_constant(DNNL_ARG_WEIGHTS,
                      reordered(l.library, weight_desc(l.op, w, l.weight_type, false), l.weight,
                                pd->weights_desc()));
  if (l.bias_data != nullptr)
    step->bind_constant(DNNL_ARG_BIAS, reordered(l.library, l.bias, l.bias_data, l.bias));
  else if (l.c.has(2))
    step->bind_input(DNNL_ARG_BIAS, l.bias, 2);
  if (l.int8 != nullptr) bind_int8(l.library, *step, *l.int8);
  if (l.c.has(3)) step->bind_input(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, l.y, 3);
  return step;
}

// Transposed with a stride: fold8's own kernels are 4 to 30 times faster than oneDNN's
// deconvolution, since they take the outputs that share their taps together.
bool strided_transposed(const graph::Conv& op) {
  return op.transposed &&
         std::any_of(op.strides.begin(), op.strides.end(), [](std::int64_t s) { return s != 1; });
}

}  // namespace

StepPtr make_convolution(const Library& library, const graph::Conv& op,
                         const ops::PrepareContext& c) {
  const TensorType &x = c.type(0), &w = c.type(1), &y = c.out(0);
  const auto geometry = geometry_of(op, c);
  const auto x_desc = activation_desc(x), y_desc = activation_desc(y);
  if (!geometry || !x_desc || !y_desc || y.shape.count() == 0 || x.shape.count() == 0 ||
      strided_transposed(op))
    return nullptr;
  Layer l{library, op, c, *geometry, *x_desc, *y_desc, {}, {}};
  const auto channels = static_cast<std::size_t>(y.shape.extent(1));
  dnnl::post_ops post;
  if (x.dtype == DType::f32) {
    const auto weight = plain_f32_weight(op, w, c.inputs[1].constant);
    if (!weight || y.dtype != DType::f32) return nullptr;
    if (c.has(3)) {
      if (c.type(3).dtype != DType::f32 || c.type(3).layout != y.layout) return nullptr;
      post.append_binary(algorithm::binary_add, l.y);
    }
    if (!append_activation(post, op.activation, op.a, op.b)) return nullptr;
    l.attr.set_post_ops(post);
    l.weight = weight->data();
    if (c.has(2))
      l.bias = MemoryDesc({static_cast<std::int64_t>(channels)}, DataType::f32, Dims{1});
    if (op.transposed)
      return finish<dnnl::deconvolution_forward>(l, algorithm::deconvolution_direct);
    return finish<dnnl::convolution_forward>(l, algorithm::convolution_direct);
  }
  if (!library.exact_int8 || op.transposed || c.has(3)) return nullptr;
  const auto params = int8_params(c, 0, channels);
  const auto weight = plain_s8_weight(op, w, c.inputs[1].constant);
  if (!params || !weight || !append_activation(post, op.activation, op.a, op.b, params->y_scale))
    return nullptr;
  set_int8(l.attr, *params, op.group > 1 ? 3 : 1);
  l.int8 = &*params;
  l.attr.set_post_ops(post);
  l.weight = weight->data();
  l.weight_type = DataType::s8;
  if (c.has(2)) {
    l.bias = MemoryDesc({static_cast<std::int64_t>(channels)}, DataType::f32, Dims{1});
    l.bias_data = params->bias.data();
  }
  return finish<dnnl::convolution_forward>(l, algorithm::convolution_direct);
}

}  // namespace fold8::onednn
