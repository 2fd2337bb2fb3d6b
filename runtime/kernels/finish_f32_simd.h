// From the accumulators of an f32 matrix kernel to its output: epilogue_simd.h over a block of
// rows, with the usual case (f32 out, no residual or an f32 one) in one tight loop per activation.
// Include only from *_simd.h.
#pragma once

#include <cstddef>

#include "runtime/kernels/arch.h"
#include "runtime/kernels/epilogue_simd.h"
#include "runtime/kernels/tile_f32_simd.h"

namespace fold8::kernels::simd {

struct FinishF32 {
  std::size_t m = 0;                // row of acc[0], the others follow it ...
  const std::size_t* ms = nullptr;  // ... unless the rows are listed here
  std::size_t rows = 0;
  std::size_t n = 0, cols = 0;  // columns [n, n + cols)
  const float* acc = nullptr;
  std::size_t acc_stride = 0;
};

// Whether columns [n, n + cols) can be finished in registers (StoreF32), and how. Rows are left to
// the caller.
template <class Arch>
bool make_store_f32(const Epilogue& e, std::size_t n, std::size_t cols, StoreF32& s) {
  if (e.output_kind != OutputKind::f32 || e.residual_kind == ResidualKind::u8 ||
      (e.activation != Activation::none && e.activation != Activation::clip &&
       e.activation != Activation::hard_swish))
    return false;
  s.activation = e.activation;
  s.cols = cols;
  s.y = static_cast<float*>(e.y) + n;
  s.y_stride = e.y_stride;
  s.residual =
      e.residual_kind == ResidualKind::f32 ? static_cast<const float*>(e.residual) + n : nullptr;
  s.residual_stride = e.residual_stride;
  s.residual_scale = e.residual_scale;
  s.offset = e.offset ? e.offset + n : nullptr;
  s.a = e.a;
  s.b = e.b;
  return true;
}

template <class Arch, Activation kActivation>
void finish_rows_f32(const Epilogue& e, const FinishF32& f) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  const float* const residual =
      e.residual_kind == ResidualKind::f32 ? static_cast<const float*>(e.residual) + f.n : nullptr;
  const batch scale(e.residual_scale);
  for (std::size_t j = 0; j < f.cols; j += batch::size) {
    const std::size_t left = f.cols - j;
    const batch offset = e.offset ? Io::load(e.offset + f.n + j, left) : batch(0.0f);
    float* const y = static_cast<float*>(e.y) + f.n + j;
    for (std::size_t i = 0; i < f.rows; ++i) {
      const std::size_t m = f.ms ? f.ms[i] : f.m + i;
      batch r = Io::load(f.acc + i * f.acc_stride + j, left) + offset;
      if (residual)
        r = Lanes<batch>::fma(Io::load(residual + m * e.residual_stride + j, left), scale, r);
      Io::store(y + m * e.y_stride, epilogue_activate<kActivation>(r, e.a, e.b), left);
    }
  }
}

template <class Arch>
void finish_f32(const Epilogue& e, const FinishF32& f) {
  if (e.output_kind == OutputKind::f32 && e.residual_kind != ResidualKind::u8)
    return generic::with_activation(
        e.activation, [&]<Activation kActivation>() { finish_rows_f32<Arch, kActivation>(e, f); });
  for (std::size_t i = 0; i < f.rows; ++i)
    epilogue_row<Arch>(e, f.ms ? f.ms[i] : f.m + i, f.n, f.acc + i * f.acc_stride, f.cols);
}

}  // namespace fold8::kernels::simd
