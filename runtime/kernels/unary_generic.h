// unary.h operation by operation; F is float or a batch (see math_generic.h). Kinds from sin on are
// not here.
#pragma once

#include "runtime/kernels/activation_generic.h"
#include "runtime/kernels/unary.h"

namespace fold8::kernels::generic {

inline constexpr bool is_scalar_kind(UnaryKind kind) { return kind >= UnaryKind::sin; }

template <class F>
inline F sign(F x) {
  using L = Lanes<F>;
  const F s = L::select(x > F(0.0f), F(1.0f), L::select(x < F(0.0f), F(-1.0f), F(0.0f)));
  return L::select(L::is_nan(x), x, s);
}

template <class F>
inline F shrink(F x, F a, F b) {
  using L = Lanes<F>;
  const F s = L::select(x < generic::neg(a), x + b, L::select(x > a, x - b, F(0.0f)));
  return L::select(L::is_nan(x), x, s);
}

template <UnaryKind kind, class F>
inline F unary(F x, F a, F b) {
  using L = Lanes<F>;
  using K = UnaryKind;
  constexpr int number = static_cast<int>(kind);
  if constexpr (number <= static_cast<int>(K::elu))
    return activate<static_cast<Activation>(number)>(x, a, b);
  if constexpr (kind == K::abs) return generic::abs(x);
  if constexpr (kind == K::neg) return generic::neg(x);
  if constexpr (kind == K::sqrt) return L::sqrt(x);
  if constexpr (kind == K::exp) return generic::exp(x);
  if constexpr (kind == K::log) return generic::log(x);
  if constexpr (kind == K::reciprocal) return F(1.0f) / x;
  if constexpr (kind == K::floor) return L::floor(x);
  if constexpr (kind == K::ceil) return L::ceil(x);
  if constexpr (kind == K::round) return L::round(x);
  if constexpr (kind == K::trunc) return L::trunc(x);
  if constexpr (kind == K::sign) return sign(x);
  if constexpr (kind == K::erf) return generic::erf(x);
  if constexpr (kind == K::softplus) return generic::softplus(x);
  if constexpr (kind == K::softsign) return x / (F(1.0f) + generic::abs(x));
  if constexpr (kind == K::mish) return x * generic::tanh(generic::softplus(x));
  if constexpr (kind == K::selu) return b * generic::elu(x, a);
  if constexpr (kind == K::celu)
    return L::select(x < F(0.0f), a * (generic::exp(x / a) - F(1.0f)), x);
  if constexpr (kind == K::thresholded_relu)
    return L::select(L::is_nan(x), x, L::select(x > a, x, F(0.0f)));
  if constexpr (kind == K::square) return x * x;
  if constexpr (kind == K::shrink) return shrink(x, a, b);
  if constexpr (kind == K::canonical_nan) return L::select(L::is_nan(x), F(__builtin_nanf("")), x);
  if constexpr (kind == K::affine) return L::fma(x, a, b);
  return x;
}

// Calls f.template operator()<kind>() for the kind known only at run time; scalar kinds do not come
// here.
template <class Function>
inline void with_unary(UnaryKind kind, Function&& f) {
  switch (kind) {
#define FOLD8_UNARY(name) \
  case UnaryKind::name:   \
    return f.template operator()<UnaryKind::name>();
    FOLD8_UNARY(identity)
    FOLD8_UNARY(clip)
    FOLD8_UNARY(leaky_relu)
    FOLD8_UNARY(hard_sigmoid) FOLD8_UNARY(hard_swish) FOLD8_UNARY(sigmoid) FOLD8_UNARY(silu)
        FOLD8_UNARY(tanh) FOLD8_UNARY(gelu_erf) FOLD8_UNARY(gelu_tanh) FOLD8_UNARY(elu)
            FOLD8_UNARY(abs) FOLD8_UNARY(neg) FOLD8_UNARY(sqrt) FOLD8_UNARY(exp) FOLD8_UNARY(log)
                FOLD8_UNARY(reciprocal) FOLD8_UNARY(floor) FOLD8_UNARY(ceil) FOLD8_UNARY(round)
                    FOLD8_UNARY(sign) FOLD8_UNARY(erf) FOLD8_UNARY(softplus) FOLD8_UNARY(softsign)
                        FOLD8_UNARY(mish) FOLD8_UNARY(selu) FOLD8_UNARY(celu)
                            FOLD8_UNARY(thresholded_relu) FOLD8_UNARY(square) FOLD8_UNARY(trunc)
                                FOLD8_UNARY(shrink) FOLD8_UNARY(canonical_nan) FOLD8_UNARY(affine)
#undef FOLD8_UNARY
                                    default : return;
  }
}

}  // namespace fold8::kernels::generic
