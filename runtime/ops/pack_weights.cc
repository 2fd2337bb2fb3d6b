#include "runtime/ops/pack_weights.h"

#include "runtime/kernels/conv_u8s8.h"
#include "runtime/kernels/pack_f32.h"
#include "runtime/kernels/pack_s8.h"
#include "runtime/ops/conv_geometry.h"

namespace fold8::ops {
namespace {

std::int8_t* s8_of(const std::shared_ptr<Buffer>& b) {
  return reinterpret_cast<std::int8_t*>(b->mutable_data());
}

// u8 codes become s8 by subtracting 128 from code and zero point; what they stand for stays.
Result<TensorType> signed_type(const TensorType& w) {
  TensorType t = w;
  t.dtype = DType::s8;
  if (w.dtype == DType::s8) return t;
  if (!w.quant) {
    FOLD8_TRY(t.quant, QuantParams::per_tensor(1.0f, -128));
    return t;
  }
  const QuantParams& q = *w.quant;
  std::vector<float> scales(q.scales().begin(), q.scales().end());
  std::vector<std::int32_t> zeros(scales.size());
  for (std::size_t i = 0; i < zeros.size(); ++i) zeros[i] = q.zero_point(i) - 128;
  switch (q.granularity()) {
    case Granularity::per_tensor: {
      FOLD8_TRY(t.quant, QuantParams::per_tensor(scales[0], zeros[0]));
      break;
    }
    case Granularity::per_channel: {
      FOLD8_TRY(t.quant, QuantParams::per_channel(q.axis(), std::move(scales), std::move(zeros)));
      break;
    }
    case Granularity::per_group: {
      FOLD8_TRY(t.quant,
                QuantParams::per_group(q.axis(), q.group(), std::move(scales), std::move(zeros)));
      break;
    }
    case Granularity::per_token:
      return unsupported("a weight with scales per token");
  }
  return t;
}

// As they lie where they are s8, else copied to `made`.
const std::int8_t* signed_codes(const TensorType& w, const void* data,
                                std::vector<std::int8_t>& made) {
  if (w.dtype == DType::s8) return static_cast<const std::int8_t*>(data);
  const auto* p = static_cast<const std::uint8_t*>(data);
  made.resize(count(w));
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<std::int8_t>(p[i] ^ 0x80);
  return made.data();
}

struct Matrices {
  std::size_t batch = 1, n = 0, k = 0;
};
Matrices matrices_of(const Shape& w) {
  const int r = w.rank();
  return {static_cast<std::size_t>(w.count(0, r - 2)), static_cast<std::size_t>(w.extent(r - 2)),
          static_cast<std::size_t>(w.extent(r - 1))};
}

std::size_t linear_s8_bytes(const Matrices& m, const KBlocks& blocks) {
  std::size_t one = 0;
  for (std::size_t g = 0; g < blocks.count; ++g)
    one += kernels::packed_s8_bytes(m.n, blocks.depth(g));
  return m.batch * one;
}

void pack_linear_s8(const Matrices& m, const KBlocks& blocks, const std::int8_t* w,
                    std::int8_t* to) {
  for (std::size_t b = 0; b < m.batch; ++b) {
    for (std::size_t g = 0; g < blocks.count; ++g) {
      kernels::pack_s8(w + b * m.n * m.k + g * blocks.block, m.k, m.n, blocks.depth(g), to);
      to += kernels::packed_s8_bytes(m.n, blocks.depth(g));
    }
  }
}

// ONNX order to [M, taps, channels of the group].
std::vector<std::int8_t> conv_order(const kernels::ConvShape& s, const std::int8_t* w) {
  const auto taps = static_cast<std::size_t>(kernels::conv_taps(s)),
             groups = static_cast<std::size_t>(s.groups);
  const auto m = static_cast<std::size_t>(s.out_channels) / groups,
             c = static_cast<std::size_t>(s.in_channels) / groups;
  std::vector<std::int8_t> to(groups * m * c * taps);
  for (std::size_t g = 0; g < groups; ++g)
    for (std::size_t o = 0; o < m; ++o)
      for (std::size_t i = 0; i < c; ++i)
        for (std::size_t t = 0; t < taps; ++t) {
          const std::size_t from =
              s.transposed ? ((g * c + i) * m + o) * taps + t : ((g * m + o) * c + i) * taps + t;
          to[((g * m + o) * taps + t) * c + i] = w[from];
        }
  return to;
}

kernels::ConvWeights conv_f32_weights(const kernels::ConvShape& s, const float* w) {
  const auto taps = static_cast<std::size_t>(kernels::conv_taps(s)),
             groups = static_cast<std::size_t>(s.groups);
  const auto n = static_cast<std::size_t>(s.out_channels) / groups,
             c = static_cast<std::size_t>(s.in_channels) / groups;
  return s.transposed ? kernels::conv_transpose_weights(w, n, c, taps, groups)
                      : kernels::conv_weights(w, n, c, taps, groups);
}

std::size_t conv_f32_floats(const kernels::ConvShape& s) {
  const auto taps = static_cast<std::size_t>(kernels::conv_taps(s)),
             groups = static_cast<std::size_t>(s.groups);
  if (kernels::conv_is_depthwise(s))
    return kernels::packed_depthwise_f32_size(static_cast<std::size_t>(s.out_channels), taps);
  return kernels::packed_f32_size(static_cast<std::size_t>(s.out_channels) / groups,
                                  static_cast<std::size_t>(s.in_channels) / groups * taps, groups);
}

Status expect_packable(const TensorType& w, int least_rank) {
  if (w.layout != Layout::plain)
    return internal_error("the weight " + describe(w) + " is packed already");
  if (w.dtype != DType::f32 && !is_quantizable(w.dtype))
    return unsupported("a weight of type " + describe(w));
  if (!w.shape.known() || w.shape.rank() < least_rank || !w.shape.elements())
    return invalid_model("the weight is " + describe(w));
  if (w.shape.count() > (std::int64_t{1} << 40))
    return unsupported("a weight of " + to_string(w.shape));
  return ok_status();
}

Result<PackedWeight> pack_linear(const TensorType& w, const void* data) {
  FOLD8_CHECK_OK(expect_packable(w, 2));
  const Matrices m = matrices_of(w.shape);
  PackedWeight p;
  if (w.dtype == DType::f32) {
    p.type = w;
    p.type.layout = Layout::packed_f32;
    const std::size_t one = kernels::packed_f32_size(m.n, m.k);
    auto b = Buffer::allocate(m.batch * one * sizeof(float));
    for (std::size_t i = 0; i < m.batch; ++i)
      kernels::pack_f32(static_cast<const float*>(data) + i * m.n * m.k, m.n, m.k, 1,
                        reinterpret_cast<float*>(b->mutable_data()) + i * one);
    p.data = std::move(b);
    return p;
  }
  FOLD8_TRY(p.type, signed_type(w));
  p.type.layout = Layout::packed_s8;
  if (m.k >= (std::size_t{1} << 24))
    return unsupported("an INT8 weight with " + std::to_string(m.k) + " inputs");
  const KBlocks blocks = k_blocks(w);
  auto b = Buffer::allocate(linear_s8_bytes(m, blocks));
  std::vector<std::int8_t> made;
  pack_linear_s8(m, blocks, signed_codes(w, data, made), s8_of(b));
  p.data = std::move(b);
  return p;
}

PackedWeight plain_copy(const TensorType& w, const void* data) {
  auto b = Buffer::allocate(bytes(w));
  if (b->size() > 0) std::memcpy(b->mutable_data(), data, b->size());
  return {w, std::move(b)};
}

}  // namespace

Result<PackedWeight> pack_conv_weight(const kernels::ConvShape& s, const TensorType& w,
                                      const void* data) {
  FOLD8_CHECK_OK(expect_packable(w, 3));
  const bool depthwise = kernels::conv_is_depthwise(s);
  PackedWeight p;
  if (w.dtype == DType::f32) {
    p.type = w;
    p.type.layout = depthwise ? Layout::depthwise_f32 : Layout::packed_f32;
    auto b = Buffer::allocate(conv_f32_floats(s) * sizeof(float));
    auto* to = reinterpret_cast<float*>(b->mutable_data());
    const auto* from = static_cast<const float*>(data);
    if (depthwise)
      kernels::pack_depthwise_f32(from, static_cast<std::size_t>(s.out_channels),
                                  static_cast<std::size_t>(kernels::conv_taps(s)), to);
    else
      kernels::pack_conv_f32(conv_f32_weights(s, from), to);
    p.data = std::move(b);
    return p;
  }
  if (w.quant && w.quant->granularity() == Granularity::per_group)
    return unsupported("a convolution weight with scales per group");
  FOLD8_TRY(p.type, signed_type(w));
  p.type.layout = depthwise ? Layout::depthwise_s8 : Layout::packed_s8;
  auto b = Buffer::allocate(kernels::conv_s8_packed_bytes(s));
  std::vector<std::int8_t> made, ordered;
  const std::int8_t* codes = signed_codes(w, data, made);
  if (s.transposed || kernels::conv_taps(s) > 1) {
    ordered = conv_order(s, codes);
    codes = ordered.data();
  }
  kernels::pack_conv_s8(s, codes, s8_of(b));
  p.data = std::move(b);
  return p;
}

KBlocks k_blocks(const TensorType& w) {
  KBlocks b;
  b.k = b.block = static_cast<std::size_t>(w.shape.back().value());
  if (w.quant && w.quant->granularity() == Granularity::per_group && w.quant->group() > 0 &&
      b.k > 0) {
    b.block = static_cast<std::size_t>(w.quant->group());
    b.count = (b.k + b.block - 1) / b.block;
  }
  return b;
}

Status expect_group_scales(const TensorType& w, std::size_t n) {
  if (w.shape.rank() != 2 || w.quant->axis() != 1)
    return unsupported("scales per group of a weight " + describe(w) +
                       ": they lie along the inputs of a matrix");
  const std::size_t want = n * k_blocks(w).count, have = w.quant->scales().size();
  if (have != want)
    return invalid_model("the weight has " + std::to_string(have) + " scales, expected " +
                         std::to_string(want));
  return ok_status();
}

Result<PackedWeight> pack_weight(const graph::Op& op, const TensorType& w, const void* data) {
  if (std::get_if<graph::Linear>(&op)) return pack_linear(w, data);
  if (const auto* conv = std::get_if<graph::Conv>(&op)) {
    FOLD8_CHECK_OK(expect_packable(w, 3));
    if (w.dtype != DType::f32 && packing_depends_on_extents(*conv)) return plain_copy(w, data);
    FOLD8_TRY(const kernels::ConvShape s, conv_weight_shape(*conv, w.shape));
    return pack_conv_weight(s, w, data);
  }
  return internal_error("operator '" + std::string(graph::name(op)) + "' has no weight to pack");
}

Result<std::size_t> weight_bytes(const graph::Op& op, const TensorType& w) {
  if (w.layout == Layout::plain) return bytes(w);
  if (std::get_if<graph::Linear>(&op)) {
    if (w.shape.rank() < 2 || !w.shape.known())
      return invalid_model("the weight is " + describe(w));
    const Matrices m = matrices_of(w.shape);
    if (w.layout == Layout::packed_f32)
      return m.batch * kernels::packed_f32_size(m.n, m.k) * sizeof(float);
    return linear_s8_bytes(m, k_blocks(w));
  }
  const auto* conv = std::get_if<graph::Conv>(&op);
  if (conv == nullptr)
    return internal_error("operator '" + std::string(graph::name(op)) + "' has no packed weight");
  FOLD8_TRY(const kernels::ConvShape s, conv_weight_shape(*conv, w.shape));
  if (w.layout == Layout::packed_f32 || w.layout == Layout::depthwise_f32)
    return conv_f32_floats(s) * sizeof(float);
  return kernels::conv_s8_packed_bytes(s);
}

Result<ColumnParams> column_params(const TensorType& w, int channel_axis, std::size_t columns) {
  static constexpr float kOne = 1.0f;
  ColumnParams p;
  p.scales = {&kOne, 1};
  if (!w.quant) return p;
  const QuantParams& q = *w.quant;
  const bool per_channel = q.granularity() == Granularity::per_channel;
  const std::size_t n = q.scales().size();
  if ((!per_channel && !q.is_per_tensor()) ||
      (per_channel && (q.axis() != channel_axis || n == 0 || columns % n != 0)))
    return unsupported("weight parameters " + to_string(q) +
                       ": scales are per tensor or per output channel (axis " +
                       std::to_string(channel_axis) + ")");
  p.scales = q.scales();
  if (!q.has_zero_points()) return p;
  p.zero_points.resize(columns);
  for (std::size_t i = 0; i < columns; ++i)
    p.zero_points[i] = q.zero_point(per_channel ? i % n : 0);
  return p;
}

bool may_stay_int8(const TensorType& w) {
  if (w.dtype != DType::s8 || w.shape.rank() != 2 || !w.quant) return false;
  if (!w.quant->has_zero_points()) return true;
  for (std::size_t i = 0; i < w.quant->scales().size(); ++i)
    if (w.quant->zero_point(i) != 0) return false;
  return true;
}

Result<std::vector<float>> dequantize_weight(const graph::Op& op, const TensorType& w,
                                             const void* data) {
  if (!std::get_if<graph::Linear>(&op) && w.layout != Layout::plain)
    return unsupported("weight-only INT8 with a packed convolution weight");
  std::vector<std::int8_t> codes(count(w));
  TensorType type = w;
  if (w.layout == Layout::plain) {
    std::vector<std::int8_t> made;
    std::copy_n(signed_codes(w, data, made), codes.size(), codes.begin());
    FOLD8_TRY(type, signed_type(w));
  } else if (w.layout == Layout::packed_s8) {
    const Matrices m = matrices_of(w.shape);
    const KBlocks blocks = k_blocks(w);
    const auto* from = static_cast<const std::int8_t*>(data);
    for (std::size_t b = 0; b < m.batch; ++b)
      for (std::size_t g = 0; g < blocks.count; ++g) {
        std::vector<std::int8_t> part(m.n * blocks.depth(g));
        kernels::unpack_s8(from, m.n, blocks.depth(g), part.data());
        for (std::size_t i = 0; i < m.n; ++i)
          std::copy_n(part.data() + i * blocks.depth(g), blocks.depth(g),
                      codes.data() + (b * m.n + i) * m.k + g * blocks.block);
        from += kernels::packed_s8_bytes(m.n, blocks.depth(g));
      }
  } else {
    return unsupported("weight-only INT8 with a weight of type " + describe(w));
  }
  if (!type.quant) return unsupported("a quantized weight without parameters: " + describe(w));
  const QuantParams& q = *type.quant;
  std::vector<float> y(codes.size());
  std::size_t inner = 1, extent = 1, group = 1;
  if (!q.is_per_tensor()) {
    inner = static_cast<std::size_t>(type.shape.count(q.axis() + 1, type.shape.rank()));
    extent = static_cast<std::size_t>(type.shape.extent(q.axis()));
    if (q.granularity() == Granularity::per_group) group = static_cast<std::size_t>(q.group());
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    std::size_t at = 0;
    if (q.granularity() == Granularity::per_channel)
      at = i / inner % extent;
    else if (q.granularity() == Granularity::per_group)
      at = (i / inner / extent * ((extent + group - 1) / group) + i / inner % extent / group) *
               inner +
           i % inner;
    y[i] = static_cast<float>(codes[i] - q.zero_point(at)) * q.scales()[at];
  }
  return y;
}

}  // namespace fold8::ops
