#include "runtime/kernels/norm.h"
#include "runtime/kernels/quantize_ref.h"
#include "runtime/kernels/row_sum.h"

namespace fold8::kernels::reference {
namespace {

struct Affine {
  const float* gamma;
  const float* beta;
};

// u is the normalized value before gamma and beta.
float scale_and_shift(NormKind kind, const Affine& affine, std::size_t j, float u) {
  if (kind == NormKind::layer && affine.gamma != nullptr && affine.beta != nullptr)
    return __builtin_fmaf(u, affine.gamma[j], affine.beta[j]);
  if (affine.gamma != nullptr) u = u * affine.gamma[j];
  if (affine.beta != nullptr) u = u + affine.beta[j];
  return u;
}

// normalized(j) is row i's result at j, before it is stored in any of the forms asked for.
template <class Normalized>
void write_row(const NormOutput& out, std::size_t i, std::size_t cols, Normalized&& normalized) {
  bool finite = true;
  float largest = 0;
  if (out.quant == NormQuant::per_row) {
    for (std::size_t j = 0; j < cols; ++j) {
      const float m = __builtin_fabsf(normalized(j));
      finite = finite && m < __builtin_inff();
      largest = m > largest ? m : largest;
    }
    out.q_row_scale[i] = dynamic_row_scale(finite ? largest : __builtin_inff());
  }
  for (std::size_t j = 0; j < cols; ++j) {
    const float t = normalized(j);
    const std::size_t at = i * cols + j;
    if (out.quant == NormQuant::fixed) out.q[at] = quantize_u8(t, out.q_scale, out.q_zero_point);
    if (out.quant == NormQuant::per_row) out.q[at] = quantize_in_row(t, out.q_row_scale[i]);
    if (out.y != nullptr) out.y[at] = t;  // last: y may be x
  }
}

float input(const NormRowsArgs& args, std::size_t i, std::size_t j) {
  const std::size_t at = i * args.cols + j;
  float v;
  if (args.acc != nullptr) {
    v = static_cast<float>(args.acc[at]);
    if (args.row_scale != nullptr) v = v * args.row_scale[i];
    v = __builtin_fmaf(v, args.multiplier[j], args.offset != nullptr ? args.offset[j] : 0.0f);
  } else {
    v = args.x[at];
  }
  return args.residual != nullptr ? v + args.residual[at] : v;
}

}  // namespace

void norm_rows(const NormRowsArgs& args) {
  const std::size_t cols = args.cols;
  const float d = static_cast<float>(cols);
  const Affine affine{args.gamma, args.beta};
  for (std::size_t i = 0; i < args.rows; ++i) {
    // Where v is kept: outputs may be inputs, so it is computed once.
    float* row = args.sum_out != nullptr ? args.sum_out + i * cols
                 : args.out.y != nullptr ? args.out.y + i * cols
                                         : args.scratch;
    const float* v = row;
    if (args.acc == nullptr && args.residual == nullptr && args.sum_out == nullptr)
      v = args.x + i * cols;
    else
      for (std::size_t j = 0; j < cols; ++j) row[j] = input(args, i, j);

    if (args.kind == NormKind::rms) {
      const float ms = row_sum_of_squares(cols, [&](std::size_t j) { return v[j]; }) / d;
      const float r = 1.0f / __builtin_sqrtf(ms + args.epsilon);
      write_row(args.out, i, cols,
                [&](std::size_t j) { return scale_and_shift(args.kind, affine, j, v[j] * r); });
      continue;
    }
    float mu = row_sum(cols, [&](std::size_t j) { return v[j]; }) / d;
    mu = mu + row_sum(cols, [&](std::size_t j) { return v[j] - mu; }) / d;
    const float var = row_sum_of_squares(cols, [&](std::size_t j) { return v[j] - mu; }) / d;
    const float r = 1.0f / __builtin_sqrtf(var + args.epsilon);
    write_row(args.out, i, cols, [&](std::size_t j) {
      return scale_and_shift(args.kind, affine, j, (v[j] - mu) * r);
    });
  }
}

void norm_rows_q8(const NormRowsQ8Args& args) {
  const std::size_t cols = args.cols;
  const double s = args.scale, d = static_cast<double>(cols);
  const Affine affine{args.gamma, args.beta};
  const auto code = [&](std::size_t i, std::size_t j) -> std::int32_t {
    const std::size_t at = i * cols + j;
    return args.is_signed ? static_cast<const std::int8_t*>(args.x)[at]
                          : static_cast<const std::uint8_t*>(args.x)[at];
  };
  for (std::size_t i = 0; i < args.rows; ++i) {
    std::int64_t sum = 0, squares = 0;
    for (std::size_t j = 0; j < cols; ++j) sum += code(i, j), squares += code(i, j) * code(i, j);
    const auto n = static_cast<std::int64_t>(cols), z = static_cast<std::int64_t>(args.zero_point);
    if (args.kind == NormKind::rms) {
      const float ms =
          static_cast<float>(squares - 2 * z * sum + n * z * z) * static_cast<float>(s * s / d);
      const float r = 1.0f / __builtin_sqrtf(ms + args.epsilon);
      write_row(args.out, i, cols, [&](std::size_t j) {
        const float v = static_cast<float>(code(i, j) - args.zero_point) * args.scale;
        return scale_and_shift(args.kind, affine, j, v * r);
      });
      continue;
    }
    // cols < 2^31 / 255 keeps n * squares below 2^55 and every n * q - sum inside 32 bits.
    const float var =
        static_cast<float>(n * squares - sum * sum) * static_cast<float>(s * s / (d * d));
    const float r = 1.0f / __builtin_sqrtf(var + args.epsilon);
    const float step = static_cast<float>(s / d);
    write_row(args.out, i, cols, [&](std::size_t j) {
      const float centred = static_cast<float>(n * code(i, j) - sum) * step;
      return scale_and_shift(args.kind, affine, j, centred * r);
    });
  }
}

}  // namespace fold8::kernels::reference
