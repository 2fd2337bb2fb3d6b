// Shape and scales of a Resize.
#pragma once

#include "runtime/ops/common.h"

namespace fold8::ops {

struct ResizeSpec {
  Shape shape;                                // of the output
  std::array<double, Shape::kMaxRank> scale;  // the operator's own, or out / in
};
// scales or sizes (one a resized axis); neither: the resized extents are unknown.
Result<ResizeSpec> resize_spec(const graph::Resize& op, const Shape& x,
                               const std::optional<std::vector<double>>& scales,
                               const std::optional<Dims>& sizes);

}  // namespace fold8::ops
