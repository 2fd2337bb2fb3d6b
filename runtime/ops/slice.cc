// ONNX Slice: y = x[start : end : step] on the given axes; negative starts, ends and steps as in
// NumPy.
#include "runtime/ops/each_op.h"
#include "runtime/ops/strided_copy.h"

namespace fold8::ops {
namespace {

struct Cut {
  std::int64_t start = 0, step = 1, extent = 0;
};

// The elements [start, end) by step of an axis of `n`.
Cut cut(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t n) {
  const auto bound = [n](std::int64_t v, std::int64_t lo, std::int64_t hi) {
    if (v < 0) v = v < -n ? -1 : v + n;  // -1 here: before the first one
    return std::clamp(v, lo, hi);
  };
  Cut c;
  c.step = step;
  if (step > 0) {
    c.start = bound(start, 0, n);
    const std::int64_t stop = bound(end, 0, n);
    c.extent = stop > c.start ? (stop - c.start - 1) / step + 1 : 0;
  } else {
    c.start = bound(start, -1, n - 1);
    const std::int64_t stop = bound(end, -1, n - 1);
    // INT64_MIN cannot be negated: such a step takes one element at most, as any step of n or more
    // does.
    const std::int64_t back = step < -n ? n + 1 : -step;
    c.extent = c.start > stop ? (c.start - stop - 1) / back + 1 : 0;
    c.step = -back;
  }
  return c;
}

struct Spec {
  std::vector<int> axes;
  Dims starts, ends, steps;
};

Result<Spec> resolve(int rank, const Dims& starts, const Dims& ends,
                     const std::optional<Dims>& axes, const std::optional<Dims>& steps) {
  Spec s;
  s.starts = starts;
  s.ends = ends;
  const std::size_t n = starts.size();
  if (ends.size() != n || (axes && axes->size() != n) || (steps && steps->size() != n))
    return invalid_model("starts, ends, axes and steps have different lengths");
  s.steps = steps ? *steps : Dims(n, Dim(1));
  unsigned seen = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (axes && !(*axes)[i].known()) return unsupported("the axes of a slice must be known");
    FOLD8_TRY(const int a,
              checked_axis(axes ? (*axes)[i].value() : static_cast<std::int64_t>(i), rank));
    if ((seen >> a) & 1u) return invalid_model("axis " + std::to_string(a) + " is sliced twice");
    seen |= 1u << a;
    if (s.steps[i].known() && s.steps[i].value() == 0)
      return invalid_model("the step of axis " + std::to_string(a) + " is 0");
    s.axes.push_back(a);
  }
  return s;
}

// Extent of one sliced axis where symbols allow it.
Dim sliced(Dim n, Dim start, Dim end, Dim step) {
  if (!step.known()) return Dim::unknown();
  const bool from_begin = start.known() && start.value() == 0;
  const bool to_end = (end.known() && end.value() >= INT32_MAX) || same(end, n);
  if (n.known() && start.known() && same(end, n))
    return cut(start.value(), n.value(), step.value(), n.value()).extent;
  if (step.value() == 1 && from_begin && to_end) return n;
  if (n.known() && start.known() && end.known())
    return cut(start.value(), end.value(), step.value(), n.value()).extent;
  // x[-k:] has at most k elements, but n may be smaller; x[:s] likewise: not told.
  return Dim::unknown();
}

std::optional<Dims> values(const InferContext& c, std::size_t i) {
  if (!c.has(i)) return std::nullopt;
  const auto k = c.ints(i);
  return k ? std::optional(k->values) : std::nullopt;
}

}  // namespace

Status infer_op(const graph::Slice&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 3, 5));
  const Shape& x = c.shape(0);
  for (std::size_t i = 1; i < c.inputs.size(); ++i) {
    if (!c.has(i)) continue;
    FOLD8_CHECK_OK(expect_index(c, i));
    if (c.shape(i).rank() != 1) return bad_input(c, i, "rank 1");
  }
  const auto axes = values(c, 3);
  if (c.has(3) && !axes)
    return unsupported("the axes of a slice must be known, input 3 is computed from data");
  auto starts = values(c, 1), ends = values(c, 2), steps = values(c, 4);
  const auto length = axes     ? axes->size()
                      : starts ? starts->size()
                      : ends   ? ends->size()
                               : SIZE_MAX;
  Shape y = x;
  if (length == SIZE_MAX) {
    if (!c.shape(1)[0].known()) y.resize(0), y.resize(x.rank());
  }
  const std::size_t n =
      length == SIZE_MAX
          ? (c.shape(1)[0].known()
                 ? static_cast<std::size_t>(std::clamp<std::int64_t>(c.shape(1).extent(0), 0, 8))
                 : 0)
          : length;
  if (!starts) starts = Dims(n);
  if (!ends) ends = Dims(n);
  if (c.has(4) && !steps) steps = Dims(n);
  FOLD8_TRY(const Spec s, resolve(x.rank(), *starts, *ends, axes, steps));
  for (std::size_t i = 0; i < s.axes.size(); ++i)
    y[s.axes[i]] = sliced(x[s.axes[i]], s.starts[i], s.ends[i], s.steps[i]);
  set_like(c, 0, 0, y);
  const auto k = known(c, 0);
  if (!k || k->scalar) return ok_status();
  std::vector<std::size_t> index;
  if (s.axes.empty()) {
    set_known(c, *k);
  } else if (s.starts[0].known() && s.ends[0].known() && s.steps[0].known()) {
    const Cut one = cut(s.starts[0].value(), s.ends[0].value(), s.steps[0].value(),
                        static_cast<std::int64_t>(k->size()));
    for (std::int64_t i = 0; i < one.extent; ++i)
      index.push_back(static_cast<std::size_t>(one.start + i * one.step));
    set_known(c, pick(*k, index, false));
  }
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Slice&, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  const TensorType& y = c.out(0);
  std::optional<Dims> operand[5];
  for (std::size_t i = 1; i < c.inputs.size(); ++i) {
    if (!c.has(i)) continue;
    const auto v = c.ints(i);
    if (!v)
      return internal_error("input " + std::to_string(i) +
                            " of a slice is not known when the step is prepared");
    operand[i].emplace(v->begin(), v->end());
  }
  FOLD8_TRY(const Spec s,
            resolve(x.shape.rank(), *operand[1], *operand[2], operand[3], operand[4]));
  Strides from = strides_of(x);
  const Strides to = strides_of(y);
  std::int64_t extents[Shape::kMaxRank], offset = 0;
  for (int a = 0; a < x.shape.rank(); ++a) extents[a] = x.shape.extent(a);
  for (std::size_t i = 0; i < s.axes.size(); ++i) {
    const auto a = static_cast<std::size_t>(s.axes[i]);
    const Cut one =
        cut(s.starts[i].value(), s.ends[i].value(), s.steps[i].value(), x.shape.extent(s.axes[i]));
    if (one.extent > 0) offset += one.start * from[a];
    from[a] *= one.extent > 1 ? one.step : 1;
    extents[a] = one.extent;
    if (one.extent != y.shape.extent(s.axes[i]))
      return internal_error("slice of " + describe(x) + " does not give " + describe(y));
  }
  const auto r = static_cast<std::size_t>(x.shape.rank());
  const CopyPlan plan =
      make_copy_plan({extents, r}, {from.data(), r}, {to.data(), r}, size_of(x.dtype));
  const auto at = offset * static_cast<std::int64_t>(size_of(x.dtype));
  return make_step([plan, at](const RunContext& run) {
    run_copy(run, plan, static_cast<const std::byte*>(run.inputs[0]) + at, run.outputs[0]);
    return ok_status();
  });
}

}  // namespace fold8::ops
