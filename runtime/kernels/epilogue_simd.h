// The epilogue (epilogue.h) of a piece of one row, for every vector target. Include only from *_simd.h.
//
// A matrix kernel leaves the accumulators of a tile in a small buffer and calls, for each row of the tile,
//   epilogue_row<Arch>(e, m, n, acc, count)          columns [n, n + count) of row m
// with acc of type const float* (f32 kernels: the FMA chains) or const std::int32_t* (INT8 kernels: exact sums), or
//   epilogue_row_s64<Arch>(...)                       for sums longer than 32 bits.
// acc is read up to count elements, no further. m, n and the strides index the arrays inside e.
#pragma once

#include <cstring>
#include <type_traits>

#include "runtime/kernels/epilogue_activation.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/lanes_simd.h"
#include "runtime/kernels/vec16_simd.h"
#include "runtime/kernels/vector_io_simd.h"

namespace fold8::kernels::simd {

namespace epilogue_detail {

// acc, scaled and shifted.
template <class Arch, class Acc>
[[gnu::always_inline]] inline typename Arch::f32 scaled(const Epilogue& e, std::size_t m, std::size_t n,
                                                        const Acc* acc, std::size_t count) {
  using F = typename Arch::f32;
  using Io = VectorIo<F>;
  const F offset = e.offset ? Io::load(e.offset + n, count) : F(0.0f);
  if constexpr (std::is_same_v<Acc, float>) {
    if (e.multiplier == nullptr) return Io::load(acc, count) + offset;
    F r = Io::load(acc, count);  // an integer sum already rounded to f32
    if (e.row_scale) r = r * F(e.row_scale[m]);
    return Lanes<F>::fma(r, Io::load(e.multiplier + n, count), offset);
  } else {
    F r = Io::to_float(Io::load(acc, count));
    if (e.row_scale) r = r * F(e.row_scale[m]);
    return Lanes<F>::fma(r, Io::load(e.multiplier + n, count), offset);
  }
}

template <class Arch>
[[gnu::always_inline]] inline typename Arch::f32 plus_residual(const Epilogue& e, std::size_t at, typename Arch::f32 r,
                                                               std::size_t count) {
  using F = typename Arch::f32;
  using Io = VectorIo<F>;
  if (e.residual_kind == ResidualKind::none) return r;
  if (e.residual_kind == ResidualKind::f32)
    return Lanes<F>::fma(Io::load(static_cast<const float*>(e.residual) + at, count), F(e.residual_scale), r);
  const auto q = Io::load(static_cast<const std::uint8_t*>(e.residual) + at, count);
  return Lanes<F>::fma(Io::to_float(Io::add(q, -e.residual_zero_point)), F(e.residual_scale), r);
}

template <class Arch>
[[gnu::always_inline]] inline void store(const Epilogue& e, std::size_t at, typename Arch::f32 r, std::size_t count) {
  using F = typename Arch::f32;
  using Io = VectorIo<F>;
  if (e.output_kind == OutputKind::f32) return Io::store(static_cast<float*>(e.y) + at, r, count);
  const std::int32_t z = e.y_zero_point;
  if (e.y_divisor != 0) r = r / F(e.y_divisor);
  r = Io::clamp(r, static_cast<float>(-z), static_cast<float>(255 - z));
  std::uint8_t* y = static_cast<std::uint8_t*>(e.y) + at;
  Io::store_bytes(y, Io::add(Io::round(r), z), count);
  if (e.table != nullptr)
    for (std::size_t i = 0; i < count && i < Io::kLanes; ++i) y[i] = e.table[y[i]];
}

template <class Arch, Activation kActivation, class Acc>
[[gnu::noinline]] void row(const Epilogue& e, std::size_t m, std::size_t n, const Acc* acc, std::size_t count) {
  constexpr std::size_t kLanes = VectorIo<typename Arch::f32>::kLanes;
  const std::size_t residual_at = m * e.residual_stride + n, y_at = m * e.y_stride + n;
  for (std::size_t j = 0; j < count; j += 16) {
    const auto left = [&](int part) { return count > j + part * kLanes ? count - j - part * kLanes : 0; };
    V16<Arch> r = V16<Arch>::make([&](int part) {
      const std::size_t at = j + static_cast<std::size_t>(part) * kLanes, columns = left(part);
      return plus_residual<Arch>(e, residual_at + at, scaled<Arch>(e, m, n + at, acc + at, columns), columns);
    });
    r = epilogue_activate<kActivation, V16<Arch>>(r, e.a, e.b);
    for (int part = 0; part < V16<Arch>::kParts; ++part)
      store<Arch>(e, y_at + j + static_cast<std::size_t>(part) * kLanes, r.part[part], left(part));
  }
}

template <class Arch, class Acc>
void row_of(const Epilogue& e, std::size_t m, std::size_t n, const Acc* acc, std::size_t count) {
  generic::with_activation(e.activation, [&]<Activation kActivation>() { row<Arch, kActivation>(e, m, n, acc, count); });
}

}  // namespace epilogue_detail

template <class Arch>
void epilogue_row(const Epilogue& e, std::size_t m, std::size_t n, const float* acc, std::size_t count) {
  epilogue_detail::row_of<Arch>(e, m, n, acc, count);
}

template <class Arch>
void epilogue_row(const Epilogue& e, std::size_t m, std::size_t n, const std::int32_t* acc, std::size_t count) {
  if (e.output_kind == OutputKind::s32) {
    std::memcpy(static_cast<std::int32_t*>(e.y) + m * e.y_stride + n, acc, count * sizeof(std::int32_t));
    return;
  }
  epilogue_detail::row_of<Arch>(e, m, n, acc, count);
}

template <class Arch>
void epilogue_row_s64(const Epilogue& e, std::size_t m, std::size_t n, const std::int64_t* acc, std::size_t count) {
  constexpr std::size_t kPiece = 16;
  for (std::size_t j = 0; j < count; j += kPiece) {
    const std::size_t piece = count - j < kPiece ? count - j : kPiece;
    if (e.output_kind == OutputKind::s32) {
      std::int32_t wrapped[kPiece];
      for (std::size_t i = 0; i < piece; ++i) wrapped[i] = static_cast<std::int32_t>(static_cast<std::uint64_t>(acc[j + i]));
      epilogue_row<Arch>(e, m, n + j, wrapped, piece);
    } else {
      float rounded[kPiece];
      for (std::size_t i = 0; i < piece; ++i) rounded[i] = static_cast<float>(acc[j + i]);
      epilogue_detail::row_of<Arch>(e, m, n + j, rounded, piece);
    }
  }
}

}  // namespace fold8::kernels::simd
