#include "runtime/ops/broadcast.h"

namespace fold8::ops {

Broadcast make_broadcast(const TensorType& out, std::span<const TensorType* const> operands) {
  Broadcast b;
  b.count = count(out);
  Strides strides[Broadcast::kMaxOperands] = {};
  for (std::size_t i = 0; i < operands.size(); ++i)
    strides[i] = broadcast_strides(*operands[i], out.shape);
  const auto axes = memory_axes(out.shape.rank(), out.layout);
  int rank = 0;
  for (int k = 0; k < out.shape.rank(); ++k) {
    const int axis = axes[static_cast<std::size_t>(k)];
    const auto n = static_cast<std::size_t>(out.shape.extent(axis));
    if (n == 1) continue;
    bool merge = rank > 0;
    for (int i = 0; merge && i < Broadcast::kMaxOperands; ++i)
      merge = b.stride[i][rank - 1] ==
              strides[i][static_cast<std::size_t>(axis)] * static_cast<std::ptrdiff_t>(n);
    const int at = merge ? rank - 1 : rank++;
    b.extent[at] = merge ? b.extent[at] * n : n;
    for (int i = 0; i < Broadcast::kMaxOperands; ++i)
      b.stride[i][at] = strides[i][static_cast<std::size_t>(axis)];
  }
  b.rank = std::max(rank, 1);
  return b;
}

}  // namespace fold8::ops
