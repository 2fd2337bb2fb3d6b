// From the accumulators of an f32 matrix kernel to its output: epilogue_simd.h over a block of
// rows, with the usual case (f32 out, no residual or an f32 one, no activation or a clip) in one
// tight loop. Include only from *_simd.h.
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
  s.clip = e.activation == Activation::clip;
  if (e.output_kind != OutputKind::f32 || e.residual_kind == ResidualKind::u8 ||
      cols % kPanelF32 != 0 || (!s.clip && e.activation != Activation::none))
    return false;
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

template <class Arch, bool kClip, bool kResidual>
void finish_rows_f32(const Epilogue& e, const FinishF32& f) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  for (std::size_t j = 0; j < f.cols; j += batch::size) {
    const std::size_t left = f.cols - j;
    const batch offset = e.offset ? Io::load(e.offset + f.n + j, left) : batch(0.0f);
    for (std::size_t i = 0; i < f.rows; ++i) {
      const std::size_t m = f.ms ? f.ms[i] : f.m + i;
      batch r = Io::load(f.acc + i * f.acc_stride + j, left) + offset;
      if constexpr (kResidual) {
        const float* residual =
            static_cast<const float*>(e.residual) + m * e.residual_stride + f.n + j;
        r = Lanes<batch>::fma(Io::load(residual, left), batch(e.residual_scale), r);
      }
      if constexpr (kClip) r = generic::clip(r, batch(e.a), batch(e.b));
      Io::store(static_cast<float*>(e.y) + m * e.y_stride + f.n + j, r, left);
    }
  }
}

template <class Arch>
void finish_f32(const Epilogue& e, const FinishF32& f) {
  const bool clip = e.activation == Activation::clip,
             residual = e.residual_kind == ResidualKind::f32;
  if (e.output_kind == OutputKind::f32 && (clip || e.activation == Activation::none) &&
      e.residual_kind != ResidualKind::u8) {
    if (clip)
      return residual ? finish_rows_f32<Arch, true, true>(e, f)
                      : finish_rows_f32<Arch, true, false>(e, f);
    return residual ? finish_rows_f32<Arch, false, true>(e, f)
                    : finish_rows_f32<Arch, false, false>(e, f);
  }
  for (std::size_t i = 0; i < f.rows; ++i)
    epilogue_row<Arch>(e, f.ms ? f.ms[i] : f.m + i, f.n, f.acc + i * f.acc_stride, f.cols);
}

}  // namespace fold8::kernels::simd
