#pragma once

#include "runtime/kernels/quantize_quotient_simd.h"
#include "runtime/kernels/scalar_functions.h"
#include "runtime/kernels/unary_generic.h"
#include "runtime/kernels/vec16_simd.h"

namespace fold8::kernels::simd {

// Stores t as f32 and/or u8, whichever is asked for.
template <class Arch>
struct StoreF32U8 {
  float* y;
  std::uint8_t* q;
  RoundQuotient<Arch> codes;
  StoreF32U8(float* y_, std::uint8_t* q_, float q_scale, std::int32_t q_zero_point)
      : y(y_), q(q_), codes(q_scale, q_zero_point, 0, 255) {}
  template <class N>
  FOLD8_INLINE void operator()(std::size_t j, N n, V16<Arch> t) const {
    if (y != nullptr) store<Arch>(y + j, n, t);
    if (q != nullptr) store_u8_saturated<Arch>(q + j, n, codes.unclamped(t));
  }
};

// f of each of the 16 values, one at a time; only the first n are computed.
template <class Arch, class Function>
inline V16<Arch> one_by_one(V16<Arch> x, int n, Function&& f) {
  alignas(64) float t[16];
  Memory16<Arch>::store(t, x);
  for (int i = 0; i < n; ++i) t[i] = f(t[i], i);
  return Memory16<Arch>::load(t);
}
inline constexpr int count(Full) { return 16; }
inline constexpr int count(int n) { return n; }

// Functions so long that a detour through the L1 cache is nothing beside them: they exist once, for
// blocks of 16 values.
constexpr bool is_long(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::sigmoid:
    case UnaryKind::silu:
    case UnaryKind::tanh:
    case UnaryKind::gelu_erf:
    case UnaryKind::gelu_tanh:
    case UnaryKind::elu:
    case UnaryKind::exp:
    case UnaryKind::log:
    case UnaryKind::erf:
    case UnaryKind::softplus:
    case UnaryKind::mish:
    case UnaryKind::selu:
    case UnaryKind::celu:
      return true;
    default:
      return false;
  }
}

using UnaryBlocksFn = void(const float* x, float* y, std::size_t blocks, float a, float b);

template <class Arch, UnaryKind kind>
[[gnu::noinline]] void unary_blocks(const float* x, float* y, std::size_t blocks, float a,
                                    float b) {
  using V = V16<Arch>;
  const V va(a), vb(b);
  for (; blocks > 0; --blocks, x += 16, y += 16)
    Memory16<Arch>::store(y, generic::unary<kind>(Memory16<Arch>::load(x), va, vb));
}

template <class Arch>
void unary_long(const UnaryArgs& args, UnaryBlocksFn* f) {
  const StoreF32U8<Arch> write(args.y, args.q, args.q_scale, args.q_zero_point);
  constexpr std::size_t kPiece = 256;
  alignas(64) float t[kPiece];
  std::size_t done = 0;
  if (args.q == nullptr) {
    done = args.n / 16 * 16;
    f(args.x, args.y, done / 16, args.a, args.b);
  }
  for (std::size_t n; done < args.n; done += n) {
    n = args.n - done < kPiece ? args.n - done : kPiece;
    const std::size_t whole = n / 16 * 16, rest = n % 16;
    f(args.x + done, t, whole / 16, args.a, args.b);
    if (rest != 0) {
      Memory16<Arch>::store(t + whole, load<Arch>(args.x + done + whole, static_cast<int>(rest)));
      f(t + whole, t + whole, 1, args.a, args.b);
    }
    for_steps<Arch>(n, [&](std::size_t j, auto m)
                           FOLD8_INLINE_LAMBDA { write(done + j, m, load<Arch>(t + j, m)); });
  }
}

template <class Arch>
void unary(const UnaryArgs& args) {
  using V = V16<Arch>;
  const float* x = args.x;
  const StoreF32U8<Arch> write(args.y, args.q, args.q_scale, args.q_zero_point);
  if (generic::is_scalar_kind(args.kind)) {
    for_steps<Arch>(args.n, [&](std::size_t j, auto n) {
      write(j, n, one_by_one<Arch>(load<Arch>(x + j, n), count(n), [&](float v, int) {
              return unary_scalar(args.kind, v);
            }));
    });
    return;
  }
  const V a(args.a), b(args.b);
  generic::with_unary(args.kind, [&]<UnaryKind kind>() {
    if constexpr (is_long(kind)) {
      unary_long<Arch>(args, &unary_blocks<Arch, kind>);
    } else if (args.q == nullptr) {
      float* y = args.y;
      for_steps<Arch>(args.n, [&](std::size_t j, auto n) {
        store<Arch>(y + j, n, generic::unary<kind>(load<Arch>(x + j, n), a, b));
      });
    } else {
      for_steps<Arch>(args.n, [&](std::size_t j, auto n) {
        write(j, n, generic::unary<kind>(load<Arch>(x + j, n), a, b));
      });
    }
  });
}

}  // namespace fold8::kernels::simd
