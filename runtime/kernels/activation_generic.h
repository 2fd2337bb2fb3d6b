// The activations of runtime/core/activation.h, operation by operation; F is float or a batch (see
// math_generic.h).
#pragma once

#include "runtime/core/activation.h"
#include "runtime/kernels/math_generic.h"

namespace fold8::kernels::generic {

// min(max(r, a), b), NaN stays NaN. A bound that is met is returned: ReLU(-0) = +0 as a = +0.
template <class F>
inline F clip(F r, F a, F b) {
  using L = Lanes<F>;
  return L::select(L::is_nan(r), r, L::min(b, L::max(r, a)));
}

template <class F>
inline F hard_sigmoid(F r, F a, F b) {
  using L = Lanes<F>;
  return L::min(F(1.0f), L::max(F(0.0f), L::fma(a, r, b)));
}

template <class F>
inline F gelu_erf(F r) {
  return (F(0.5f) * r) * (F(1.0f) + generic::erf(r * F(0x1.6a09e6p-1f)));
}

template <class F>
inline F gelu_tanh(F r) {
  const F inner = Lanes<F>::fma(F(0.044715f), (r * r) * r, r) * F(0x1.988454p-1f);
  return (F(0.5f) * r) * (F(1.0f) + generic::tanh(inner));
}

template <class F>
inline F elu(F r, F a) {
  return Lanes<F>::select(r < F(0.0f), a * (generic::exp(r) - F(1.0f)), r);
}

// kind as a template argument, for loops that must not branch inside.
template <Activation kind, class F>
inline F activate(F r, F a, F b) {
  using L = Lanes<F>;
  if constexpr (kind == Activation::clip) return generic::clip(r, a, b);
  if constexpr (kind == Activation::leaky_relu) return L::select(r < F(0.0f), a * r, r);
  if constexpr (kind == Activation::hard_sigmoid) return generic::hard_sigmoid(r, a, b);
  if constexpr (kind == Activation::hard_swish) return r * generic::hard_sigmoid(r, a, b);
  if constexpr (kind == Activation::sigmoid) return generic::sigmoid(r);
  if constexpr (kind == Activation::silu) return r * generic::sigmoid(a * r);
  if constexpr (kind == Activation::tanh) return generic::tanh(r);
  if constexpr (kind == Activation::gelu_erf) return generic::gelu_erf(r);
  if constexpr (kind == Activation::gelu_tanh) return generic::gelu_tanh(r);
  if constexpr (kind == Activation::elu) return generic::elu(r, a);
  return r;
}

// Calls f.template operator()<kind>() for the kind known only at run time.
template <class Function>
inline void with_activation(Activation kind, Function&& f) {
  switch (kind) {
    case Activation::none:
      return f.template operator()<Activation::none>();
    case Activation::clip:
      return f.template operator()<Activation::clip>();
    case Activation::leaky_relu:
      return f.template operator()<Activation::leaky_relu>();
    case Activation::hard_sigmoid:
      return f.template operator()<Activation::hard_sigmoid>();
    case Activation::hard_swish:
      return f.template operator()<Activation::hard_swish>();
    case Activation::sigmoid:
      return f.template operator()<Activation::sigmoid>();
    case Activation::silu:
      return f.template operator()<Activation::silu>();
    case Activation::tanh:
      return f.template operator()<Activation::tanh>();
    case Activation::gelu_erf:
      return f.template operator()<Activation::gelu_erf>();
    case Activation::gelu_tanh:
      return f.template operator()<Activation::gelu_tanh>();
    case Activation::elu:
      return f.template operator()<Activation::elu>();
  }
}

template <class F>
inline F apply(Activation kind, F a, F b, F r) {
  switch (kind) {
    case Activation::none:
      return r;
    case Activation::clip:
      return generic::activate<Activation::clip>(r, a, b);
    case Activation::leaky_relu:
      return generic::activate<Activation::leaky_relu>(r, a, b);
    case Activation::hard_sigmoid:
      return generic::activate<Activation::hard_sigmoid>(r, a, b);
    case Activation::hard_swish:
      return generic::activate<Activation::hard_swish>(r, a, b);
    case Activation::sigmoid:
      return generic::activate<Activation::sigmoid>(r, a, b);
    case Activation::silu:
      return generic::activate<Activation::silu>(r, a, b);
    case Activation::tanh:
      return generic::activate<Activation::tanh>(r, a, b);
    case Activation::gelu_erf:
      return generic::activate<Activation::gelu_erf>(r, a, b);
    case Activation::gelu_tanh:
      return generic::activate<Activation::gelu_tanh>(r, a, b);
    case Activation::elu:
      return generic::activate<Activation::elu>(r, a, b);
  }
  return r;
}

}  // namespace fold8::kernels::generic
