// Weights back in ONNX order (oneDNN packs them its own way), and the numbers of INT8 layers.
#include <cstring>

#include "runtime/kernels/conv_u8s8.h"
#include "runtime/kernels/pack_f32.h"
#include "runtime/kernels/pack_s8.h"
#include "runtime/onednn/parts.h"
#include "runtime/ops/pack_weights.h"

namespace fold8::onednn {
namespace {

constexpr bool kScaledBias = DNNL_VERSION_MAJOR < 3;  // see Int8Params

// A matrix weight: groups of [n, k] with k = tap * c + channel for convolutions.
struct Matrix {
  std::size_t groups = 1, n = 0, c = 0, taps = 1;
  bool transposed = false;  // ONNX order of ConvTranspose: [groups * c, n, taps]
  std::size_t index(std::size_t g, std::size_t o, std::size_t i, std::size_t t) const {
    return transposed ? ((g * c + i) * n + o) * taps + t : ((g * n + o) * c + i) * taps + t;
  }
};

std::optional<Matrix> matrix_of(const graph::Op& op, const TensorType& w) {
  if (std::get_if<graph::Linear>(&op)) {
    if (w.shape.rank() != 2) return std::nullopt;
    return Matrix{1, static_cast<std::size_t>(w.shape.extent(0)),
                  static_cast<std::size_t>(w.shape.extent(1)), 1, false};
  }
  const auto* conv = std::get_if<graph::Conv>(&op);
  if (conv == nullptr) return std::nullopt;
  const auto s = ops::conv_weight_shape(*conv, w.shape);
  if (!s.ok()) return std::nullopt;
  const auto groups = static_cast<std::size_t>(s->groups);
  return Matrix{groups, static_cast<std::size_t>(s->out_channels) / groups,
                static_cast<std::size_t>(s->in_channels) / groups,
                static_cast<std::size_t>(kernels::conv_taps(*s)), conv->transposed};
}

}  // namespace

std::optional<std::vector<float>> plain_f32_weight(const graph::Op& op, const TensorType& w,
                                                   const void* data) {
  if (w.dtype != DType::f32 || data == nullptr) return std::nullopt;
  const float* from = static_cast<const float*>(data);
  std::vector<float> to(static_cast<std::size_t>(w.shape.count()));
  if (w.layout == Layout::plain) {
    std::copy_n(from, to.size(), to.data());
    return to;
  }
  const auto m = matrix_of(op, w);
  if (!m) return std::nullopt;
  const std::size_t panels = (m->n + kernels::kPanelF32 - 1) / kernels::kPanelF32,
                    k = m->c * m->taps;
  const std::size_t channels = round_up(m->groups, kernels::kPanelF32);
  for (std::size_t g = 0; g < m->groups; ++g)
    for (std::size_t o = 0; o < m->n; ++o)
      for (std::size_t i = 0; i < m->c; ++i)
        for (std::size_t t = 0; t < m->taps; ++t)
          to[m->index(g, o, i, t)] =
              w.layout == Layout::depthwise_f32
                  ? from[t * channels + g]
                  : from[((g * panels + o / kernels::kPanelF32) * k + t * m->c + i) *
                             kernels::kPanelF32 +
                         o % kernels::kPanelF32];
  return to;
}

std::optional<std::vector<std::int8_t>> plain_s8_weight(const graph::Op& op, const TensorType& w,
                                                        const void* data) {
  if (w.dtype != DType::s8 || data == nullptr) return std::nullopt;
  const auto* from = static_cast<const std::int8_t*>(data);
  std::vector<std::int8_t> to(static_cast<std::size_t>(w.shape.count()));
  if (w.layout == Layout::plain) {
    std::copy_n(from, to.size(), to.data());
    return to;
  }
  const auto m = matrix_of(op, w);
  if (!m || m->transposed || w.layout != Layout::packed_s8) return std::nullopt;
  const auto* conv = std::get_if<graph::Conv>(&op);
  if (conv == nullptr) {
    kernels::unpack_s8(from, m->n, m->c, to.data());
    return to;
  }
  const auto s = ops::conv_weight_shape(*conv, w.shape);
  if (!s.ok() || kernels::conv_is_depthwise(*s)) return std::nullopt;
  std::vector<std::int8_t> taps_first(to.size());
  kernels::unpack_conv_s8(*s, from, taps_first.data());
  for (std::size_t g = 0; g < m->groups; ++g)
    for (std::size_t o = 0; o < m->n; ++o)
      for (std::size_t i = 0; i < m->c; ++i)
        for (std::size_t t = 0; t < m->taps; ++t)
          to[m->index(g, o, i, t)] = taps_first[((g * m->n + o) * m->taps + t) * m->c + i];
  return to;
}

Dims dims_of(const Shape& s) {
  Dims d;
  for (int a = 0; a < s.rank(); ++a) d.push_back(s.extent(a));
  return d;
}

Dims plain_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t a = dims.size(); a-- > 1;) strides[a - 1] = strides[a] * dims[a];
  return strides;
}

std::optional<MemoryDesc> activation_desc(const TensorType& t) {
  if (t.layout != Layout::plain && t.layout != Layout::channels_last) return std::nullopt;
  const Dims dims = dims_of(t.shape);
  Dims strides = plain_strides(dims);
  if (t.layout == Layout::channels_last && dims.size() > 2) {
    std::int64_t step = dims[1];
    strides[1] = 1;
    for (std::size_t a = dims.size(); a-- > 2; step *= dims[a]) strides[a] = step;
    strides[0] = step;
  }
  dnnl::memory::data_type type;
  switch (t.dtype) {
    case DType::f32:
      type = dnnl::memory::data_type::f32;
      break;
    case DType::u8:
      type = dnnl::memory::data_type::u8;
      break;
    case DType::s32:
      type = dnnl::memory::data_type::s32;
      break;
    default:
      return std::nullopt;
  }
  return MemoryDesc(dims, type, strides);
}

std::optional<Int8Params> int8_params(const ops::PrepareContext& c, int channel_axis,
                                      std::size_t channels) {
  const TensorType &x = c.type(0), &w = c.type(1), &y = c.out(0);
  if (x.dtype != DType::u8 || w.dtype != DType::s8 || !x.quant || !x.quant->is_per_tensor() ||
      c.has(4))
    return std::nullopt;
  const bool u8 = y.dtype == DType::u8;
  if ((!u8 && y.dtype != DType::f32) || (u8 && (!y.quant || !y.quant->is_per_tensor())))
    return std::nullopt;
  if (!w.quant || w.quant->granularity() == Granularity::per_group || w.quant->has_zero_points())
    return std::nullopt;
  const auto columns = ops::column_params(w, channel_axis, channels);
  if (!columns.ok()) return std::nullopt;
  Int8Params p;
  p.x_zero_point = x.quant->zero_point();
  if (u8) {
    p.y_scale = y.quant->scale();
    p.y_zero_point = y.quant->zero_point();
  }
  const bool has_bias = c.has(2);
  if (has_bias && c.inputs[2].constant == nullptr) return std::nullopt;
  const float* bias = has_bias ? static_cast<const float*>(c.inputs[2].constant) : nullptr;
  for (std::size_t n = 0; n < channels; ++n) {
    const double scale = static_cast<double>(x.quant->scale()) * columns->scales[n];
    p.output_scales.push_back(static_cast<float>(scale / p.y_scale));
    if (has_bias) p.bias.push_back(static_cast<float>(bias[n] / (kScaledBias ? scale : p.y_scale)));
  }
  return p;
}

#if DNNL_VERSION_MAJOR >= 3

void set_int8(dnnl::primitive_attr& attr, const Int8Params& p, int weight_mask) {
  attr.set_scales_mask(DNNL_ARG_WEIGHTS, weight_mask);
  if (p.x_zero_point != 0) attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
  if (p.y_zero_point != 0) attr.set_zero_points_mask(DNNL_ARG_DST, 0);
}

void bind_int8(const Library& library, PrimitiveStep& step, const Int8Params& p) {
  const auto vector_of = [](std::size_t n, dnnl::memory::data_type type) {
    return MemoryDesc({static_cast<std::int64_t>(n)}, type, Dims{1});
  };
  const auto scales = vector_of(p.output_scales.size(), dnnl::memory::data_type::f32);
  step.bind_constant(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS,
                     reordered(library, scales, p.output_scales.data(), scales));
  const auto one = vector_of(1, dnnl::memory::data_type::s32);
  if (p.x_zero_point != 0)
    step.bind_constant(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC,
                       reordered(library, one, &p.x_zero_point, one));
  if (p.y_zero_point != 0)
    step.bind_constant(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST,
                       reordered(library, one, &p.y_zero_point, one));
}

#else

void set_int8(dnnl::primitive_attr& attr, const Int8Params& p, int) {
  attr.set_output_scales(1 << 1, p.output_scales);
  if (p.x_zero_point != 0) attr.set_zero_points(DNNL_ARG_SRC, 0, {p.x_zero_point});
  if (p.y_zero_point != 0) attr.set_zero_points(DNNL_ARG_DST, 0, {p.y_zero_point});
}

void bind_int8(const Library&, PrimitiveStep&, const Int8Params&) {}

#endif

}  // namespace fold8::onednn
