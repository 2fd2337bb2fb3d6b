#include "runtime/kernels/rotary.h"

namespace fold8::kernels::reference {

void rotary(const RotaryArgs& a) {
  const std::size_t half = a.dims / 2;
  for (std::size_t t = 0; t < a.tokens; ++t)
    for (std::size_t h = 0; h < a.heads; ++h) {
      const float* x = a.x + t * a.stride + h * a.head_stride;
      float* y = a.y + t * a.stride + h * a.head_stride;
      const float *cos = a.cos + t * a.table_stride, *sin = a.sin + t * a.table_stride;
      for (std::size_t i = 0; i < half; ++i) {
        const std::size_t u = a.interleaved ? 2 * i : i, w = a.interleaved ? 2 * i + 1 : i + half,
                          cu = a.full_tables ? u : i, cw = a.full_tables ? w : i;
        y[u] = x[u] * cos[cu] + -x[w] * sin[cu];
        y[w] = x[w] * cos[cw] + x[u] * sin[cw];
      }
      for (std::size_t i = a.dims; i < a.depth; ++i) y[i] = x[i];
    }
}

}  // namespace fold8::kernels::reference
