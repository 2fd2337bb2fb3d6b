#include "runtime/ops/plain_weight.h"

#include "runtime/kernels/conv_u8s8.h"
#include "runtime/kernels/pack_f32.h"
#include "runtime/ops/conv_geometry.h"

namespace fold8::ops {
namespace {

// Where w[n][k] lies among panels of f32 weights.
std::size_t panel_index(std::size_t n, std::size_t k, std::size_t depth) {
  return (n / kernels::kPanelF32 * depth + k) * kernels::kPanelF32 + n % kernels::kPanelF32;
}

std::vector<float> plain_linear(const Shape& shape, const float* from) {
  const int r = shape.rank();
  const auto batch = static_cast<std::size_t>(shape.count(0, r - 2)),
             n = static_cast<std::size_t>(shape.extent(r - 2)),
             depth = static_cast<std::size_t>(shape.extent(r - 1));
  const std::size_t one = kernels::packed_f32_size(n, depth);
  std::vector<float> to(batch * n * depth);
  for (std::size_t b = 0; b < batch; ++b)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < depth; ++k)
        to[(b * n + i) * depth + k] = from[b * one + panel_index(i, k, depth)];
  return to;
}

std::vector<float> plain_conv(const kernels::ConvShape& s, bool depthwise, const float* from) {
  const auto taps = static_cast<std::size_t>(kernels::conv_taps(s)),
             groups = static_cast<std::size_t>(s.groups);
  const auto n = static_cast<std::size_t>(s.out_channels) / groups,
             c = static_cast<std::size_t>(s.in_channels) / groups;
  std::vector<float> to(groups * n * c * taps);
  const kernels::ConvWeights at = s.transposed
                                      ? kernels::conv_transpose_weights(nullptr, n, c, taps, groups)
                                      : kernels::conv_weights(nullptr, n, c, taps, groups);
  const std::size_t channels = round_up(groups, kernels::kPanelF32),
                    one = kernels::packed_f32_size(n, c * taps);
  for (std::size_t g = 0; g < groups; ++g)
    for (std::size_t o = 0; o < n; ++o)
      for (std::size_t i = 0; i < c; ++i)
        for (std::size_t t = 0; t < taps; ++t)
          to[g * at.group_stride + o * at.out_stride + i * at.in_stride + t] =
              depthwise ? from[t * channels + g]
                        : from[g * one + panel_index(o, t * c + i, c * taps)];
  return to;
}

}  // namespace

Result<std::vector<float>> plain_f32_weight(const graph::Op& op, const TensorType& w,
                                            const void* data) {
  if (w.dtype != DType::f32 || data == nullptr || !w.shape.known())
    return unsupported("a weight of type " + std::string(name(w.dtype)) +
                       " where floats are expected");
  const auto* from = static_cast<const float*>(data);
  if (w.layout == Layout::plain)
    return std::vector<float>(from, from + static_cast<std::size_t>(w.shape.count()));
  if (std::holds_alternative<graph::Linear>(op)) return plain_linear(w.shape, from);
  const auto* conv = std::get_if<graph::Conv>(&op);
  if (conv == nullptr)
    return unsupported("operator '" + std::string(graph::name(op)) + "' has no weights");
  FOLD8_TRY(const kernels::ConvShape s, conv_weight_shape(*conv, w.shape));
  return plain_conv(s, w.layout == Layout::depthwise_f32, from);
}

}  // namespace fold8::ops
