// The epilogue (epilogue.h) of a tile, for every vector target. Include only from *_simd.h.
//
// A matrix kernel leaves the accumulators of a tile in a small buffer and calls
//   epilogue_rows<Arch>(e, m, n, {acc, stride, rows, count})     rows [m, m + rows), columns [n, n
//   + count) epilogue_row<Arch>(e, m, n, acc, count)                      one row
// with acc of type const float* (f32 kernels: the FMA chains) or const std::int32_t* (INT8 kernels:
// exact sums), or
//   epilogue_row_s64<Arch>(e, m, n, acc, count)                  for sums longer than 32 bits.
// acc is read up to count elements of a row, no further. m, n and the strides index the arrays
// inside e.
#pragma once

#include <cstring>
#include <type_traits>

#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/epilogue_activation.h"
#include "runtime/kernels/lanes_simd.h"
#include "runtime/kernels/vec16_simd.h"
#include "runtime/kernels/vector_io_simd.h"

namespace fold8::kernels::simd {

template <class Acc>
struct EpilogueTile {
  const Acc* acc;
  std::size_t stride, rows, count;  // elements between rows; rows; columns
};

namespace epilogue_detail {

// round_half_even(clamp(r / d, lo, hi)) without dividing: a quotient corrected twice by its exact
// remainder is the rounded one (Markstein), and clamping r to lo * d and hi * d first keeps all
// steps finite and, lo and hi being small integers, rounds to the same. d is far from the ends of
// the exponent range, so that a remainder that matters is exact.
template <class F>
struct Quotient {
  F divisor, minus_divisor, inverse, lowest, highest;

  static bool exact(float d) { return d > 0x1p-90f && d < 0x1p90f; }

  Quotient(float d, float lo, float hi)
      : divisor(d), minus_divisor(-d), inverse(1.0f / d), lowest(lo * d), highest(hi * d) {}

  [[gnu::always_inline]] F operator()(F r) const {
    using L = Lanes<F>;
    r = VectorIo<F>::clamp(r, lowest, highest);
    F q = r * inverse;
    q = L::fma(L::fma(q, minus_divisor, r), inverse, q);
    return L::fma(L::fma(q, minus_divisor, r), inverse, q);
  }
};

// An epilogue taken apart: what a row needs, in registers that stores to y cannot touch.
template <class Arch>
struct Steps {
  using F = typename Arch::f32;
  using Io = VectorIo<F>;
  static constexpr std::size_t kLanes = Io::kLanes;

  const float* row_scale;
  const float* residual_f32;
  const std::uint8_t* residual_u8;
  float* y_f32;
  std::uint8_t* y_u8;
  const std::uint8_t* table;
  std::size_t residual_stride, y_stride;
  F residual_scale, lo, hi;
  Quotient<F> quotient;
  std::int32_t residual_zero_point, y_zero_point;
  bool divides, exact, multiplies;

  explicit Steps(const Epilogue& e)
      : row_scale(e.row_scale),
        residual_f32(e.residual_kind == ResidualKind::f32 ? static_cast<const float*>(e.residual)
                                                          : nullptr),
        residual_u8(e.residual_kind == ResidualKind::u8
                        ? static_cast<const std::uint8_t*>(e.residual)
                        : nullptr),
        y_f32(e.output_kind == OutputKind::f32 ? static_cast<float*>(e.y) : nullptr),
        y_u8(static_cast<std::uint8_t*>(e.y)),
        table(e.table),
        residual_stride(e.residual_stride),
        y_stride(e.y_stride),
        residual_scale(e.residual_scale),
        lo(static_cast<float>(-e.y_zero_point)),
        hi(static_cast<float>(255 - e.y_zero_point)),
        quotient(e.y_divisor, static_cast<float>(-e.y_zero_point),
                 static_cast<float>(255 - e.y_zero_point)),
        residual_zero_point(e.residual_zero_point),
        y_zero_point(e.y_zero_point),
        divides(e.y_divisor != 0),
        exact(Quotient<F>::exact(e.y_divisor)),
        multiplies(e.multiplier != nullptr) {}

  template <class Acc>
  [[gnu::always_inline]] F scaled(std::size_t m, F multiplier, F offset, const Acc* acc,
                                  std::size_t count) const {
    F r(0.0f);
    if constexpr (std::is_same_v<Acc, float>) {
      r = Io::load(acc, count);
      if (!multiplies) return r + offset;
    } else {
      r = Io::to_float(Io::load(acc, count));
    }
    if (row_scale) r = r * F(row_scale[m]);
    return Lanes<F>::fma(r, multiplier, offset);
  }

  [[gnu::always_inline]] F plus_residual(std::size_t at, F r, std::size_t count) const {
    if (residual_f32) return Lanes<F>::fma(Io::load(residual_f32 + at, count), residual_scale, r);
    if (residual_u8)
      return Lanes<F>::fma(
          Io::to_float(Io::add(Io::load(residual_u8 + at, count), -residual_zero_point)),
          residual_scale, r);
    return r;
  }

  [[gnu::always_inline]] void store(std::size_t at, F r, std::size_t count) const {
    if (y_f32) return Io::store(y_f32 + at, r, count);
    if (divides && exact)
      r = quotient(r);
    else
      r = Io::clamp(divides ? r / quotient.divisor : r, lo, hi);
    Io::store_bytes(y_u8 + at, Io::add(Io::round(r), y_zero_point), count);
    if (table)
      for (std::size_t i = 0; i < count && i < kLanes; ++i) y_u8[at + i] = table[y_u8[at + i]];
  }
};

// A piece of a tile: rows [m, m + rows), columns [n, n + count), and its values on their way.
inline constexpr std::size_t kPieceRows = 12, kPieceColumns = 64;
struct Piece {
  std::size_t m, n, rows, count;
  float* r;            // 64-byte aligned
  std::size_t stride;  // of r: count rounded up to whole vectors of 16
};

// f(first column, how many count) for the vectors of a row of the piece.
template <class F, class Function>
[[gnu::always_inline]] inline void each_vector(const Piece& p, Function&& f) {
  std::size_t j = 0;
  for (; j + F::size <= p.count; j += F::size) f(j, std::integral_constant<std::size_t, F::size>{});
  if (j < p.count) f(j, p.count - j);
}

// From sums to what the activation gets.
template <class Arch, class Acc>
[[gnu::noinline]] void before_activation(const Steps<Arch>& given, const Epilogue& e,
                                         const Piece& piece, const Acc* acc, std::size_t stride) {
  using F = typename Arch::f32;
  using Io = VectorIo<F>;
  const Steps<Arch> steps = given;  // copies that stores to r cannot touch
  const Piece p = piece;
  const float *const multipliers = e.multiplier, *const offsets = e.offset;
  each_vector<F>(
      p, [&](std::size_t j, auto count) __attribute__((always_inline)) {
        const F multiplier = multipliers ? Io::load(multipliers + p.n + j, count) : F(1.0f),
                offset = offsets ? Io::load(offsets + p.n + j, count) : F(0.0f);
        const Acc* from = acc + j;
        float* to = p.r + j;
        for (std::size_t i = 0; i < p.rows; ++i, from += stride, to += p.stride) {
          const F r = steps.scaled(p.m + i, multiplier, offset, from, count);
          steps.plus_residual((p.m + i) * steps.residual_stride + p.n + j, r, count)
              .store_aligned(to);
        }
      });
}

template <class Arch, Activation kActivation>
[[gnu::noinline]] void activate(float* r, std::size_t count, float a, float b) {
  using M = Memory16<Arch>;
  for (std::size_t i = 0; i < count; i += 16)
    M::store(r + i, epilogue_activate<kActivation, V16<Arch>>(M::load(r + i), a, b));
}

template <class Arch>
[[gnu::noinline]] void after_activation(const Steps<Arch>& given, const Piece& piece) {
  using F = typename Arch::f32;
  const Steps<Arch> steps = given;  // copies that stores to y cannot touch
  const Piece p = piece;
  each_vector<F>(
      p, [&](std::size_t j, auto count) __attribute__((always_inline)) {
        const float* from = p.r + j;
        for (std::size_t i = 0; i < p.rows; ++i, from += p.stride)
          steps.store((p.m + i) * steps.y_stride + p.n + j, F::load_aligned(from), count);
      });
}

// In passes over a piece that stays in the L1 cache, so that each step of each kind exists once.
template <class Arch, class Acc>
void tile(const Epilogue& e, std::size_t m, std::size_t n, const EpilogueTile<Acc>& t) {
  alignas(64) float r[kPieceRows * kPieceColumns];
  const Steps<Arch> steps(e);
  for (std::size_t i = 0; i < t.rows; i += kPieceRows)
    for (std::size_t j = 0; j < t.count; j += kPieceColumns) {
      Piece piece{m + i,
                  n + j,
                  t.rows - i < kPieceRows ? t.rows - i : kPieceRows,
                  t.count - j < kPieceColumns ? t.count - j : kPieceColumns,
                  r,
                  0};
      piece.stride = (piece.count + 15) / 16 * 16;
      before_activation<Arch, Acc>(steps, e, piece, t.acc + i * t.stride + j, t.stride);
      if (e.activation != Activation::none)
        generic::with_activation(e.activation, [&]<Activation kActivation>() {
          activate<Arch, kActivation>(r, piece.rows * piece.stride, e.a, e.b);
        });
      after_activation<Arch>(steps, piece);
    }
}

}  // namespace epilogue_detail

template <class Arch, class Acc>
void epilogue_rows(const Epilogue& e, std::size_t m, std::size_t n, const EpilogueTile<Acc>& t) {
  if constexpr (std::is_same_v<Acc, std::int32_t>) {
    if (e.output_kind == OutputKind::s32) {
      std::int32_t* y = static_cast<std::int32_t*>(e.y) + m * e.y_stride + n;
      for (std::size_t r = 0; r < t.rows; ++r)
        std::memcpy(y + r * e.y_stride, t.acc + r * t.stride, t.count * sizeof(std::int32_t));
      return;
    }
  }
  epilogue_detail::tile<typename Arch::Base, Acc>(e, m, n, t);
}

template <class Arch>
void epilogue_row(const Epilogue& e, std::size_t m, std::size_t n, const float* acc,
                  std::size_t count) {
  epilogue_rows<Arch, float>(e, m, n, {acc, 0, 1, count});
}

template <class Arch>
void epilogue_row(const Epilogue& e, std::size_t m, std::size_t n, const std::int32_t* acc,
                  std::size_t count) {
  epilogue_rows<Arch, std::int32_t>(e, m, n, {acc, 0, 1, count});
}

template <class Arch>
void epilogue_row_s64(const Epilogue& e, std::size_t m, std::size_t n, const std::int64_t* acc,
                      std::size_t count) {
  constexpr std::size_t kPiece = 16;
  for (std::size_t j = 0; j < count; j += kPiece) {
    const std::size_t piece = count - j < kPiece ? count - j : kPiece;
    if (e.output_kind == OutputKind::s32) {
      std::int32_t wrapped[kPiece];
      for (std::size_t i = 0; i < piece; ++i)
        wrapped[i] = static_cast<std::int32_t>(static_cast<std::uint64_t>(acc[j + i]));
      epilogue_row<Arch>(e, m, n + j, wrapped, piece);
    } else {
      float rounded[kPiece];
      for (std::size_t i = 0; i < piece; ++i) rounded[i] = static_cast<float>(acc[j + i]);
      epilogue_row<Arch>(e, m, n + j, rounded, piece);
    }
  }
}

}  // namespace fold8::kernels::simd
