#include "runtime/kernels/quantize_ref.h"
#include "runtime/kernels/scalar_functions.h"
#include "runtime/kernels/unary_generic.h"

namespace fold8::kernels::reference {

void unary(const UnaryArgs& args) {
  const auto each = [&](auto f) {
    for (std::size_t i = 0; i < args.n; ++i) {
      const float t = f(args.x[i]);
      if (args.y != nullptr) args.y[i] = t;
      if (args.q != nullptr) args.q[i] = quantize_u8(t, args.q_scale, args.q_zero_point);
    }
  };
  if (generic::is_scalar_kind(args.kind))
    return each([&](float x) { return unary_scalar(args.kind, x); });
  generic::with_unary(args.kind, [&]<UnaryKind kind>() {
    each([&](float x) { return generic::unary<kind>(x, args.a, args.b); });
  });
}

}  // namespace fold8::kernels::reference
