// The layers the INT8 kernels are measured on (those of real networks) and fold8's own kernels
// ready to run on them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/kernels/conv_shape.h"
#include "runtime/kernels/kernel_table.h"

namespace fold8::bench {

struct MatrixCase {
  std::int64_t m, n, k;
};

struct LayerCase {
  const char* name;
  std::int64_t in_channels, out_channels, height, width, kernel, stride;
  std::int64_t groups = 1;
  bool transposed = false;
};

const std::vector<MatrixCase>& matrix_cases();
const std::vector<LayerCase>& layer_cases();
kernels::ConvShape shape_of(const LayerCase& layer);

// What the kernel does with its sums. u8_relu is what the yardstick does too.
enum class Ending { u8_relu, u8_hard_swish, u8_residual, f32 };

std::function<void()> own_matmul(const kernels::Target& target, const MatrixCase& c, Ending ending);
std::function<void()> own_conv(const kernels::Target& target, const kernels::ConvShape& s,
                               Ending ending);

}  // namespace fold8::bench
