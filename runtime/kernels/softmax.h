// Softmax and log-softmax along the middle axis of [outer, axis, inner].
//   m = max_j x[j] (NaN wins);  e[j] = exp(x[j] - m);  l = S(e), the row sum of row_sum.h over j,
//   whatever inner is softmax: y[j] = e[j] / l            log_softmax: y[j] = (x[j] - m) - log(l)
// A row of only -inf: m = -inf, x - m = NaN, so the row is NaN, as ONNX has it.
// axis_stride: elements between neighbours along the axis (0 stands for inner), so that a thread
// may take part of inner; outer_stride likewise (0 stands for axis * axis_stride). x and y share
// the layout; y may be x.
#pragma once

#include <cstddef>

namespace fold8::kernels {

struct SoftmaxArgs {
  std::size_t outer = 1, axis = 0, inner = 1;
  std::size_t axis_stride = 0, outer_stride = 0;
  bool log = false;
  const float* x = nullptr;
  float* y = nullptr;
};
using softmax_fn = void(const SoftmaxArgs& args);

namespace reference {
softmax_fn softmax;
}

}  // namespace fold8::kernels
