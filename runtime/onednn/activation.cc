#include <cmath>

#include "runtime/onednn/parts.h"

namespace fold8::onednn {

bool append_activation(dnnl::post_ops& ops, Activation activation, float a, float b, float scale) {
  using dnnl::algorithm;
  if (scale != 1 && activation != Activation::none && activation != Activation::clip) return false;
  switch (activation) {
    case Activation::none:
      return true;
    case Activation::clip:
      if (a == 0 && std::isinf(b))
        append_eltwise(ops, algorithm::eltwise_relu, 0, 0);
      else
        append_eltwise(ops, algorithm::eltwise_clip, a / scale, b / scale);
      return true;
    case Activation::leaky_relu:
      append_eltwise(ops, algorithm::eltwise_relu, a, 0);
      return true;
    case Activation::sigmoid:
      append_eltwise(ops, algorithm::eltwise_logistic, 0, 0);
      return true;
    case Activation::silu:
      append_eltwise(ops, algorithm::eltwise_swish, a, 0);
      return true;
    case Activation::tanh:
      append_eltwise(ops, algorithm::eltwise_tanh, 0, 0);
      return true;
    case Activation::gelu_erf:
      append_eltwise(ops, algorithm::eltwise_gelu_erf, 0, 0);
      return true;
    case Activation::gelu_tanh:
      append_eltwise(ops, algorithm::eltwise_gelu_tanh, 0, 0);
      return true;
    case Activation::elu:
      append_eltwise(ops, algorithm::eltwise_elu, a, 0);
      return true;
    default:
      return false;
  }
}

}  // namespace fold8::onednn
