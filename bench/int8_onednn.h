// The same layers in oneDNN with ReLU, u8 x s8 -> u8 or all f32, as yardsticks. Empty functions
// where oneDNN is absent or has no such layer.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/kernels/conv_shape.h"

namespace fold8::bench {

enum class Numbers { int8, f32 };

std::function<void()> onednn_matmul(std::int64_t m, std::int64_t n, std::int64_t k,
                                    Numbers numbers = Numbers::int8);
std::function<void()> onednn_conv(const kernels::ConvShape& shape,  // 2-d
                                  Numbers numbers = Numbers::int8);

}  // namespace fold8::bench
