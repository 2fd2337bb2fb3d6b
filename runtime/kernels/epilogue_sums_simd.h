// The epilogue of the INT8 kernels for sums in memory, chosen once per call: one straight loop for
// each common combination instead of questions at every vector. Same bits as epilogue_simd.h, which
// does the rest (tables, other activations, s32). Include only from *_simd.h.
#pragma once

#include "runtime/kernels/epilogue_simd.h"

namespace fold8::kernels::simd {

// Rows [m, m + t.rows), columns [n, n + t.count). t.acc can be read up to a multiple of 16 columns.
using EpilogueSumsFn = void(const Epilogue& e, std::size_t m, std::size_t n,
                            const EpilogueTile<std::int32_t>& t);

namespace epilogue_sums {

enum class Store { f32, u8, divided_u8 };

// kResidual null: any, asked at every vector.
template <Activation kActivation, auto kResidual, Store kStore>
struct Combination {
  static constexpr Activation activation = kActivation;
  static constexpr Store store = kStore;
  [[gnu::always_inline]] static bool has(ResidualKind kind, const Epilogue& e) {
    if constexpr (std::is_same_v<decltype(kResidual), std::nullptr_t>)
      return e.residual_kind == kind;
    else
      return kResidual == kind;
  }
};

// One vector of columns of all rows; kFull: all its lanes are valid.
template <class Arch, class C, bool kFull>
[[gnu::always_inline]] inline void column(const Epilogue& e, std::size_t m, std::size_t n,
                                          const EpilogueTile<std::int32_t>& t,
                                          const std::int32_t* acc, std::size_t left) {
  using F = typename Arch::f32;
  using Io = VectorIo<F>;
  const std::size_t count = kFull ? Io::kLanes : left;
  const F multiplier = Io::load(e.multiplier + n, count),
          offset = e.offset ? Io::load(e.offset + n, count) : F(0.0f),
          residual_scale(e.residual_scale);
  const float lowest = static_cast<float>(-e.y_zero_point);
  const epilogue_detail::Quotient<F> quotient(e.y_divisor, lowest, 255 + lowest);
  const F lo(lowest), hi(255 + lowest);
  const float* row_scale = e.row_scale ? e.row_scale + m : nullptr;
  const std::size_t residual_size = C::has(ResidualKind::f32, e) ? sizeof(float) : 1,
                    residual_step = e.residual_stride * residual_size,
                    y_size = C::store == Store::f32 ? sizeof(float) : 1,
                    y_step = e.y_stride * y_size;
  const std::uint8_t* residual = static_cast<const std::uint8_t*>(e.residual);
  if (!C::has(ResidualKind::none, e)) residual += m * residual_step + n * residual_size;
  std::uint8_t* y = static_cast<std::uint8_t*>(e.y) + m * y_step + n * y_size;
  const std::int32_t residual_zero = -e.residual_zero_point, zero = e.y_zero_point;
  const float a = e.a, b = e.b;
  const std::size_t rows = t.rows, stride = t.stride;
#pragma GCC unroll 2
  for (std::size_t row = 0; row < rows; ++row, acc += stride, y += y_step) {
    F r = Io::to_float(Io::load(acc, Io::kLanes));
    if (row_scale) r = r * F(row_scale[row]);
    r = Lanes<F>::fma(r, multiplier, offset);
    if (C::has(ResidualKind::f32, e))
      r = Lanes<F>::fma(Io::load(reinterpret_cast<const float*>(residual), count), residual_scale,
                        r);
    if (C::has(ResidualKind::u8, e))
      r = Lanes<F>::fma(Io::to_float(Io::add(Io::load(residual, count), residual_zero)),
                        residual_scale, r);
    if (!C::has(ResidualKind::none, e)) residual += residual_step;
    r = epilogue_activate<C::activation, F>(r, a, b);
    if constexpr (C::store == Store::f32) {
      Io::store(reinterpret_cast<float*>(y), r, count);
    } else {
      r = C::store == Store::divided_u8 ? quotient(r) : Io::clamp(r, lo, hi);
      Io::store_bytes(y, Io::add(Io::round(r), zero), count);
    }
  }
}

template <class Arch, class C>
[[gnu::noinline]] void rows(const Epilogue& epilogue, std::size_t m, std::size_t n,
                            const EpilogueTile<std::int32_t>& t) {
  constexpr std::size_t kLanes = VectorIo<typename Arch::f32>::kLanes;
  const Epilogue e = epilogue;  // copies that stores to y cannot touch
  const EpilogueTile<std::int32_t> tile = t;
  std::size_t j = 0;
  for (; j + kLanes <= tile.count; j += kLanes)
    column<Arch, C, true>(e, m, n + j, tile, tile.acc + j, kLanes);
  if (j < tile.count) column<Arch, C, false>(e, m, n + j, tile, tile.acc + j, tile.count - j);
}

template <class Arch, Activation kActivation, Store kStore>
EpilogueSumsFn* with_residual(ResidualKind residual) {
  switch (residual) {
    case ResidualKind::none:
      return &rows<Arch, Combination<kActivation, ResidualKind::none, kStore>>;
    case ResidualKind::f32:
      return &rows<Arch, Combination<kActivation, ResidualKind::f32, kStore>>;
    default:
      return &rows<Arch, Combination<kActivation, ResidualKind::u8, kStore>>;
  }
}

// Activations that codes are clamped to, or none.
template <class Arch, Store kStore>
EpilogueSumsFn* with_clip(const Epilogue& e) {
  if (e.activation == Activation::none)
    return with_residual<Arch, Activation::none, kStore>(e.residual_kind);
  if (e.activation == Activation::clip)
    return with_residual<Arch, Activation::clip, kStore>(e.residual_kind);
  return nullptr;
}

// The others that are cheap, and those of Transformers, whose results are f32.
template <class Arch, Store kStore>
EpilogueSumsFn* with_activation(const Epilogue& e) {
  switch (e.activation) {
    case Activation::leaky_relu:
      return &rows<Arch, Combination<Activation::leaky_relu, nullptr, kStore>>;
    case Activation::hard_sigmoid:
      return &rows<Arch, Combination<Activation::hard_sigmoid, nullptr, kStore>>;
    case Activation::hard_swish:
      return &rows<Arch, Combination<Activation::hard_swish, nullptr, kStore>>;
    case Activation::gelu_erf:
      if constexpr (kStore == Store::f32)
        return &rows<Arch, Combination<Activation::gelu_erf, nullptr, kStore>>;
      return nullptr;
    case Activation::silu:
      if constexpr (kStore == Store::f32)
        return &rows<Arch, Combination<Activation::silu, nullptr, kStore>>;
      return nullptr;
    default:
      return nullptr;
  }
}

}  // namespace epilogue_sums

// Null where the combination is not among the common ones.
template <class Arch>
EpilogueSumsFn* epilogue_sums_of(const Epilogue& e) {
  using epilogue_sums::Store;
  using Base = typename Arch::Base;
  if (e.output_kind == OutputKind::f32) {
    EpilogueSumsFn* const clip = epilogue_sums::with_clip<Base, Store::f32>(e);
    return clip ? clip : epilogue_sums::with_activation<Base, Store::f32>(e);
  }
  if (e.output_kind != OutputKind::u8 || e.table != nullptr) return nullptr;
  if (e.y_divisor == 0) return epilogue_sums::with_clip<Base, Store::u8>(e);
  if (!epilogue_detail::Quotient<typename Arch::f32>::exact(e.y_divisor)) return nullptr;
  return epilogue_sums::with_activation<Base, Store::divided_u8>(e);
}

}  // namespace fold8::kernels::simd
