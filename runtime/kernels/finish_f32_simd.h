// From the accumulators of an f32 matrix kernel to its output: the usual case (f32 out, no residual
// or an f32 one) by store_f32_simd.h, the others by epilogue_simd.h.
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

// How columns [n, n + cols) are finished, for f32 out and no residual or an f32 one. Rows are left
// to the caller.
template <class Arch>
StoreF32 store_of_f32(const Epilogue& e, std::size_t n, std::size_t cols) {
  StoreF32 s;
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
  return s;
}

// Whether they can be finished in registers, and how.
template <class Arch>
bool make_store_f32(const Epilogue& e, std::size_t n, std::size_t cols, StoreF32& s) {
  if (e.output_kind != OutputKind::f32 || e.residual_kind == ResidualKind::u8 ||
      (e.activation != Activation::none && e.activation != Activation::clip &&
       e.activation != Activation::hard_swish))
    return false;
  s = store_of_f32<Arch>(e, n, cols);
  return true;
}

template <class Arch>
void finish_f32(const Epilogue& e, const FinishF32& f) {
  if (e.output_kind == OutputKind::f32 && e.residual_kind != ResidualKind::u8) {
    StoreF32 store = store_of_f32<Arch>(e, f.n, f.cols);
    store.m = f.m;
    store.ms = f.ms;
    return store_memory_f32<Arch>(store, f.acc, f.acc_stride, f.rows);
  }
  for (std::size_t i = 0; i < f.rows; ++i)
    epilogue_row<Arch>(e, f.ms ? f.ms[i] : f.m + i, f.n, f.acc + i * f.acc_stride, f.cols);
}

}  // namespace fold8::kernels::simd
