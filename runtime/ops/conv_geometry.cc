#include "runtime/ops/conv_geometry.h"

#include "runtime/ops/window.h"

namespace fold8::ops {
namespace {

Result<Window> window_of(const graph::Conv& op, const Shape& w) {
  if (!op.kernel.empty())
    return make_window(op.kernel, op.strides, op.pads, op.dilations, op.auto_pad, w.rank() - 2);
  graph::Ints kernel;
  for (int a = 2; a < w.rank(); ++a) {
    if (!w[a].known()) return unsupported("a kernel whose extents are not known");
    kernel.push_back(w[a].value());
  }
  return make_window(kernel, op.strides, op.pads, op.dilations, op.auto_pad, w.rank() - 2);
}

// A transposed convolution has a plan and a part of its packed weights for every position within a
// stride.
constexpr std::int64_t kMostPhases = 65536;

Status check_strides(const Window& w) {
  std::int64_t phases = 1;
  for (int i = 0; i < w.axes; ++i)
    if (__builtin_mul_overflow(phases, w.stride[i], &phases) || phases > kMostPhases)
      return unsupported("a transposed convolution with stride " + std::to_string(w.stride[i]) +
                         " at axis " + std::to_string(2 + i) + ": the product of its strides is " +
                         "more than " + std::to_string(kMostPhases));
  return ok_status();
}

struct Transposed {
  Dim out;
  std::int64_t begin = 0;  // pad_begin, once `in` is known
};

// ONNX ConvTranspose: out = stride * (in - 1) + output_padding + reach - pads, or the pads that
// give output_shape.
Result<Transposed> transposed_extent(const graph::Conv& op, const Window& w, int i, Dim in) {
  const auto at = static_cast<std::size_t>(i);
  const std::int64_t stride = w.stride[i], reach = (w.kernel[i] - 1) * w.dilation[i] + 1;
  const std::int64_t extra = op.output_padding.empty() ? 0 : op.output_padding[at];
  if (extra < 0 || extra >= std::max(stride, w.dilation[i]))
    return invalid_model("output_padding holds " + std::to_string(extra));
  const bool same = w.auto_pad != graph::AutoPad::none;
  Transposed t;
  t.begin = w.pad_begin[i];
  const bool given = !op.output_shape.empty();
  if (!in.known()) {
    if (given)
      t.out = Dim(op.output_shape[at]);
    else if (stride == 1 && (same || extra + reach - 1 == w.pad_begin[i] + w.pad_end[i]))
      t.out = in;
    return t;
  }
  if (in.value() > (std::int64_t{1} << 28))
    return unsupported("a transposed convolution over an extent of " + std::to_string(in.value()));
  const std::int64_t full = stride * (in.value() - 1) + extra + reach;
  if (!given && !same) {
    t.out =
        Dim(std::max<std::int64_t>(0, in.value() == 0 ? 0 : full - w.pad_begin[i] - w.pad_end[i]));
    return t;
  }
  const std::int64_t want = given ? op.output_shape[at] : in.value() * stride;
  const std::int64_t total = std::max<std::int64_t>(0, full - want);
  t.begin = w.auto_pad == graph::AutoPad::same_upper ? total / 2 : total - total / 2;
  t.out = Dim(want);
  return t;
}

Status check_lists(const graph::Conv& op, int axes) {
  for (const graph::Ints* list : {&op.output_padding, &op.output_shape}) {
    if (!list->empty() && static_cast<int>(list->size()) != axes)
      return invalid_model("output_padding or output_shape has " + std::to_string(list->size()) +
                           " numbers for " + std::to_string(axes) + " spatial axes");
    for (std::int64_t v : *list)
      if (v < 0 || v > INT32_MAX)
        return invalid_model("output_padding or output_shape holds " + std::to_string(v));
  }
  return ok_status();
}

Status check_transposed(const graph::Conv& op, const Window& w) {
  if (!op.transposed) return ok_status();
  FOLD8_CHECK_OK(check_strides(w));
  return check_lists(op, w.axes);
}

}  // namespace

Result<Shape> conv_output_shape(const graph::Conv& op, const Shape& x, const Shape& w) {
  FOLD8_TRY(const Window win, window_of(op, w));
  FOLD8_CHECK_OK(check_transposed(op, win));
  Shape y;
  y.push_back(x[0]);
  y.push_back(op.transposed ? w[1] * Dim(op.group) : w[0]);
  for (int i = 0; i < win.axes; ++i) {
    const Dim in = x[2 + i];
    if (op.transposed) {
      FOLD8_TRY(const Transposed t, transposed_extent(op, win, i, in));
      y.push_back(t.out);
      continue;
    }
    const Dim out = window_extent(win, i, in, false);
    if (out == Dim(0) && !(in == Dim(0)))
      return invalid_model("input 0 is " + to_string(x) + ", too small for a kernel of " +
                           std::to_string(win.kernel[i]) + " (dilation " +
                           std::to_string(win.dilation[i]) + ") at axis " + std::to_string(2 + i));
    y.push_back(out);
  }
  return y;
}

bool packing_depends_on_extents(const graph::Conv& op) {
  return op.transposed && !op.output_shape.empty();
}

namespace {

Status check_weight(const Shape& w) {
  const int axes = w.rank() - 2;
  return axes >= 1 && axes <= 3 && w.known()
             ? ok_status()
             : Status(invalid_model("a convolution weight of shape " + to_string(w)));
}

// The part of the geometry that the weight alone says.
Result<kernels::ConvShape> weight_part(const graph::Conv& op, const Shape& w, const Window& win) {
  const int axes = w.rank() - 2;
  kernels::ConvShape s;
  s.groups = op.group;
  s.transposed = op.transposed;
  if (op.group < 1 || w.extent(0) % op.group != 0)
    return invalid_model("group is " + std::to_string(op.group) + " for a weight of shape " +
                         to_string(w));
  s.out_channels = op.transposed ? w.extent(1) * op.group : w.extent(0);
  s.in_channels = op.transposed ? w.extent(0) : w.extent(1) * op.group;
  FOLD8_CHECK_OK(check_transposed(op, win));
  for (int i = 0; i < axes; ++i) {
    const int to = 3 - axes + i;
    s.kernel[to] = w.extent(2 + i);
    s.stride[to] = win.stride[i];
    s.dilation[to] = win.dilation[i];
    if (!op.transposed || packing_depends_on_extents(op)) continue;
    FOLD8_TRY(const Transposed t,
              transposed_extent(op, win, i, Dim(1)));  // the pads are the same for every extent
    s.pad_begin[to] = t.begin;
  }
  return s;
}

}  // namespace

Result<kernels::ConvShape> conv_weight_shape(const graph::Conv& op, const Shape& w) {
  FOLD8_CHECK_OK(check_weight(w));
  FOLD8_TRY(const Window win, window_of(op, w));
  return weight_part(op, w, win);
}

Result<kernels::ConvShape> conv_shape(const graph::Conv& op, const Shape& x, const Shape& w,
                                      const Shape& y) {
  FOLD8_CHECK_OK(check_weight(w));
  FOLD8_TRY(const Window win, window_of(op, w));
  FOLD8_TRY(kernels::ConvShape s, weight_part(op, w, win));
  s.batch = x.extent(0);
  for (int i = 0; i < win.axes; ++i) {
    const int to = 3 - win.axes + i;
    s.in[to] = x.extent(2 + i);
    s.out[to] = y.extent(2 + i);
    if (op.transposed) {
      FOLD8_TRY(const Transposed t, transposed_extent(op, win, i, x[2 + i]));
      s.pad_begin[to] = t.begin;
    } else {
      s.pad_begin[to] = resolved_pads(win, i, x.extent(2 + i)).begin;
    }
  }
  return s;
}

}  // namespace fold8::ops
