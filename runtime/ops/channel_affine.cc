#include "runtime/ops/channel_affine.h"

namespace fold8::ops {

ChannelBox channel_box(const TensorType& t, int axis) {
  const auto order = memory_axes(t.shape.rank(), t.layout);
  ChannelBox box;
  bool before = true;
  for (int k = 0; k < t.shape.rank(); ++k) {
    const int a = order[static_cast<std::size_t>(k)];
    const auto n = static_cast<std::size_t>(t.shape.extent(a));
    if (a == axis) {
      box.channels = n;
      before = false;
    } else {
      (before ? box.outer : box.inner) *= n;
    }
  }
  return box;
}

ChannelAffine channel_affine(const PrepareContext& c, int axis) {
  ChannelAffine a;
  const ChannelBox box = channel_box(c.type(0), axis);
  a.args.outer = box.outer;
  a.args.channels = box.channels;
  a.args.inner = box.inner;
  a.quantize = c.out(0).dtype == DType::u8;
  if (a.quantize) {
    a.args.q_scale = c.out(0).quant->scale();
    a.args.q_zero_point = c.out(0).quant->zero_point();
  }
  a.kernel = c.kernels->affine;
  return a;
}

void ChannelAffine::run(const RunContext& run, const float* m, const float* b) const {
  const std::size_t plane = args.channels * args.inner;
  parallel(run, args.outer, grain_for(plane), [&](std::size_t begin, std::size_t end, std::size_t) {
    kernels::AffineArgs part = args;
    part.outer = end - begin;
    part.x = in<float>(run, 0) + begin * plane;
    part.m = m;
    part.b = b;
    if (quantize)
      part.q = out<std::uint8_t>(run, 0) + begin * plane;
    else
      part.y = out<float>(run, 0) + begin * plane;
    kernel(part);
  });
}

}  // namespace fold8::ops
