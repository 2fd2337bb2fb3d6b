// Sliding windows of Conv and Pool: attributes filled in and checked, output extents, auto_pad
// resolved.
#pragma once

#include "runtime/ops/common.h"

namespace fold8::ops {

struct Window {
  static constexpr int kMaxAxes = 3;
  int axes = 0;  // spatial axes, 1 to 3
  std::int64_t kernel[kMaxAxes] = {1, 1, 1}, stride[kMaxAxes] = {1, 1, 1},
               dilation[kMaxAxes] = {1, 1, 1};
  std::int64_t pad_begin[kMaxAxes] = {}, pad_end[kMaxAxes] = {};
  graph::AutoPad auto_pad = graph::AutoPad::none;
};
// Empty attributes stand for their ONNX defaults. `axes`: rank of the input less 2.
Result<Window> make_window(const graph::Ints& kernel, const graph::Ints& strides,
                           const graph::Ints& pads, const graph::Ints& dilations,
                           graph::AutoPad auto_pad, int axes);

// Pads of one axis with auto_pad resolved for a known extent.
struct Pads {
  std::int64_t begin = 0, end = 0;
};
Pads resolved_pads(const Window& w, int axis, std::int64_t in);

// Output extent of one axis: a symbol stays where the window keeps every extent; unknown where it
// cannot be told. Never negative: a window larger than the padded input gives 0.
Dim window_extent(const Window& w, int axis, Dim in, bool ceil_mode);

}  // namespace fold8::ops
