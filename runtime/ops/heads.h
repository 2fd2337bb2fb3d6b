// How the heads of attention lie in a tensor: [B, heads, S, D], or parts of rows [B, S, width].
#pragma once

#include "runtime/ops/each_op.h"

namespace fold8::ops {

// In elements.
struct HeadStrides {
  std::size_t first = 0, batch = 0, head = 0, token = 0;
};

struct Heads {
  bool rows = false;
  std::int64_t heads = 1, depth = 0, offset = 0;

  Dim tokens(const Shape& x) const { return x[rows ? 1 : 2]; }

  // x is known.
  HeadStrides strides(const Shape& x) const {
    const auto d = static_cast<std::size_t>(depth), s = static_cast<std::size_t>(tokens(x).value());
    if (!rows) return {0, static_cast<std::size_t>(heads) * s * d, s * d, d};
    const auto width = static_cast<std::size_t>(x.extent(2));
    return {static_cast<std::size_t>(offset), s * width, d, width};
  }
};

// Operand i is f32 and holds these heads.
Status expect_heads(const InferContext& c, std::size_t i, const Heads& heads);

}  // namespace fold8::ops
