// Normalizations, in f32 throughout whatever comes in or goes out (SPEC: "Norms stay FP32").
//
// norm_rows: each row of [rows, cols] by itself.
//   input f32:   v[j] = x[i,j]
//   input s32:   v[j] = fma(f32(acc[i,j])[* row_scale[i]], m[j], b[j])      exactly the INT8
//   epilogue's value residual:    v[j] = v[j] + residual[i,j];      sum_out[i,j] = v[j] LayerNorm:
//   mu = S(v) / D;  mu = mu + S(v - mu) / D;  var = Sfma(v - mu) / D
//                r = 1 / sqrt(var + epsilon);  t = fma((v - mu) * r, gamma, beta)
//   RMSNorm:     ms = Sfma(v) / D;  r = 1 / sqrt(ms + epsilon);  t = (v * r) * gamma  [then + beta
//   if given] with D = f32(cols); S the row sum of row_sum.h (16 lanes); Sfma(u) the same with u*u
//   by fma into the lane. gamma null: the factor is left out, t = (v - mu) * r + beta; beta null:
//   the sum is left out (t = (..) * gamma).
// norm_rows_q8: the same norms of 8-bit rows, x = s * (q - z), from exact integer sums:
//   LayerNorm:   n = D * sum(q^2) - sum(q)^2 exact;  var = f32(n) * f32(double(s) * s / (double(D)
//   * D))
//                v - mu = f32(D * q - sum(q)) * f32(double(s) / D), the integer exact
//   RMSNorm:     ms = f32(sum((q - z)^2)) * f32(double(s) * s / D);  v = f32(q - z) * s
//   then r and t as above. Independent of z for LayerNorm.
// Outputs, any subset: y f32; q static u8 (quantize.h, scale and zero point); q per row, dynamic
// (quantize_rows).
#pragma once

#include <cstddef>
#include <cstdint>

namespace fold8::kernels {

enum class NormKind : std::uint8_t { layer = 0, rms = 1 };
enum class NormQuant : std::uint8_t { none = 0, fixed = 1, per_row = 2 };

struct NormOutput {
  float* y = nullptr;  // [rows, cols] or null; may be x or residual of the same call
  NormQuant quant = NormQuant::none;
  std::uint8_t* q = nullptr;      // [rows, cols] unless quant is none
  float q_scale = 1;              // fixed
  std::int32_t q_zero_point = 0;  // fixed
  float* q_row_scale =
      nullptr;  // [rows], written by per_row; NaN for a row with NaN or Inf (its q is 128)
};

struct NormRowsArgs {
  NormKind kind = NormKind::layer;
  std::size_t rows = 0, cols = 0;
  const float* x = nullptr;           // [rows, cols], or null and acc
  const std::int32_t* acc = nullptr;  // [rows, cols]
  const float* multiplier = nullptr;  // [cols], with acc
  const float* offset = nullptr;      // [cols] or null for +0
  const float* row_scale = nullptr;   // [rows] or null
  const float* residual = nullptr;    // [rows, cols] or null
  float* sum_out = nullptr;           // [rows, cols] or null; may be x or residual
  const float* gamma = nullptr;       // [cols] or null
  const float* beta = nullptr;        // [cols] or null
  float epsilon = 0;
  float* scratch = nullptr;  // [scratch_rows, cols] of this thread; needed when (acc or residual),
                             // no y and no sum_out
  std::size_t scratch_rows = 1;  // 4 lets four rows go together, which is faster
  NormOutput out;
};
using norm_rows_fn = void(const NormRowsArgs& args);

struct NormRowsQ8Args {
  NormKind kind = NormKind::layer;
  std::size_t rows = 0, cols = 0;  // cols < 2^31 / 255
  const void* x = nullptr;         // [rows, cols] u8, or s8 if is_signed
  bool is_signed = false;
  float scale = 1;
  std::int32_t zero_point = 0;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 0;
  NormOutput out;
};
using norm_rows_q8_fn = void(const NormRowsQ8Args& args);

// norm_channels: InstanceNorm, GroupNorm and training-mode BatchNorm of [N, C, S] (or [N, S, C],
// channels_last).
//   T_c(u) = one chain per channel from +0, positions ascending (across_batch: samples ascending,
//   then positions) T(u)   = T_c of the group's channels added from +0, channels ascending;  D =
//   f32(count of values in the group) mu = T(x) / D;  mu = mu + T(x - mu) / D;  var = T of (x -
//   mu)^2 by fma, / D;  r = 1 / sqrt(var + epsilon) t = fma((x - mu) * r, gamma, beta);  y = t;  q
//   = quantize(t)
// groups = C: InstanceNorm (one chain is the sum). across_batch needs groups = C: statistics over N
// and S per channel. gamma, beta: [C], or [groups] when per_group (opset 18). The layout never
// changes the result.
struct NormChannelsArgs {
  std::size_t n = 0, channels = 0, spatial = 0, groups = 1;
  bool channels_last = false;
  bool across_batch = false;
  bool per_group = false;
  const float* x = nullptr;
  const float* gamma = nullptr;  // or null: left out
  const float* beta = nullptr;   // or null: left out
  float epsilon = 0;
  float* y = nullptr;         // or null; may be x
  std::uint8_t* q = nullptr;  // or null
  float q_scale = 1;
  std::int32_t q_zero_point = 0;
  float* mean_out = nullptr;      // [N, groups] ([groups] when across_batch) or null
  float* variance_out = nullptr;  // same; biased
  float* scratch = nullptr;       // [3 * C] of the calling thread, always needed
};
using norm_channels_fn = void(const NormChannelsArgs& args);

namespace reference {
norm_rows_fn norm_rows;
norm_rows_q8_fn norm_rows_q8;
norm_channels_fn norm_channels;
}  // namespace reference

}  // namespace fold8::kernels
