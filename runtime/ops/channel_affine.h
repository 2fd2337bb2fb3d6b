// One multiply-add per channel over input 0 (f32) into output 0 (f32, or u8 with params), in either
// layout.
#pragma once

#include "runtime/kernels/binary.h"
#include "runtime/ops/common.h"

namespace fold8::ops {

// [outer, channels, inner] of a tensor seen from one axis, in memory order.
struct ChannelBox {
  std::size_t outer = 1, channels = 1, inner = 1;
};
ChannelBox channel_box(const TensorType& t, int axis);

struct ChannelAffine {
  kernels::AffineArgs args;
  kernels::affine_fn* kernel = nullptr;
  bool quantize = false;

  void run(const RunContext& run, const float* m, const float* b) const;
};
ChannelAffine channel_affine(const PrepareContext& c, int axis);

}  // namespace fold8::ops
