// The same layers in oneDNN, u8 x s8 -> u8 with ReLU, as a yardstick. Empty functions where oneDNN
// is absent.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/kernels/conv_shape.h"

namespace fold8::bench {

std::function<void()> onednn_matmul(std::int64_t m, std::int64_t n, std::int64_t k);
std::function<void()> onednn_conv(const kernels::ConvShape& shape);  // 2-d

}  // namespace fold8::bench
