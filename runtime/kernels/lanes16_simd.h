// Sixteen floats as one value on every instruction set: one register of 16 or two of 8. Row sums
// need exactly this width, and one width for all bodies makes tails alike. Include only from
// *_simd.h.
#pragma once

#include "runtime/kernels/lanes_simd.h"

namespace fold8::kernels {

// Without these the pairs of registers below pass through memory on AVX2: loops are unrolled too
// late for gcc to see that `part` is two registers and no array.
#define FOLD8_INLINE [[gnu::always_inline]] inline
#define FOLD8_INLINE_LAMBDA __attribute__((always_inline))

// f(0), f(1), ... f(n - 1), unrolled.
template <int n, class Function>
FOLD8_INLINE void for_parts(Function&& f) {
  static_assert(n >= 1 && n <= 4);
  f(0);
  if constexpr (n > 1) f(1);
  if constexpr (n > 2) f(2);
  if constexpr (n > 3) f(3);
}

template <class Arch>
struct V16 {
  using F = typename Arch::f32;
  static constexpr int kParts = 16 / static_cast<int>(F::size);
  F part[kParts];
  V16() = default;
  FOLD8_INLINE explicit V16(float value) {
    for_parts<kParts>([&](int i) FOLD8_INLINE_LAMBDA { part[i] = F(value); });
  }
  template <class Make>
  FOLD8_INLINE static V16 make(Make&& f) {
    V16 r;
    for_parts<kParts>([&](int i) FOLD8_INLINE_LAMBDA { r.part[i] = f(i); });
    return r;
  }
};

template <class Arch>
struct I16 {
  using I = typename Arch::s32;
  static constexpr int kParts = V16<Arch>::kParts;
  I part[kParts];
  I16() = default;
  FOLD8_INLINE explicit I16(std::int32_t value) {
    for_parts<kParts>([&](int i) FOLD8_INLINE_LAMBDA { part[i] = I(value); });
  }
  template <class Make>
  FOLD8_INLINE static I16 make(Make&& f) {
    I16 r;
    for_parts<kParts>([&](int i) FOLD8_INLINE_LAMBDA { r.part[i] = f(i); });
    return r;
  }
};

template <class Arch>
struct M16 {
  typename Lanes<typename Arch::f32>::Mask part[V16<Arch>::kParts];
  template <class Make>
  FOLD8_INLINE static M16 make(Make&& f) {
    M16 r;
    for_parts<V16<Arch>::kParts>([&](int i) FOLD8_INLINE_LAMBDA { r.part[i] = f(i); });
    return r;
  }
};

#define FOLD8_V16_OPERATOR(Result, Operand, op)                                                   \
  template <class Arch>                                                                           \
  FOLD8_INLINE Result<Arch> operator op(Operand<Arch> a, Operand<Arch> b) {                       \
    return Result<Arch>::make([&](int i) FOLD8_INLINE_LAMBDA { return a.part[i] op b.part[i]; }); \
  }
FOLD8_V16_OPERATOR(V16, V16, +)
FOLD8_V16_OPERATOR(V16, V16, -)
FOLD8_V16_OPERATOR(V16, V16, *)
FOLD8_V16_OPERATOR(V16, V16, /)
FOLD8_V16_OPERATOR(M16, V16, <)
FOLD8_V16_OPERATOR(M16, V16, >)
FOLD8_V16_OPERATOR(M16, V16, >=)
FOLD8_V16_OPERATOR(M16, V16, ==)
FOLD8_V16_OPERATOR(I16, I16, +)
FOLD8_V16_OPERATOR(I16, I16, -)
FOLD8_V16_OPERATOR(I16, I16, *)
FOLD8_V16_OPERATOR(I16, I16, &)
FOLD8_V16_OPERATOR(I16, I16, |)
FOLD8_V16_OPERATOR(I16, I16, ^)
#undef FOLD8_V16_OPERATOR

template <class Arch>
FOLD8_INLINE I16<Arch> operator<<(I16<Arch> a, int n) {
  return I16<Arch>::make([&](int i) FOLD8_INLINE_LAMBDA { return a.part[i] << n; });
}
template <class Arch>
FOLD8_INLINE I16<Arch> operator>>(I16<Arch> a, int n) {
  return I16<Arch>::make([&](int i) FOLD8_INLINE_LAMBDA { return a.part[i] >> n; });
}

// The words of lanes_ref.h, part by part.
template <class Arch>
struct Lanes<V16<Arch>> {
  using V = V16<Arch>;
  using L = Lanes<typename Arch::f32>;
  using Int = I16<Arch>;
  using Mask = M16<Arch>;
  FOLD8_INLINE static V fma(V a, V b, V c) {
    return V::make([&](int i)
                       FOLD8_INLINE_LAMBDA { return L::fma(a.part[i], b.part[i], c.part[i]); });
  }
  FOLD8_INLINE static V select(Mask m, V a, V b) {
    return V::make([&](int i)
                       FOLD8_INLINE_LAMBDA { return L::select(m.part[i], a.part[i], b.part[i]); });
  }
  FOLD8_INLINE static Mask is_nan(V a) {
    return Mask::make([&](int i) FOLD8_INLINE_LAMBDA { return L::is_nan(a.part[i]); });
  }
  FOLD8_INLINE static V sqrt(V a) {
    return V::make([&](int i) FOLD8_INLINE_LAMBDA { return L::sqrt(a.part[i]); });
  }
  FOLD8_INLINE static V floor(V a) {
    return V::make([&](int i) FOLD8_INLINE_LAMBDA { return L::floor(a.part[i]); });
  }
  FOLD8_INLINE static V ceil(V a) {
    return V::make([&](int i) FOLD8_INLINE_LAMBDA { return L::ceil(a.part[i]); });
  }
  FOLD8_INLINE static V trunc(V a) {
    return V::make([&](int i) FOLD8_INLINE_LAMBDA { return L::trunc(a.part[i]); });
  }
  FOLD8_INLINE static V round(V a) {
    return V::make([&](int i) FOLD8_INLINE_LAMBDA { return L::round(a.part[i]); });
  }
  FOLD8_INLINE static Int bits(V a) {
    return Int::make([&](int i) FOLD8_INLINE_LAMBDA { return L::bits(a.part[i]); });
  }
  FOLD8_INLINE static V from_bits(Int a) {
    return V::make([&](int i) FOLD8_INLINE_LAMBDA { return L::from_bits(a.part[i]); });
  }
  FOLD8_INLINE static Int to_int(V a) {
    return Int::make([&](int i) FOLD8_INLINE_LAMBDA { return L::to_int(a.part[i]); });
  }
  FOLD8_INLINE static V to_float(Int a) {
    return V::make([&](int i) FOLD8_INLINE_LAMBDA { return L::to_float(a.part[i]); });
  }
  FOLD8_INLINE static V min(V a, V b) {
    return V::make([&](int i) FOLD8_INLINE_LAMBDA { return L::min(a.part[i], b.part[i]); });
  }
  FOLD8_INLINE static V max(V a, V b) {
    return V::make([&](int i) FOLD8_INLINE_LAMBDA { return L::max(a.part[i], b.part[i]); });
  }
  FOLD8_INLINE static V scale2(V a, V n) {
    return V::make([&](int i) FOLD8_INLINE_LAMBDA { return L::scale2(a.part[i], n.part[i]); });
  }
};

}  // namespace fold8::kernels
