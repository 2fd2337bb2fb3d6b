// From the registers of an f32 tile to memory. Include only from *_simd.h.
#pragma once

#include <cstddef>

#include "runtime/kernels/activation_generic.h"
#include "runtime/kernels/lanes_simd.h"
#include "runtime/kernels/vector_io_simd.h"

namespace fold8::kernels::simd {

// The usual epilogue (f32 out, f32 residual or none, a cheap activation or none), applied to the
// registers.
struct StoreF32 {
  float* y = nullptr;  // at the tile's first column
  std::size_t y_stride = 0;
  const float* residual = nullptr;  // likewise, or null
  std::size_t residual_stride = 0;
  float residual_scale = 1;
  const float* offset = nullptr;    // likewise, or null
  std::size_t cols = 0;             // columns from there on; a tile may reach beyond them
  std::size_t m = 0;                // row of the tile's first row, the others follow it ...
  const std::size_t* ms = nullptr;  // ... unless they are listed here
  Activation activation = Activation::none;  // none, clip or hard_swish
  bool scaled = false;
  float a = 0, b = 0, alpha = 1;  // alpha: only if scaled
};

// f on each of R x kCols registers.
template <int R, int kCols, class F>
[[gnu::always_inline]] inline void each_register(F&& f) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int j = 0; j < kCols; ++j) f(r, j);
}

// The rows of a store's matrix, one after the other.
template <class T>
struct RowWalk {
  T* base;
  T* at;
  std::size_t stride;
  const std::size_t* ms;
  [[gnu::always_inline]] RowWalk(const StoreF32& s, T* matrix, std::size_t row_stride)
      : base(matrix), at(matrix + s.m * row_stride), stride(row_stride), ms(s.ms) {}
  [[gnu::always_inline]] T* next(int r) {
    if (ms) return base + ms[r] * stride;
    T* const row = at;
    at += stride;
    asm("" : "+r"(at));  // one pointer that moves: the compiler would keep one per row
    return row;
  }
};

// c: R rows of kCols vectors, from column n0 of the store on. One branch per kind of operation,
// none per vector. kFull: all columns are there.
template <class Arch, int R, int kCols, bool kFull>
[[gnu::always_inline]] inline void store_columns_f32(const StoreF32& s,
                                                     typename Arch::f32 (&c)[R][kCols],
                                                     std::size_t n0) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  const auto at = [n0](int j) __attribute__((always_inline)) {
    return n0 + static_cast<std::size_t>(j) * batch::size;
  };
  const auto left = [&](int j) __attribute__((always_inline)) {
    return s.cols > at(j) ? s.cols - at(j) : 0;
  };
  const auto load = [&](const float* p, int j) __attribute__((always_inline)) {
    return kFull ? batch::load_unaligned(p + at(j)) : batch(Io::load(p + at(j), left(j)));
  };
  if (s.scaled)
    each_register<R, kCols>([&](int r, int j) __attribute__((always_inline)) {
      c[r][j] = c[r][j] * batch(s.alpha);
    });
#pragma GCC unroll 16
  for (int j = 0; j < kCols; ++j) {
    const batch offset = s.offset ? load(s.offset, j) : batch(0.0f);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) c[r][j] = c[r][j] + offset;
  }
  if (s.residual) {
    RowWalk<const float> rows(s, s.residual, s.residual_stride);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const float* residual = rows.next(r);
#pragma GCC unroll 16
      for (int j = 0; j < kCols; ++j)
        c[r][j] = Lanes<batch>::fma(load(residual, j), batch(s.residual_scale), c[r][j]);
    }
  }
  if (s.activation == Activation::clip)
    each_register<R, kCols>([&](int r, int j) __attribute__((always_inline)) {
      c[r][j] = generic::clip(c[r][j], batch(s.a), batch(s.b));
    });
  else if (s.activation == Activation::hard_swish)
    each_register<R, kCols>([&](int r, int j) __attribute__((always_inline)) {
      c[r][j] = generic::activate<Activation::hard_swish>(c[r][j], batch(s.a), batch(s.b));
    });
  RowWalk<float> rows(s, s.y, s.y_stride);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    float* const y = rows.next(r);
#pragma GCC unroll 16
    for (int j = 0; j < kCols; ++j) {
      if constexpr (kFull)
        c[r][j].store_unaligned(y + at(j));
      else if (left(j) > 0)
        Io::store(y + at(j), c[r][j], left(j));
    }
  }
}

template <class Arch, int R, int kCols>
[[gnu::always_inline]] inline void store_tile_f32(const StoreF32& s,
                                                  typename Arch::f32 (&c)[R][kCols],
                                                  std::size_t n0 = 0) {
  if (n0 + kCols * Arch::f32::size <= s.cols)
    store_columns_f32<Arch, R, kCols, true>(s, c, n0);
  else
    store_columns_f32<Arch, R, kCols, false>(s, c, n0);
}

}  // namespace fold8::kernels::simd
