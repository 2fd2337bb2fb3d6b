// Copies a box of elements between two places with any strides: what most data movement is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/ops/common.h"

namespace fold8::ops {

// dst[sum i_k * dst_k] = src[sum i_k * src_k] for all i_k < extent_k. Strides in elements, src may
// be 0 or negative. Axes of extent 1 are dropped, the others ordered by destination stride and
// merged where both sides allow it.
struct CopyPlan {
  static constexpr int kMaxAxes = 16;
  int rank = 0;
  std::size_t element = 1;  // bytes: any size
  std::int64_t extent[kMaxAxes] = {};
  std::int64_t src[kMaxAxes] = {}, dst[kMaxAxes] = {};
  bool empty = false;
};
CopyPlan make_copy_plan(std::span<const std::int64_t> extents, std::span<const std::int64_t> src,
                        std::span<const std::int64_t> dst, std::size_t element);

void run_copy(const RunContext& c, const CopyPlan& plan, const void* src, void* dst);

// Output 0 = input 0: the same logical elements in order, layouts and shapes as the types say
// (Identity, Relayout, and Reshape where nothing can be aliased). Equal shapes: element to element;
// otherwise in row-major order of the shapes.
Result<StepPtr> prepare_copy(const TensorType& from, const TensorType& to);

}  // namespace fold8::ops
