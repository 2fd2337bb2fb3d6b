// ONNX Resize (kernels/resize.h, resize_table.h), in either layout.
#include "runtime/kernels/resize.h"

#include <cmath>

#include "runtime/kernels/resize_table.h"
#include "runtime/ops/each_op.h"
#include "runtime/ops/resize_spec.h"

namespace fold8::ops {
namespace {

Result<std::vector<int>> axes_of(const graph::Resize& op, int rank) {
  std::vector<int> axes;
  for (std::int64_t a : op.axes) {
    FOLD8_TRY(const int axis, checked_axis(a, rank));
    axes.push_back(axis);
  }
  if (op.axes.empty())
    for (int a = 0; a < rank; ++a) axes.push_back(a);
  return axes;
}

}  // namespace

Result<ResizeSpec> resize_spec(const graph::Resize& op, const Shape& x,
                               const std::optional<std::vector<double>>& scales,
                               const std::optional<Dims>& sizes) {
  FOLD8_TRY(const std::vector<int> axes, axes_of(op, x.rank()));
  ResizeSpec s;
  s.shape = x;
  s.scale.fill(1.0);
  const std::size_t given = scales ? scales->size() : sizes ? sizes->size() : axes.size();
  if (given != axes.size())
    return invalid_model(std::to_string(given) + (scales ? " scales" : " sizes") +
                         " are given for " + std::to_string(axes.size()) + " axes");
  double common = 0;  // keep_aspect_ratio: one scale for all
  for (std::size_t i = 0; sizes && op.keep_aspect_ratio != 0 && i < axes.size(); ++i) {
    if (!(*sizes)[i].known() || !x[axes[i]].known() || x[axes[i]].value() < 1)
      return unsupported("keep_aspect_ratio_policy needs a known, non-empty shape");
    const double r =
        static_cast<double>((*sizes)[i].value()) / static_cast<double>(x[axes[i]].value());
    common = i == 0 ? r : op.keep_aspect_ratio == 1 ? std::min(common, r) : std::max(common, r);
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto a = static_cast<std::size_t>(axes[i]);
    const Dim n = x[axes[i]];
    Dim& y = s.shape[axes[i]];
    if (scales) {
      const double r = (*scales)[i];
      if (!(r > 0) || r > 1e9)
        return invalid_model("the scale of axis " + std::to_string(axes[i]) + " is " +
                             std::to_string(r));
      s.scale[a] = r;
      y = r == 1.0 ? n
          : n.known() && n.value() < (std::int64_t{1} << 31)
              ? Dim(static_cast<std::int64_t>(std::floor(static_cast<double>(n.value()) * r)))
              : Dim::unknown();
    } else if (sizes && common > 0) {
      s.scale[a] = common;
      y = Dim(static_cast<std::int64_t>(std::floor(common * static_cast<double>(n.value()) + 0.5)));
    } else if (sizes) {
      y = (*sizes)[i];
      if (y.known() && y.value() < 0)
        return invalid_model("the size of axis " + std::to_string(axes[i]) + " is " +
                             std::to_string(y.value()));
      if (y.known() && n.known() && n.value() > 0)
        s.scale[a] = static_cast<double>(y.value()) / static_cast<double>(n.value());
    } else {
      y = Dim::unknown();
    }
    if (y.known() && y.value() > 0 && n.known() && n.value() == 0)
      return invalid_model("axis " + std::to_string(axes[i]) + " is empty and cannot be resized");
  }
  return s;
}

Status infer_op(const graph::Resize& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 4));
  if (c.has(1)) FOLD8_CHECK_OK(expect_dtype(c, 1, {DType::f32}));
  if (c.has(2)) FOLD8_CHECK_OK(expect_index(c, 2));
  if (!c.has(1) && !c.has(2))
    return invalid_model("neither scales (input 1) nor sizes (input 2) are given");
  std::optional<Dims> sizes;
  if (c.has(2)) {
    if (const auto k = c.ints(2)) sizes = k->values;
  }
  FOLD8_TRY(const ResizeSpec s,
            resize_spec(op, c.shape(0), c.has(2) ? std::nullopt : c.reals(1), sizes));
  set_like(c, 0, 0, s.shape);
  return ok_status();
}

namespace {

kernels::ResizeAxisSpec axis_spec(const graph::Resize& op, const ResizeSpec& s, const Shape& x,
                                  const Shape& y, int axis) {
  kernels::ResizeAxisSpec a;
  a.in = static_cast<std::size_t>(x.extent(axis));
  a.out = static_cast<std::size_t>(y.extent(axis));
  a.scale = s.scale[static_cast<std::size_t>(axis)];
  a.mode = static_cast<kernels::ResizeMode>(op.mode);
  switch (op.coordinates) {
    case graph::Coordinates::half_pixel:
      a.coordinates = kernels::CoordinateMode::half_pixel;
      break;
    case graph::Coordinates::pytorch_half_pixel:
      a.coordinates = kernels::CoordinateMode::pytorch_half_pixel;
      break;
    case graph::Coordinates::align_corners:
      a.coordinates = kernels::CoordinateMode::align_corners;
      break;
    case graph::Coordinates::asymmetric:
      a.coordinates = kernels::CoordinateMode::asymmetric;
      break;
    case graph::Coordinates::half_pixel_symmetric:
      a.coordinates = kernels::CoordinateMode::half_pixel_symmetric;
      break;
    case graph::Coordinates::tf_crop_and_resize:
      a.coordinates = kernels::CoordinateMode::tf_crop_and_resize;
      break;
  }
  a.nearest = static_cast<kernels::NearestMode>(op.nearest);
  a.cubic_coeff_a = static_cast<double>(op.cubic_a);
  a.exclude_outside = op.exclude_outside;
  return a;
}

// The resized axes as up to three neighbours in memory, with what lies around them.
struct Around {
  std::size_t outer = 1, inner = 1;
  int axis[3] = {-1, -1, -1};  // logical axes, right-aligned
};
Result<Around> around(const TensorType& x, const std::vector<bool>& active) {
  const int rank = x.shape.rank();
  const auto order = memory_axes(rank, x.layout);
  int first = rank, last = -1;
  for (int k = 0; k < rank; ++k)
    if (active[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])])
      first = std::min(first, k), last = k;
  if (last < 0) first = 0, last = -1;
  if (last - first >= 3)
    return unsupported("a resize of axes more than three apart: input 0 is " + describe(x));
  Around a;
  for (int k = 0; k < rank; ++k) {
    const int axis = order[static_cast<std::size_t>(k)];
    const auto n = static_cast<std::size_t>(x.shape.extent(axis));
    if (k < first)
      a.outer *= n;
    else if (k > last)
      a.inner *= n;
    else
      a.axis[2 - (last - k)] = axis;
  }
  return a;
}

struct Tables {
  kernels::ResizeTable table[3];
};

Result<StepPtr> nearest_step(const PrepareContext& c, const Around& a,
                             std::shared_ptr<Tables> tables, const Shape& y, float extrapolation) {
  kernels::ResizeNearestArgs args;
  args.outer = a.outer;
  args.element_size = size_of(c.type(0).dtype);
  args.inner_bytes = a.inner * args.element_size;
  for (int i = 0; i < 3; ++i) {
    if (a.axis[i] < 0) continue;
    args.axis[i].in = static_cast<std::size_t>(c.type(0).shape.extent(a.axis[i]));
    args.axis[i].out = static_cast<std::size_t>(y.extent(a.axis[i]));
    args.axis[i].index = tables->table[i].taps == 0 ? nullptr : tables->table[i].index.data();
  }
  std::array<std::byte, 8> outside{};
  if (c.type(0).dtype == DType::f32)
    std::memcpy(outside.data(), &extrapolation, sizeof(float));
  else
    with_number_type(c.type(0).dtype, [&]<class T>() {
      const T v = static_cast<T>(std::fabs(extrapolation) < 100 ? extrapolation : 0);
      std::memcpy(outside.data(), &v, sizeof(T));
    });
  const std::size_t lines = a.outer * args.axis[0].out * args.axis[1].out,
                    work = args.axis[2].out * args.inner_bytes / 4;
  return make_step([=, kernel = c.kernels->resize_nearest](const RunContext& run) {
    parallel(run, lines, grain_for(work),
             [&, keep = tables.get()](std::size_t b, std::size_t e, std::size_t) {
               (void)keep;
               kernels::ResizeNearestArgs part = args;
               part.extrapolation = outside.data();
               part.x = run.inputs[0];
               part.y = run.outputs[0];
               part.line_begin = b;
               part.line_end = e;
               kernel(part);
             });
    return ok_status();
  });
}

Result<StepPtr> linear_step(const PrepareContext& c, const Around& a,
                            std::shared_ptr<Tables> tables, const Shape& y, float extrapolation) {
  if (c.type(0).dtype != DType::f32)
    return unsupported("an interpolating resize of " + describe(c.type(0)));
  kernels::ResizeF32Args args;
  args.outer = a.outer;
  args.inner = a.inner;
  args.extrapolation = extrapolation;
  for (int i = 0; i < 3; ++i) {
    if (a.axis[i] < 0) continue;
    kernels::ResizeAxisF32& axis = args.axis[i];
    axis.in = static_cast<std::size_t>(c.type(0).shape.extent(a.axis[i]));
    axis.out = static_cast<std::size_t>(y.extent(a.axis[i]));
    axis.taps = tables->table[i].taps;
    axis.index = tables->table[i].index.data();
    axis.weight = tables->table[i].weight.data();
  }
  const std::size_t lines = a.outer * args.axis[0].out * args.axis[1].out,
                    work = 8 * args.axis[2].out * args.inner;
  const std::size_t scratch = round_up(kernels::resize_f32_scratch_bytes(args), kAlignment);
  return make_step(
      [=, kernel = c.kernels->resize_f32](const RunContext& run) {
        parallel(run, lines, grain_for(work),
                 [&, keep = tables.get()](std::size_t b, std::size_t e, std::size_t p) {
                   (void)keep;
                   kernels::ResizeF32Args part = args;
                   part.x = in<float>(run, 0);
                   part.y = out<float>(run, 0);
                   part.line_begin = b;
                   part.line_end = e;
                   part.scratch = run.scratch + p * scratch;
                   kernel(part);
                 });
        return ok_status();
      },
      scratch * static_cast<std::size_t>(std::max(c.threads, 1)));
}

}  // namespace

Result<StepPtr> prepare_op(const graph::Resize& op, const PrepareContext& c) {
  if (op.antialias) return unsupported("a resize with antialias");
  const TensorType& x = c.type(0);
  const Shape& y = c.out(0).shape;
  std::optional<Dims> sizes;
  if (const auto v = c.ints(2)) sizes.emplace(v->begin(), v->end());
  FOLD8_TRY(ResizeSpec s, resize_spec(op, x.shape, c.has(2) ? std::nullopt : c.reals(1), sizes));
  if (!(s.shape == y))
    return internal_error("a resize of " + describe(x) + " gives " + to_string(s.shape) +
                          ", expected " + to_string(y));
  if (y.count() == 0) return make_step([](const RunContext&) { return ok_status(); });
  const auto roi = c.reals(3);
  const bool crop = op.coordinates == graph::Coordinates::tf_crop_and_resize;
  FOLD8_TRY(const std::vector<int> axes, axes_of(op, x.shape.rank()));
  if (crop && (!roi || roi->size() != 2 * axes.size()))
    return invalid_model("tf_crop_and_resize needs a roi of " + std::to_string(2 * axes.size()) +
                         " numbers");
  std::vector<bool> active(static_cast<std::size_t>(x.shape.rank()));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const bool cropped = crop && ((*roi)[i] != 0 || (*roi)[i + axes.size()] != 1);
    active[static_cast<std::size_t>(axes[i])] = cropped ||
                                                x.shape.extent(axes[i]) != y.extent(axes[i]) ||
                                                s.scale[static_cast<std::size_t>(axes[i])] != 1.0;
  }
  FOLD8_TRY(const Around a, around(x, active));
  auto tables = std::make_shared<Tables>();
  for (int i = 0; i < 3; ++i) {
    if (a.axis[i] < 0 || !active[static_cast<std::size_t>(a.axis[i])]) continue;
    kernels::ResizeAxisSpec spec = axis_spec(op, s, x.shape, y, a.axis[i]);
    if (crop) {
      const auto at =
          static_cast<std::size_t>(std::find(axes.begin(), axes.end(), a.axis[i]) - axes.begin());
      spec.roi_start = (*roi)[at];
      spec.roi_end = (*roi)[at + axes.size()];
    }
    FOLD8_TRY(tables->table[i], kernels::make_resize_table(spec));
  }
  if (op.mode == graph::ResizeMode::nearest)
    return nearest_step(c, a, tables, y, op.extrapolation_value);
  return linear_step(c, a, tables, y, op.extrapolation_value);
}

}  // namespace fold8::ops
