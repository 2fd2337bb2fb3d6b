// Scales and zero points of Quantize and Dequantize: from a type, or from operands 1 and 2 at run
// time.
#pragma once

#include "runtime/ops/channel_affine.h"

namespace fold8::ops {

// How scales lie over a tensor in memory order: element (o, c, i) of [outer, channels, inner] uses
// scale c; blocked tensors (block > 0) use scale (o * blocks + c / block) * inner + i.
struct ScaleLayout {
  ChannelBox box;
  std::int64_t block = 0;
  std::size_t scales = 1;
};

class QuantSource {
 public:
  // `real`: the f32 side, `stored`: the integer side (its type may carry params).
  static Result<QuantSource> make(const PrepareContext& c, const TensorType& stored,
                                  std::int64_t axis, std::int64_t block);

  const ScaleLayout& layout() const { return layout_; }
  std::size_t scratch_bytes() const {
    return zero_dtype_ ? layout_.scales * sizeof(std::int32_t) : 0;
  }
  // Pointers valid during run(); zero points may be null (all 0).
  const float* scales(const RunContext& run) const;
  const std::int32_t* zero_points(const RunContext& run, std::int32_t* scratch) const;

 private:
  ScaleLayout layout_;
  std::vector<float> scales_;  // empty: operand 1
  std::vector<std::int32_t> zeros_;
  std::optional<DType> zero_dtype_;  // of operand 2, if it is there
};

}  // namespace fold8::ops
