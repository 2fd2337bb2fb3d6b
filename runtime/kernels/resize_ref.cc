#include <cmath>
#include <cstring>

#include "runtime/kernels/resize.h"

namespace fold8::kernels::reference {
namespace {

bool outside(const ResizeAxisF32& axis, std::size_t o) {
  return axis.taps > 0 && axis.index[o * axis.taps] < 0;
}

// value(i) along one axis at output o: its chain, or value(o) where the axis is not resized.
template <class Value>
float along(const ResizeAxisF32& axis, std::size_t o, Value value) {
  if (axis.taps == 0) return value(o);
  float t = 0;
  for (std::size_t k = 0; k < axis.taps; ++k) {
    const std::size_t at = o * axis.taps + k;
    t = std::fma(axis.weight[at], value(static_cast<std::size_t>(axis.index[at])), t);
  }
  return t;
}

}  // namespace

void resize_f32(const ResizeF32Args& args) {
  const ResizeAxisF32 &a0 = args.axis[0], &a1 = args.axis[1], &a2 = args.axis[2];
  for (std::size_t line = args.line_begin; line < args.line_end; ++line) {
    const std::size_t o1 = line % a1.out, o0 = line / a1.out % a0.out,
                      outer = line / (a1.out * a0.out);
    for (std::size_t o2 = 0; o2 < a2.out; ++o2)
      for (std::size_t c = 0; c < args.inner; ++c) {
        float y = args.extrapolation;
        if (!outside(args.axis[0], o0) && !outside(args.axis[1], o1) && !outside(args.axis[2], o2))
          y = along(args.axis[0], o0, [&](std::size_t i0) {
            return along(args.axis[1], o1, [&](std::size_t i1) {
              return along(args.axis[2], o2, [&](std::size_t i2) {
                return args
                    .x[(((outer * args.axis[0].in + i0) * args.axis[1].in + i1) * args.axis[2].in +
                        i2) *
                           args.inner +
                       c];
              });
            });
          });
        args.y[(line * a2.out + o2) * args.inner + c] = y;
      }
  }
}

void resize_nearest(const ResizeNearestArgs& args) {
  const auto source = [&](int axis, std::size_t o) {
    const std::int32_t* index = args.axis[axis].index;
    return index ? std::int64_t{index[o]} : static_cast<std::int64_t>(o);
  };
  const std::byte* x = static_cast<const std::byte*>(args.x);
  std::byte* y =
      static_cast<std::byte*>(args.y) + args.line_begin * args.axis[2].out * args.inner_bytes;
  for (std::size_t line = args.line_begin; line < args.line_end; ++line)
    for (std::size_t o2 = 0; o2 < args.axis[2].out; ++o2, y += args.inner_bytes) {
      const std::size_t o1 = line % args.axis[1].out,
                        o0 = line / args.axis[1].out % args.axis[0].out;
      const std::size_t outer = line / (args.axis[1].out * args.axis[0].out);
      const std::int64_t i0 = source(0, o0), i1 = source(1, o1), i2 = source(2, o2);
      if (i0 < 0 || i1 < 0 || i2 < 0) {
        for (std::size_t b = 0; b < args.inner_bytes; b += args.element_size)
          std::memcpy(y + b, args.extrapolation, args.element_size);
        continue;
      }
      const std::size_t from =
          ((outer * args.axis[0].in + static_cast<std::size_t>(i0)) * args.axis[1].in +
           static_cast<std::size_t>(i1)) *
              args.axis[2].in +
          static_cast<std::size_t>(i2);
      std::memcpy(y, x + from * args.inner_bytes, args.inner_bytes);
    }
}

}  // namespace fold8::kernels::reference
