#pragma once

#include "runtime/kernels/norm_output_simd.h"

namespace fold8::kernels::simd {

struct CodeSums {
  std::int64_t sum = 0, squares = 0;
};

template <class Arch, class Load>
inline CodeSums code_sums(std::size_t cols, Load&& code) {
  constexpr std::size_t kBlock = 16 * 32768;  // 255^2 * 32768 < 2^31 in each lane
  CodeSums total;
  for (std::size_t begin = 0; begin < cols; begin += kBlock) {
    const std::size_t n = cols - begin < kBlock ? cols - begin : kBlock;
    I16<Arch> sum(0), squares(0);
    for_steps<Arch>(n, [&](std::size_t j, auto m) {
      const I16<Arch> q = code(begin + j, m);
      sum = sum + q;
      squares = squares + q * q;
    });
    for (int p = 0; p < I16<Arch>::kParts; ++p) {
      constexpr int kLanes = 16 / I16<Arch>::kParts;
      alignas(64) std::int32_t a[kLanes], b[kLanes];
      sum.part[p].store_unaligned(a);
      squares.part[p].store_unaligned(b);
      for (int l = 0; l < kLanes; ++l) total.sum += a[l], total.squares += b[l];
    }
  }
  return total;
}

template <class Arch, class Load>
inline void norm_code_rows(const NormRowsQ8Args& args, Load&& load_row) {
  using V = V16<Arch>;
  using L = Lanes<V>;
  const double s = args.scale, d = static_cast<double>(args.cols);
  const auto n = static_cast<std::int64_t>(args.cols),
             z = static_cast<std::int64_t>(args.zero_point);
  const bool rms = args.kind == NormKind::rms;
  const V step(rms ? args.scale : static_cast<float>(s / d));
  const float to_variance = static_cast<float>(rms ? s * s / d : s * s / (d * d));
  const NormScale<Arch> scale{args.kind, args.gamma, args.beta};
  for (std::size_t i = 0; i < args.rows; ++i) {
    const auto code = [&](std::size_t j, auto m) { return load_row(i * args.cols + j, m); };
    const CodeSums t = code_sums<Arch>(args.cols, code);
    const std::int64_t moment =
        rms ? t.squares - 2 * z * t.sum + n * z * z : n * t.squares - t.sum * t.sum;
    const float v = static_cast<float>(moment) * to_variance;
    const V r(1.0f / __builtin_sqrtf(v + args.epsilon));
    // u = f32(factor * q - shift) * step
    const I16<Arch> factor(rms ? 1 : static_cast<std::int32_t>(n));
    const I16<Arch> shift(rms ? args.zero_point : static_cast<std::int32_t>(t.sum));
    write_norm_row<Arch>(args.out, i, args.cols, [&](std::size_t j, auto m) {
      return scale(j, m, (L::to_float(factor * code(j, m) - shift) * step) * r);
    });
  }
}

template <class Arch>
void norm_rows_q8(const NormRowsQ8Args& args) {
  const auto* x = static_cast<const std::uint8_t*>(args.x);
  if (args.is_signed)
    norm_code_rows<Arch>(args, [x](std::size_t at, auto n) { return load_s8<Arch>(x + at, n); });
  else
    norm_code_rows<Arch>(args, [x](std::size_t at, auto n) { return load_u8<Arch>(x + at, n); });
}

}  // namespace fold8::kernels::simd
