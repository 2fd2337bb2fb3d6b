#include "runtime/kernels/quantize_ref.h"

#include "runtime/core/rotation.h"
#include "runtime/kernels/quantize.h"

namespace fold8::kernels {
namespace {

// args.scratch = the row behind its factors, rotated.
void rotate_row(const QuantizeRowsArgs& args, const float* x) {
  const std::size_t m = args.cols / kRotatedSegments;
  for (std::size_t j = 0; j < m; ++j) {
    float v[kRotatedSegments];
    for (std::size_t k = 0; k < kRotatedSegments; ++k) {
      const std::size_t at = k * m + j;
      v[k] = args.factors != nullptr ? x[at] * args.factors[at] : x[at];
    }
    rotate_segments(v);
    for (std::size_t k = 0; k < kRotatedSegments; ++k) args.scratch[k * m + j] = v[k];
  }
}

}  // namespace

namespace reference {

void quantize(const QuantizeArgs& args) {
  for (std::size_t i = 0; i < args.outer * args.channels * args.inner; ++i) {
    const std::size_t c = i / args.inner % args.channels;
    const std::int32_t z = args.zero_points != nullptr ? args.zero_points[c] : 0;
    if (args.type == QType::u8)
      static_cast<std::uint8_t*>(args.q)[i] = quantize_u8(args.x[i], args.scales[c], z);
    else
      static_cast<std::int8_t*>(args.q)[i] = quantize_s8(args.x[i], args.scales[c], z);
  }
}

void quantize_relayout(const QuantizeRelayoutArgs& args) {
  for (std::size_t i = args.begin; i < args.end; ++i)
    for (std::size_t c = 0; c < args.channels; ++c) {
      const std::size_t from =
          (i / args.pixels * args.channels + c) * args.pixels + i % args.pixels;
      args.q[i * args.channels + c] = quantize_u8(args.x[from], args.scale, args.zero_point);
    }
}

void dequantize(const DequantizeArgs& args) {
  for (std::size_t i = 0; i < args.outer * args.channels * args.inner; ++i) {
    const std::size_t c = i / args.inner % args.channels;
    const std::int32_t z = args.zero_points != nullptr ? args.zero_points[c] : 0;
    if (args.type == QType::u8)
      args.y[i] =
          kernels::dequantize(static_cast<const std::uint8_t*>(args.q)[i], args.scales[c], z);
    else if (args.type == QType::s8)
      args.y[i] =
          kernels::dequantize(static_cast<const std::int8_t*>(args.q)[i], args.scales[c], z);
    else
      args.y[i] = static_cast<float>(static_cast<const std::int32_t*>(args.q)[i]) * args.scales[c];
  }
}

void quantize_rows(const QuantizeRowsArgs& args) {
  const std::size_t x_stride = args.x_stride != 0 ? args.x_stride : args.cols;
  const std::size_t q_stride = args.q_stride != 0 ? args.q_stride : args.cols;
  for (std::size_t i = 0; i < args.rows; ++i) {
    if (args.rotated) rotate_row(args, args.x + i * x_stride);
    const auto x = [&](std::size_t j) {
      if (args.rotated) return args.scratch[j];
      const float v = args.x[i * x_stride + j];
      return args.factors != nullptr ? v * args.factors[j] : v;
    };
    bool finite = true;
    float largest = 0;
    for (std::size_t j = 0; j < args.cols; ++j) {
      const float m = __builtin_fabsf(x(j));
      finite = finite && m < __builtin_inff();
      largest = m > largest ? m : largest;
    }
    const float s = dynamic_row_scale(finite ? largest : __builtin_inff());
    for (std::size_t j = 0; j < args.cols; ++j) args.q[i * q_stride + j] = quantize_in_row(x(j), s);
    args.scales[i] = s;
  }
}

void map_u8(const MapU8Args& args) {
  for (std::size_t i = 0; i < args.n; ++i) args.y[i] = args.table[args.x[i]];
}

void requantize(const RequantizeArgs& args) {
  for (std::size_t i = 0; i < args.rows; ++i)
    for (std::size_t j = 0; j < args.cols; ++j) {
      const std::size_t at = i * args.cols + j;
      float v = static_cast<float>(args.acc[at]);
      if (args.row_scale != nullptr) v = v * args.row_scale[i];
      const float r = __builtin_fmaf(v, args.m[j], args.b != nullptr ? args.b[j] : 0.0f);
      if (args.y != nullptr) args.y[at] = r;
      if (args.q != nullptr)
        args.q[at] = static_cast<std::uint8_t>(round_clamped(r, args.q_zero_point, 0, 255));
    }
}

}  // namespace reference

void requantize_table(float s_x, std::int32_t z_x, float s_y, std::int32_t z_y,
                      std::uint8_t table[256]) {
  for (std::int32_t q = 0; q < 256; ++q) table[q] = quantize_u8(dequantize(q, s_x, z_x), s_y, z_y);
}

bool dynamic_quantize_params(const float* x, std::size_t n, float* scale,
                             std::int32_t* zero_point) {
  float lo = 0, hi = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (!(__builtin_fabsf(x[i]) < __builtin_inff())) return false;
    lo = x[i] < lo ? x[i] : lo;
    hi = x[i] > hi ? x[i] : hi;
  }
  // The range itself may overflow; half of it does not.
  const float s = hi - lo < __builtin_inff() ? (hi - lo) / 255.0f : hi / 255.0f - lo / 255.0f;
  *scale = s > 0 ? s : 1.0f;
  *zero_point = s > 0 ? round_clamped(0.0f - lo / s, 0, 0, 255) : 0;
  return true;
}

}  // namespace fold8::kernels
