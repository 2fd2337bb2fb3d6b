#pragma once

#include "runtime/kernels/activation_simd.h"
#include "runtime/kernels/binary.h"
#include "runtime/kernels/binary_gate_simd.h"
#include "runtime/kernels/binary_repeat_simd.h"
#include "runtime/kernels/broadcast.h"
#include "runtime/kernels/unary_simd.h"

namespace fold8::kernels::simd {

// Calls f(begin, count, a offset, b offset) for each piece of a row that lies in [begin, end).
template <class Arch, class Function>
inline void for_rows(const Broadcast& plan, std::size_t begin, std::size_t end, Function&& f) {
  if (begin >= end) return;
  const std::size_t row = plan.shape[plan.rank - 1];
  const std::ptrdiff_t a_step = plan.a_stride[plan.rank - 1], b_step = plan.b_stride[plan.rank - 1];
  BroadcastCursor cursor = seek(plan, begin);
  const int middle = plan.rank - 2;
  while (begin < end) {
    const std::size_t left = end - begin,
                      n = row - cursor.column < left ? row - cursor.column : left;
    const auto column = static_cast<std::ptrdiff_t>(cursor.column);
    f(begin, n, cursor.a + column * a_step, cursor.b + column * b_step);
    begin += n;
    if (middle >= 0 &&
        cursor.index[middle] + 1 < plan.shape[middle]) {  // next_row, without the call
      ++cursor.index[middle];
      cursor.a += plan.a_stride[middle];
      cursor.b += plan.b_stride[middle];
      cursor.column = 0;
    } else {
      next_row(plan, cursor);
    }
  }
}

// Sixteen (or n) values of a row whose neighbours are `step` apart.
template <class Arch, class N>
FOLD8_INLINE V16<Arch> load_step(const float* p, std::ptrdiff_t step, N n) {
  if (step == 1) return load<Arch>(p, n);
  if (step == 0) return V16<Arch>(*p);
  alignas(64) float t[16] = {};
  for (int i = 0; i < count(n); ++i) t[i] = p[i * step];
  return Memory16<Arch>::load(t);
}
template <class Arch, class N>
FOLD8_INLINE I16<Arch> load_step(const std::uint8_t* p, std::ptrdiff_t step, N n) {
  if (step == 1) return load_u8<Arch>(p, n);
  if (step == 0) return I16<Arch>(*p);
  alignas(16) std::uint8_t t[16] = {};
  for (int i = 0; i < count(n); ++i) t[i] = p[i * step];
  return load_u8<Arch>(t, Full{});
}

template <class Arch, class N>
FOLD8_INLINE V16<Arch> load_operand(const BinaryOperand& o, std::ptrdiff_t at, std::ptrdiff_t step,
                                    N n) {
  if (o.f32 != nullptr) return load_step<Arch>(o.f32 + at, step, n);
  const I16<Arch> q = load_step<Arch>(o.u8 + at, step, n);
  return Lanes<V16<Arch>>::to_float(q - I16<Arch>(o.zero_point)) * V16<Arch>(o.scale);
}

template <class Arch>
inline V16<Arch> pow_steps(V16<Arch> p, V16<Arch> q, int n) {
  using M = Memory16<Arch>;
  if (M::any_mask(q == V16<Arch>(2.0f)) == 0xffff) return p * p;
  if (M::any_mask(q == V16<Arch>(3.0f)) == 0xffff) return (p * p) * p;
  alignas(64) float y[16];
  M::store(y, q);
  return one_by_one<Arch>(p, n, [&](float x, int i) { return pow_scalar(x, y[i]); });
}

// ReLU and ReLU6 stay in registers; the others are long enough to be a call.
template <class Arch>
FOLD8_INLINE V16<Arch> finish(Activation kind, float a, float b, V16<Arch> t) {
  if (kind == Activation::none) return t;
  if (kind == Activation::clip) return generic::clip(t, V16<Arch>(a), V16<Arch>(b));
  return apply(kind, a, b, t);
}

template <BinaryKind kind, class Arch>
FOLD8_INLINE V16<Arch> combine(V16<Arch> p, V16<Arch> q, int n) {
  using L = Lanes<V16<Arch>>;
  if constexpr (kind == BinaryKind::add) return p + q;
  if constexpr (kind == BinaryKind::sub) return p - q;
  if constexpr (kind == BinaryKind::mul) return p * q;
  if constexpr (kind == BinaryKind::div) return p / q;
  if constexpr (kind == BinaryKind::pow) return pow_steps<Arch>(p, q, n);
  if constexpr (kind == BinaryKind::min) return generic::min(p, q);
  if constexpr (kind == BinaryKind::max) return generic::max(p, q);
  if constexpr (kind == BinaryKind::prelu) return L::select(p < V16<Arch>(0.0f), q * p, p);
  if constexpr (kind == BinaryKind::mod) {
    alignas(64) float y[16];
    Memory16<Arch>::store(y, q);
    return one_by_one<Arch>(p, n, [&](float x, int i) { return mod_scalar(x, y[i]); });
  }
  return p;
}

// b: `period` values repeated along a, with this sign.
template <class Arch, BinaryKind kind>
void binary_repeated(const BinaryArgs& args, const Broadcast& plan, std::size_t period,
                     float sign) {
  using V = V16<Arch>;
  const StoreF32U8<Arch> write(args.y, args.q, args.q_scale, args.q_zero_point);
  const I16<Arch> zero(args.a.zero_point);
  const V scale(args.a.scale);
  for_rows<Arch>(
      plan, args.begin, args.end,
      [&](std::size_t at, std::size_t n, std::ptrdiff_t a_at, std::ptrdiff_t b_at) {
        const BinaryOperand& b = args.b;
        Repeated<Arch> gate(period, [&](std::size_t i) {
          const auto k = b_at + static_cast<std::ptrdiff_t>(i);
          return sign * (b.f32 != nullptr ? b.f32[k]
                                          : static_cast<float>(b.u8[k] - b.zero_point) * b.scale);
        });
        gate.start(at % period);
        const auto run = [&](auto&& a) FOLD8_INLINE_LAMBDA {
          for_steps<Arch>(n, [&](std::size_t j, auto m) FOLD8_INLINE_LAMBDA {
            const V t = combine<kind, Arch>(a(j, m), gate.next(), count(m));
            write(at + j, m, finish<Arch>(args.activation, args.act_a, args.act_b, t));
          });
        };
        if (args.a.f32 != nullptr)
          run([&](std::size_t j, auto m)
                  FOLD8_INLINE_LAMBDA { return load<Arch>(args.a.f32 + a_at + j, m); });
        else
          run([&](std::size_t j, auto m) FOLD8_INLINE_LAMBDA {
            return Lanes<V>::to_float(load_u8<Arch>(args.a.u8 + a_at + j, m) - zero) * scale;
          });
      });
}

// What networks do to maps with one value a channel: the others are not worth a body of their own.
inline constexpr bool may_repeat(BinaryKind kind) {
  return kind == BinaryKind::add || kind == BinaryKind::sub || kind == BinaryKind::mul ||
         kind == BinaryKind::prelu;
}

template <class Arch>
[[gnu::noinline]] void binary_gate(const BinaryArgs& args, const Broadcast& plan,
                                   std::size_t period) {
  for_rows<Arch>(plan, args.begin, args.end,
                 [&](std::size_t at, std::size_t n, std::ptrdiff_t a, std::ptrdiff_t b) {
                   GateTable<Arch> table(args, args.b.f32 + b, period);
                   table.start(at % period);
                   gate_run<Arch>(args, table, args.a.u8 + a, args.q + at, n);
                 });
}

template <class Arch, BinaryKind kind>
inline void binary_run(const BinaryArgs& args, const Broadcast& plan) {
  if constexpr (may_repeat(kind)) {
    Broadcast merged;
    if constexpr (kind == BinaryKind::mul)
      if (is_gate<Arch>(args, plan, merged))
        return binary_gate<Arch>(args, merged, plan.shape[plan.rank - 1]);
    if (repeats<Arch>(plan, merged)) {  // a - b is a + -b
      constexpr bool kSub = kind == BinaryKind::sub;
      return binary_repeated < Arch,
             kSub ? BinaryKind::add
                  : kind > (args, merged, plan.shape[plan.rank - 1], kSub ? -1.0f : 1.0f);
    }
  }
  const std::ptrdiff_t sa = plan.a_stride[plan.rank - 1], sb = plan.b_stride[plan.rank - 1];
  const bool plain = args.a.f32 != nullptr && args.b.f32 != nullptr &&
                     args.activation == Activation::none && args.q == nullptr && sa + sb <= 2 &&
                     sa >= 0 && sa <= 1 && sb >= 0;
  const StoreF32U8<Arch> write(args.y, args.q, args.q_scale, args.q_zero_point);
  for_rows<Arch>(
      plan, args.begin, args.end,
      [&](std::size_t at, std::size_t n, std::ptrdiff_t a_at, std::ptrdiff_t b_at) {
        float* y = args.y + at;
        const float *a = args.a.f32 + a_at, *b = args.b.f32 + b_at;
        if (plain && sa == 1 && sb == 1) {
          for_steps<Arch>(n, [&](std::size_t j, auto m) {
            store<Arch>(y + j, m,
                        combine<kind, Arch>(load<Arch>(a + j, m), load<Arch>(b + j, m), count(m)));
          });
        } else if (plain && sa == 1 && sb == 0) {
          const V16<Arch> q(*b);
          for_steps<Arch>(n, [&](std::size_t j, auto m) {
            store<Arch>(y + j, m, combine<kind, Arch>(load<Arch>(a + j, m), q, count(m)));
          });
        } else {
          for_steps<Arch>(n, [&](std::size_t j, auto m) {
            const auto step = static_cast<std::ptrdiff_t>(j);
            const V16<Arch> t =
                combine<kind, Arch>(load_operand<Arch>(args.a, a_at + step * sa, sa, m),
                                    load_operand<Arch>(args.b, b_at + step * sb, sb, m), count(m));
            write(at + j, m, finish<Arch>(args.activation, args.act_a, args.act_b, t));
          });
        }
      });
}

// A gate stands second.
template <class Arch>
BinaryArgs gate_second(const BinaryArgs& args) {
  BinaryArgs turned = args;
  const bool commutes = args.kind == BinaryKind::add || args.kind == BinaryKind::mul;
  const Broadcast plan = collapse(args.rank, args.shape, args.b.stride, args.a.stride);
  Broadcast merged;
  if (commutes && may_merge<Arch>(plan, merged)) turned.a = args.b, turned.b = args.a;
  return turned;
}

template <class Arch>
void binary(const BinaryArgs& given) {
  const BinaryArgs args = gate_second<Arch>(given);
  const Broadcast plan = collapse(args.rank, args.shape, args.a.stride, args.b.stride);
  switch (args.kind) {
    case BinaryKind::add:
      return binary_run<Arch, BinaryKind::add>(args, plan);
    case BinaryKind::sub:
      return binary_run<Arch, BinaryKind::sub>(args, plan);
    case BinaryKind::mul:
      return binary_run<Arch, BinaryKind::mul>(args, plan);
    case BinaryKind::div:
      return binary_run<Arch, BinaryKind::div>(args, plan);
    case BinaryKind::pow:
      return binary_run<Arch, BinaryKind::pow>(args, plan);
    case BinaryKind::min:
      return binary_run<Arch, BinaryKind::min>(args, plan);
    case BinaryKind::max:
      return binary_run<Arch, BinaryKind::max>(args, plan);
    case BinaryKind::prelu:
      return binary_run<Arch, BinaryKind::prelu>(args, plan);
    case BinaryKind::mod:
      return binary_run<Arch, BinaryKind::mod>(args, plan);
  }
}

// r of binary_u8 from the two operands without their zero points.
template <class Arch, BinaryU8Kind kind>
FOLD8_INLINE V16<Arch> combine_u8(V16<Arch> p, V16<Arch> q, V16<Arch> m_a, V16<Arch> m_b) {
  if constexpr (kind == BinaryU8Kind::add) return Lanes<V16<Arch>>::fma(p, m_a, q * m_b);
  return (p * q) * m_a;  // the product of two codes is exact in f32
}

template <class Arch, BinaryU8Kind kind>
inline void binary_u8_run(const BinaryU8Args& args) {
  using V = V16<Arch>;
  using L = Lanes<V>;
  const Broadcast plan = collapse(args.rank, args.shape, args.a_stride, args.b_stride);
  const std::ptrdiff_t sa = plan.a_stride[plan.rank - 1], sb = plan.b_stride[plan.rank - 1];
  const I16<Arch> za(args.a_zero_point), zb(args.b_zero_point);
  const V m_a(args.m_a), m_b(args.m_b);
  RoundClamped<Arch> round(args.y_zero_point, 0, 255);
  // Both clamps as one: no bound of the fused clip reaches beyond the codes.
  const V lowest = round.lo;
  round.lo = L::max(lowest, V(args.lo));
  round.hi = L::max(lowest, L::min(round.hi, V(args.hi)));
  const auto run = [&](std::uint8_t* y, std::size_t n, auto&& a, auto&& b) FOLD8_INLINE_LAMBDA {
    for_steps<Arch>(n, [&](std::size_t j, auto m) FOLD8_INLINE_LAMBDA {
      store_u8<Arch>(y + j, m, round(combine_u8<Arch, kind>(a(j, m), b(j, m), m_a, m_b)));
    });
  };
  const auto dense = [&](const std::uint8_t* p, const I16<Arch>& zero) {
    return [p, zero](std::size_t j, auto m)
               FOLD8_INLINE_LAMBDA { return L::to_float(load_u8<Arch>(p + j, m) - zero); };
  };
  const auto strided = [&](const std::uint8_t* p, std::ptrdiff_t step, const I16<Arch>& zero) {
    return [p, step, zero](std::size_t j, auto m) FOLD8_INLINE_LAMBDA {
      return L::to_float(load_step<Arch>(p + static_cast<std::ptrdiff_t>(j) * step, step, m) -
                         zero);
    };
  };
  Broadcast merged;
  const bool repeated = repeats<Arch>(plan, merged);
  const std::size_t period = plan.shape[plan.rank - 1];
  for_rows<Arch>(repeated ? merged : plan, args.begin, args.end,
                 [&](std::size_t at, std::size_t n, std::ptrdiff_t a_at, std::ptrdiff_t b_at) {
                   const std::uint8_t *a = args.a + a_at, *b = args.b + b_at;
                   std::uint8_t* y = args.y + at;
                   if (repeated) {
                     Repeated<Arch> gate(period, [&](std::size_t i) {
                       return static_cast<float>(b[i] - args.b_zero_point);
                     });
                     gate.start(at % period);
                     run(y, n, dense(a, za),
                         [&](std::size_t, auto) FOLD8_INLINE_LAMBDA { return gate.next(); });
                   } else if (sa == 1 && sb == 1) {
                     run(y, n, dense(a, za), dense(b, zb));
                   } else {
                     run(y, n, strided(a, sa, za), strided(b, sb, zb));
                   }
                 });
}

template <class Arch>
void binary_u8(const BinaryU8Args& args) {
  if (args.kind == BinaryU8Kind::add) return binary_u8_run<Arch, BinaryU8Kind::add>(args);
  binary_u8_run<Arch, BinaryU8Kind::mul>(args);
}

}  // namespace fold8::kernels::simd
