// From the registers of an f32 tile to memory. Include only from *_simd.h.
#pragma once

#include <cstddef>
#include <type_traits>

#include "runtime/kernels/epilogue_activation.h"
#include "runtime/kernels/lanes_simd.h"
#include "runtime/kernels/vector_io_simd.h"

namespace fold8::kernels::simd {

// The usual epilogue (f32 out, f32 residual or none).
struct StoreF32 {
  float* y = nullptr;  // at the tile's first column
  std::size_t y_stride = 0;
  const float* residual = nullptr;  // likewise, or null
  std::size_t residual_stride = 0;
  float residual_scale = 1;
  const float* offset = nullptr;  // likewise, or null
  std::size_t cols = 0;           // columns from there on; a tile may reach beyond them
  std::size_t m = 0;              // row of the tile's first row, the others m_step apart ...
  std::size_t m_step = 1;
  const std::size_t* ms = nullptr;  // ... unless they are listed here
  Activation activation = Activation::none;
  float a = 0, b = 0;
  bool scaled = false;  // alpha comes before all else: only for tiles
  float alpha = 1;
};

// f on each of R x kCols registers.
template <int R, int kCols, class F>
[[gnu::always_inline]] inline void each_register(F&& f) {
#pragma GCC unroll 24
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 24
    for (int j = 0; j < kCols; ++j) f(r, j);
}

// c: R rows of kCols vectors, from column n0 of the store on, whose activation is none, clip or
// hard_swish and whose rows are not listed. One branch per kind of operation, none per vector.
// Columns: what counts of them. Rows from `live` on do not exist unless kAllRows.
template <class Arch, int R, int kCols, class Columns, bool kAllRows = true>
[[gnu::always_inline]] inline void store_registers_f32(const StoreF32& s,
                                                       typename Arch::f32 (&c)[R][kCols],
                                                       std::size_t n0, int live = R) {
  using batch = typename Arch::f32;
  const auto at = [n0](int j) __attribute__((always_inline)) {
    return n0 + static_cast<std::size_t>(j) * batch::size;
  };
  Columns columns[kCols];
#pragma GCC unroll 24
  for (int j = 0; j < kCols; ++j) columns[j] = Columns(s.cols > at(j) ? s.cols - at(j) : 0);
#pragma GCC unroll 24
  for (int j = 0; j < kCols; ++j) {
    const batch offset = s.offset ? columns[j].load(s.offset + at(j)) : batch(0.0f);
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r) c[r][j] = c[r][j] + offset;
  }
  // One pointer that moves: the compiler would keep one per row.
  const auto next = [](auto*& row, std::size_t step) __attribute__((always_inline)) {
    row += step;
    asm("" : "+r"(row));
  };
  if (s.residual) {
    const float* row = s.residual + s.m * s.residual_stride;
    const std::size_t step = s.m_step * s.residual_stride;
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r, next(row, step)) {
      if (!kAllRows && r >= live) break;
#pragma GCC unroll 24
      for (int j = 0; j < kCols; ++j)
        c[r][j] = Lanes<batch>::fma(columns[j].load(row + at(j)), batch(s.residual_scale), c[r][j]);
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
  float* row = s.y + s.m * s.y_stride;
  const std::size_t step = s.m_step * s.y_stride;
#pragma GCC unroll 24
  for (int r = 0; r < R; ++r, next(row, step)) {
    if (!kAllRows && r >= live) break;
#pragma GCC unroll 24
    for (int j = 0; j < kCols; ++j) columns[j].store(row + at(j), c[r][j]);
  }
}

// The same from column 0 on, if it can be done from registers; else c is only scaled.
template <class Arch, int R, int kCols>
[[gnu::always_inline]] inline bool store_tile_f32(const StoreF32& s,
                                                  typename Arch::f32 (&c)[R][kCols]) {
  using batch = typename Arch::f32;
  if (s.scaled)
    each_register<R, kCols>([&](int r, int j) __attribute__((always_inline)) {
      c[r][j] = c[r][j] * batch(s.alpha);
    });
  if (s.ms) return false;
  if constexpr (Width256<Arch>) {
    if (s.cols % batch::size != 0) return false;
    store_registers_f32<Arch, R, kCols, AllOrNoLanes<batch>>(s, c, 0);
  } else if (R * kCols > 16 && kCols * batch::size <= s.cols) {
    store_registers_f32<Arch, R, kCols, AllLanes<batch>>(s, c, 0);
  } else {  // a mask costs little, and small tiles come at borders
    store_registers_f32<Arch, R, kCols, SomeLanes<batch>>(s, c, 0);
  }
  return true;
}

// Any store of any rows whose chains lie in memory, acc_stride floats from row to row.
template <class Arch, Activation kActivation>
void store_rows_f32(const StoreF32& store, const float* acc, std::size_t acc_stride,
                    std::size_t rows) {
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  const StoreF32 s = store;  // a copy that stores to y cannot touch
  const batch scale(s.residual_scale);
  for (std::size_t j = 0; j < s.cols; j += batch::size) {
    const std::size_t left = s.cols - j;
    const batch offset = s.offset ? Io::load(s.offset + j, left) : batch(0.0f);
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t m = s.ms ? s.ms[i] : s.m + i * s.m_step;
      batch r = Io::load(acc + i * acc_stride + j, left);
      r = r + offset;
      if (s.residual)
        r = Lanes<batch>::fma(Io::load(s.residual + m * s.residual_stride + j, left), scale, r);
      Io::store(s.y + m * s.y_stride + j, epilogue_activate<kActivation>(r, s.a, s.b), left);
    }
  }
}

template <class Arch>
[[gnu::noinline]] void store_memory_f32(const StoreF32& s, const float* acc, std::size_t acc_stride,
                                        std::size_t rows) {
  generic::with_activation(s.activation, [&]<Activation kActivation>() {
    store_rows_f32<Arch, kActivation>(s, acc, acc_stride, rows);
  });
}

}  // namespace fold8::kernels::simd
