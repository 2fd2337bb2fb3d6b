// ONNX Reduce*. f32, s32 and s64 by the kernels (reduce.h), other number types by plain loops.
// Sums go by lanes over the reduced elements in row-major order, whatever axes they are and however
// the tensor lies in memory: over a feature map of a thousand positions one chain would lose a
// digit.
#include "runtime/kernels/reduce.h"

#include <cmath>

#include "runtime/kernels/transpose.h"
#include "runtime/ops/each_op.h"
#include "runtime/ops/reduce_axes.h"

namespace fold8::ops {

using graph::ReduceKind;

Result<std::optional<std::uint32_t>> reduced_axes(
    const graph::Reduce& op, const std::optional<std::vector<std::int64_t>>& operand,
    bool has_operand, int rank) {
  std::vector<std::int64_t> axes(op.axes.begin(), op.axes.end());
  if (has_operand) {
    if (!operand) return std::optional<std::uint32_t>();
    axes = *operand;
  }
  const std::uint32_t all = (1u << rank) - 1;
  if (axes.empty()) return std::optional<std::uint32_t>(op.noop_with_empty_axes ? 0 : all);
  std::uint32_t set = 0;
  for (std::int64_t axis : axes) {
    FOLD8_TRY(const int a, checked_axis(axis, rank));
    set |= 1u << a;
  }
  return std::optional<std::uint32_t>(set);
}

bool is_spatial_reduction(std::uint32_t axes, int rank) {
  return rank >= 4 && axes == (((1u << rank) - 1) & ~3u);
}

namespace {

void infer_known(const graph::Reduce& op, InferContext& c) {
  const auto k = c.ints(0);
  if (!k || k->scalar || k->values.empty()) return;
  Dim r = k->values[0];
  for (std::size_t i = 1; i < k->values.size(); ++i) {
    const Dim d = k->values[i];
    if (op.kind == ReduceKind::prod)
      r = r * d;
    else if (op.kind == ReduceKind::sum)
      r = r + d;
    else if (op.kind == ReduceKind::max && (same(r, d) || (r.known() && d.known())))
      r = r.known() ? Dim(std::max(r.value(), d.value())) : r;
    else if (op.kind == ReduceKind::min && (same(r, d) || (r.known() && d.known())))
      r = r.known() ? Dim(std::min(r.value(), d.value())) : r;
    else
      return;
  }
  KnownInts y;
  y.values.push_back(r);
  set_known(c, std::move(y));
}

// [outer, axis, inner] in memory, perhaps after bringing the reduced axes to the end in scratch.
struct ReduceBox {
  std::size_t outer = 1, axis = 1, inner = 1;
  bool moved = false;
  kernels::TransposePlan plan;
};

ReduceBox make_box(const TensorType& x, std::uint32_t axes) {
  const int rank = x.shape.rank();
  const auto order = memory_axes(rank, x.layout);
  ReduceBox box;
  int state = 0;  // 0 before, 1 inside, 2 behind the reduced axes
  bool together = true;
  for (int k = 0; k < rank; ++k) {
    const int a = order[static_cast<std::size_t>(k)];
    if (x.shape.extent(a) == 1) continue;
    const bool in_set = (axes >> a) & 1u;
    if (in_set && state == 2) together = false;
    if (in_set && state == 0) state = 1;
    if (!in_set && state == 1) state = 2;
    (in_set       ? box.axis
     : state == 0 ? box.outer
                  : box.inner) *= static_cast<std::size_t>(x.shape.extent(a));
  }
  if (x.shape.count() == 0 || together) {
    if (!together || x.shape.count() == 0) {
      box = ReduceBox{};
      for (int a = 0; a < rank; ++a)
        (((axes >> a) & 1u) ? box.axis : box.outer) *= static_cast<std::size_t>(x.shape.extent(a));
    }
    return box;
  }
  // Kept axes first, then the reduced ones, both in logical order.
  std::int64_t extents[Shape::kMaxRank];
  int perm[Shape::kMaxRank], n = 0;
  for (int k = 0; k < rank; ++k) extents[k] = x.shape.extent(order[static_cast<std::size_t>(k)]);
  for (const bool reduced : {false, true})
    for (int a = 0; a < rank; ++a)
      if (((axes >> a) & 1u) == reduced)
        perm[n++] =
            static_cast<int>(std::find(order.begin(), order.begin() + rank, a) - order.begin());
  box = ReduceBox{};
  for (int a = 0; a < rank; ++a)
    (((axes >> a) & 1u) ? box.axis : box.outer) *= static_cast<std::size_t>(x.shape.extent(a));
  box.moved = true;
  const auto r = static_cast<std::size_t>(rank);
  box.plan = kernels::make_transpose_plan({extents, r}, {perm, r}, size_of(x.dtype));
  return box;
}

// x of the box: the operand, or its transposed copy in scratch.
const void* boxed(const RunContext& run, const ReduceBox& box, kernels::transpose_fn* kernel) {
  if (!box.moved) return run.inputs[0];
  parallel(run, box.plan.extent[0], 1, [&](std::size_t b, std::size_t e, std::size_t) {
    kernels::TransposeArgs args;
    args.plan = box.plan;
    args.x = run.inputs[0];
    args.y = run.scratch;
    args.begin = b;
    args.end = e;
    kernel(args);
  });
  return run.scratch;
}

template <class T>
T reduce_one(ReduceKind kind, const T* x, std::size_t n, std::size_t stride) {
  T r = kind == ReduceKind::prod ? T(1) : T(0);
  if (kind == ReduceKind::max || kind == ReduceKind::min) {
    if (n == 0)
      return kind == ReduceKind::max ? std::numeric_limits<T>::lowest()
                                     : std::numeric_limits<T>::max();
    r = x[0];
  }
  for (std::size_t i = 0; i < n; ++i) {
    const T v = x[i * stride];
    switch (kind) {
      case ReduceKind::sum:
      case ReduceKind::mean:
        r = wrap_add(r, v);
        break;
      case ReduceKind::prod:
        r = wrap_mul(r, v);
        break;
      case ReduceKind::max:
        r = v > r || v != v ? v : r;
        break;
      case ReduceKind::min:
        r = v < r || v != v ? v : r;
        break;
      case ReduceKind::l1:
        r = wrap_add(r, v < T(0) ? wrap_sub(T(0), v) : v);
        break;
      default:
        r = wrap_add(r, wrap_mul(v, v));
        break;  // sum_square, l2
    }
  }
  if (kind == ReduceKind::mean) return n == 0 ? T(0) : static_cast<T>(r / static_cast<T>(n));
  if constexpr (std::is_floating_point_v<T>)
    if (kind == ReduceKind::l2) return std::sqrt(r);
  return r;
}

template <class T>
Result<StepPtr> prepare_loop(ReduceKind kind, const ReduceBox& box,
                             kernels::transpose_fn* transpose, std::size_t scratch) {
  const bool logs = kind == ReduceKind::log_sum || kind == ReduceKind::log_sum_exp;
  if (logs || (kind == ReduceKind::l2 && std::is_integral_v<T>))
    return unsupported("'" + std::string(graph::enum_name(kind)) +
                       "' over elements that are not f32");
  return make_step(
      [=](const RunContext& run) {
        const T* x = static_cast<const T*>(boxed(run, box, transpose));
        for (std::size_t i = 0; i < box.outer * box.inner; ++i)
          out<T>(run, 0)[i] = reduce_one(
              kind, x + i / box.inner * box.axis * box.inner + i % box.inner, box.axis, box.inner);
        return ok_status();
      },
      scratch);
}

Result<StepPtr> prepare_integer(ReduceKind kind, DType dtype, const ReduceBox& box,
                                kernels::transpose_fn* transpose, std::size_t scratch) {
  if (kind == ReduceKind::l2 || kind == ReduceKind::log_sum || kind == ReduceKind::log_sum_exp)
    return unsupported("'" + std::string(graph::enum_name(kind)) + "' over " +
                       std::string(name(dtype)));
  const auto k = static_cast<kernels::ReduceKind>(kind);
  return make_step(
      [=](const RunContext& run) {
        const void* x = boxed(run, box, transpose);
        if (dtype == DType::s32)
          kernels::reduce_s32(k, box.outer, box.axis, box.inner,
                              static_cast<const std::int32_t*>(x), out<std::int32_t>(run, 0));
        else
          kernels::reduce_s64(k, box.outer, box.axis, box.inner,
                              static_cast<const std::int64_t*>(x), out<std::int64_t>(run, 0));
        return ok_status();
      },
      scratch);
}

}  // namespace

static_assert(static_cast<int>(kernels::ReduceKind::log_sum_exp) ==
              static_cast<int>(ReduceKind::log_sum_exp));

Status infer_op(const graph::Reduce& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 2));
  const Shape& x = c.shape(0);
  std::optional<std::vector<std::int64_t>> operand;
  if (c.has(1)) {
    FOLD8_CHECK_OK(expect_index(c, 1));
    if (c.shape(1).rank() != 1) return bad_input(c, 1, "axes of rank 1");
    if (c.shape(1).known() && c.shape(1).count() == 0)
      operand.emplace();
    else if (const auto k = c.ints(1); k && k->all_known()) {
      operand.emplace();
      for (Dim d : k->values) operand->push_back(d.value());
    }
  }
  FOLD8_TRY(const auto axes, reduced_axes(op, operand, c.has(1), x.rank()));
  Shape y;
  if (!axes) {
    if (!op.keep_dims)
      return unsupported("the axes of a reduction must be known when it drops them");
    y.resize(x.rank());
  } else {
    for (int a = 0; a < x.rank(); ++a) {
      const bool reduced = (*axes >> a) & 1u;
      if (!reduced)
        y.push_back(x[a]);
      else if (op.keep_dims)
        y.push_back(Dim(1));
    }
  }
  c.set(0, c.type(0).quant ? DType::f32 : c.type(0).dtype, y);
  if (x.rank() == 1 && axes == 1u) infer_known(op, c);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Reduce& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  std::optional<std::vector<std::int64_t>> operand = c.ints(1);
  FOLD8_TRY(const auto axes, reduced_axes(op, operand, c.has(1), x.shape.rank()));
  if (!axes)
    return internal_error("the axes of a reduction are not known when the step is prepared");
  if (*axes == 0 && op.noop_with_empty_axes) {
    return make_step([n = bytes(x)](const RunContext& run) {
      if (n > 0 && run.inputs[0] != run.outputs[0]) std::memcpy(run.outputs[0], run.inputs[0], n);
      return ok_status();
    });
  }
  const ReduceBox box = make_box(x, *axes);
  auto* transpose = c.kernels->transpose;
  const std::size_t scratch = box.moved ? bytes(x) : 0;
  if (x.dtype == DType::s32 || x.dtype == DType::s64)
    return prepare_integer(op.kind, x.dtype, box, transpose, scratch);
  if (x.dtype != DType::f32) {
    std::optional<Result<StepPtr>> step;
    if (x.dtype != DType::boolean)
      with_number_type(
          x.dtype, [&]<class T>() { step = prepare_loop<T>(op.kind, box, transpose, scratch); });
    if (!step) return unsupported("a reduction over " + std::string(name(x.dtype)));
    return std::move(*step);
  }
  kernels::ReduceArgs args;
  args.kind = static_cast<kernels::ReduceKind>(op.kind);
  args.rule = kernels::SumRule::lanes;
  args.axis = box.axis;
  args.inner = box.inner;
  return make_step(
      [=, kernel = c.kernels->reduce](const RunContext& run) {
        const float* x0 = static_cast<const float*>(boxed(run, box, transpose));
        parallel(run, box.outer, grain_for(box.axis * box.inner),
                 [&](std::size_t b, std::size_t e, std::size_t) {
                   kernels::ReduceArgs part = args;
                   part.outer = e - b;
                   part.x = x0 + b * box.axis * box.inner;
                   part.y = out<float>(run, 0) + b * box.inner;
                   kernel(part);
                 });
        return ok_status();
      },
      scratch);
}

}  // namespace fold8::ops
