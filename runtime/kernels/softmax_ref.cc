#include "runtime/kernels/math_ref.h"
#include "runtime/kernels/row_sum.h"
#include "runtime/kernels/softmax.h"

namespace fold8::kernels::reference {

void softmax(const SoftmaxArgs& args) {
  const std::size_t step = args.axis_stride != 0 ? args.axis_stride : args.inner;
  const std::size_t outer_step = args.outer_stride != 0 ? args.outer_stride : args.axis * step;
  for (std::size_t o = 0; o < args.outer; ++o)
    for (std::size_t i = 0; i < args.inner; ++i) {
      const float* x = args.x + o * outer_step + i;
      float* y = args.y + o * outer_step + i;
      float m = -__builtin_inff();
      for (std::size_t j = 0; j < args.axis; ++j) m = max_f32(m, x[j * step]);
      const float l = row_sum(args.axis, [&](std::size_t j) { return exp_f32(x[j * step] - m); });
      const float log_l = log_f32(l);
      for (std::size_t j = 0; j < args.axis; ++j) {
        const float v = x[j * step] - m;
        y[j * step] = args.log ? v - log_l : exp_f32(v) / l;
      }
    }
}

}  // namespace fold8::kernels::reference
