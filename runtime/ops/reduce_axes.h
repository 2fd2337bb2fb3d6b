// Which axes a Reduce reduces.
#pragma once

#include "runtime/ops/common.h"

namespace fold8::ops {

// Bit a is set if axis a is reduced; nullopt if they come from an operand that is not known. Errors
// for bad axes.
Result<std::optional<std::uint32_t>> reduced_axes(
    const graph::Reduce& op, const std::optional<std::vector<std::int64_t>>& operand,
    bool has_operand, int rank);
// Exactly the spatial axes of [N, C, spatial..] with two or more of them: one chain a channel, and
// channels_last is reduced as it lies.
bool is_spatial_reduction(std::uint32_t axes, int rank);

}  // namespace fold8::ops
