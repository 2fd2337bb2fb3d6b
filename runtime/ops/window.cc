#include "runtime/ops/window.h"

namespace fold8::ops {
namespace {

constexpr std::int64_t kMost = INT32_MAX;

Status fill(std::int64_t* to, const graph::Ints& from, int axes, std::int64_t least,
            const char* what) {
  if (from.empty()) return ok_status();
  if (static_cast<int>(from.size()) != axes)
    return invalid_model(std::string(what) + " has " + std::to_string(from.size()) +
                         " numbers for " + std::to_string(axes) + " spatial axes");
  for (int i = 0; i < axes; ++i) {
    to[i] = from[static_cast<std::size_t>(i)];
    if (to[i] < least || to[i] > kMost)
      return invalid_model(std::string(what) + " holds " + std::to_string(to[i]));
  }
  return ok_status();
}

}  // namespace

Result<Window> make_window(const graph::Ints& kernel, const graph::Ints& strides,
                           const graph::Ints& pads, const graph::Ints& dilations,
                           graph::AutoPad auto_pad, int axes) {
  if (axes < 1 || axes > Window::kMaxAxes)
    return unsupported(std::to_string(axes) + " spatial axes, 1 to 3 are supported");
  Window w;
  w.axes = axes;
  w.auto_pad = auto_pad;
  FOLD8_CHECK_OK(fill(w.kernel, kernel, axes, 1, "kernel"));
  FOLD8_CHECK_OK(fill(w.stride, strides, axes, 1, "strides"));
  FOLD8_CHECK_OK(fill(w.dilation, dilations, axes, 1, "dilations"));
  if (pads.empty()) return w;
  if (static_cast<int>(pads.size()) != 2 * axes)
    return invalid_model("pads has " + std::to_string(pads.size()) + " numbers for " +
                         std::to_string(axes) + " spatial axes");
  for (int i = 0; i < axes; ++i) {
    w.pad_begin[i] = pads[static_cast<std::size_t>(i)];
    w.pad_end[i] = pads[static_cast<std::size_t>(i + axes)];
    if (std::max(w.pad_begin[i], w.pad_end[i]) > kMost ||
        std::min(w.pad_begin[i], w.pad_end[i]) < -kMost)
      return invalid_model("pads of spatial axis " + std::to_string(i) + " are out of range");
  }
  return w;
}

Pads resolved_pads(const Window& w, int axis, std::int64_t in) {
  if (w.auto_pad == graph::AutoPad::none) return {w.pad_begin[axis], w.pad_end[axis]};
  const std::int64_t out = (in + w.stride[axis] - 1) / w.stride[axis];
  const std::int64_t reach = (w.kernel[axis] - 1) * w.dilation[axis] + 1;
  const std::int64_t total = std::max<std::int64_t>(0, (out - 1) * w.stride[axis] + reach - in);
  const std::int64_t less = total / 2;
  return w.auto_pad == graph::AutoPad::same_upper ? Pads{less, total - less}
                                                  : Pads{total - less, less};
}

Dim window_extent(const Window& w, int axis, Dim in, bool ceil_mode) {
  const std::int64_t stride = w.stride[axis], reach = (w.kernel[axis] - 1) * w.dilation[axis] + 1;
  if (!in.known()) {
    const bool same_pads =
        w.auto_pad != graph::AutoPad::none || w.pad_begin[axis] + w.pad_end[axis] == reach - 1;
    return stride == 1 && same_pads ? in : Dim::unknown();
  }
  if (w.auto_pad != graph::AutoPad::none)
    return Dim(in.value() / stride + (in.value() % stride != 0));
  if (in.value() > (std::int64_t{1} << 60)) return Dim::unknown();
  const std::int64_t room = in.value() + w.pad_begin[axis] + w.pad_end[axis] - reach;
  if (room < 0) return Dim(0);
  std::int64_t out = room / stride + 1;
  if (ceil_mode && room % stride != 0 && out * stride < in.value() + w.pad_begin[axis])
    ++out;  // its last window must start inside
  return Dim(out);
}

}  // namespace fold8::ops
