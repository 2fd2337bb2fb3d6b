// Between real numbers and 8-bit integers. Every quantizer of f32 values divides (true division).
//   quantize(x):  q = round_half_even(min(max(x / s, lo - z), hi - z)) + z;  NaN -> z
//                 u8: lo = 0, hi = 255;  s8: lo = -128, hi = 127
//   dequantize:   x = f32(q - z) * s                  (s32 input: z = 0 and q - z = q, converted
//   once)
// scale > 0 and finite. Tensors are [outer, channels, inner], dense; per tensor: channels = 1 and
// one scale.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fold8::kernels {

enum class QType : std::uint8_t { u8, s8, s32 };  // s32: dequantize only

struct QuantizeArgs {
  QType type = QType::u8;
  std::size_t outer = 1, channels = 1, inner = 0;
  const float* x = nullptr;
  void* q = nullptr;
  const float* scales = nullptr;              // [channels]
  const std::int32_t* zero_points = nullptr;  // [channels] or null for 0
};
using quantize_fn = void(const QuantizeArgs& args);

// quantize per tensor to u8 and another order at once: x [batch, channels, pixels], q [batch,
// pixels, channels]. Only pixels [begin, end) of batch * pixels are computed.
struct QuantizeRelayoutArgs {
  std::size_t batch = 1, channels = 1, pixels = 0;
  const float* x = nullptr;
  std::uint8_t* q = nullptr;
  float scale = 1;
  std::int32_t zero_point = 0;
  std::size_t begin = 0, end = 0;
};
using quantize_relayout_fn = void(const QuantizeRelayoutArgs& args);

struct DequantizeArgs {
  QType type = QType::u8;
  std::size_t outer = 1, channels = 1, inner = 0;
  const void* q = nullptr;
  float* y = nullptr;
  const float* scales = nullptr;              // [channels]
  const std::int32_t* zero_points = nullptr;  // [channels] or null for 0
};
using dequantize_fn = void(const DequantizeArgs& args);

// Dynamic scale of each row, symmetric in u8:
//   s = max(max_j |x[i,j]| / 127, 2^-126);  q = min(max(round_half_even(x / s), -127), 127) + 128
// scales[i] = s. A row with NaN or Inf: scales[i] = NaN and q = 128, so whatever multiplies by the
// scale is NaN.
// rotated: of core/rotation.h's transform of the row (behind the factors) in its place; cols is a
// multiple of 16 then.
struct QuantizeRowsArgs {
  std::size_t rows = 0, cols = 0;
  const float* x = nullptr;
  std::size_t x_stride = 0;  // elements from row to row; 0 stands for cols
  std::uint8_t* q = nullptr;
  std::size_t q_stride = 0;  // 0 stands for cols
  float* scales = nullptr;   // [rows]
  const float* factors =
      nullptr;  // [cols], or null: x[i,j] * factors[j], rounded, in place of x[i,j]
  bool rotated = false;
  float* scratch = nullptr;  // rotated: [cols + 16]
};
using quantize_rows_fn = void(const QuantizeRowsArgs& args);

// y[i] = table[x[i]]: any u8 to u8 function. y may be x.
struct MapU8Args {
  std::size_t n = 0;
  const std::uint8_t* x = nullptr;
  std::uint8_t* y = nullptr;
  const std::uint8_t* table = nullptr;  // 256 entries
};
using map_u8_fn = void(const MapU8Args& args);

// s32 accumulators to f32 or u8 apart from their matrix product (the epilogue's equation,
// epilogue.h):
//   r = fma(f32(acc)[* row_scale[i]], m[j], b[j]);   y = r;   q = round_half_even(min(max(r, -z),
//   255 - z)) + z
struct RequantizeArgs {
  std::size_t rows = 0, cols = 0;
  const std::int32_t* acc = nullptr;  // [rows, cols]
  const float* m = nullptr;           // [cols]
  const float* b = nullptr;           // [cols] or null for +0
  const float* row_scale = nullptr;   // [rows] or null
  float* y = nullptr;                 // or null
  std::uint8_t* q = nullptr;          // or null; m and b then hold 1 / s_y
  std::int32_t q_zero_point = 0;
};
using requantize_fn = void(const RequantizeArgs& args);

namespace reference {
quantize_fn quantize;
quantize_relayout_fn quantize_relayout;
dequantize_fn dequantize;
quantize_rows_fn quantize_rows;
map_u8_fn map_u8;
requantize_fn requantize;
}  // namespace reference

// Not hot, one body for all targets.

// The 256-entry table of u8 -> u8: dequantize with (s_x, z_x), then quantize with (s_y, z_y).
void requantize_table(float s_x, std::int32_t z_x, float s_y, std::int32_t z_y,
                      std::uint8_t table[256]);

// ONNX DynamicQuantizeLinear over n values: minimum and maximum widened to hold 0,
//   s = (max - min) / 255;  z = round_half_even(clamp(0 - min / s, 0, 255));  all zero: s = 1, z =
//   0.
// Returns false (nothing written) when a value is NaN or infinite.
bool dynamic_quantize_params(const float* x, std::size_t n, float* scale, std::int32_t* zero_point);

}  // namespace fold8::kernels
