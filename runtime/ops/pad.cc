// ONNX Pad: constant, reflect, edge, wrap; negative pads crop. A missing value is 0 (the zero point
// of a quantized tensor).
#include "runtime/ops/each_op.h"
#include "runtime/ops/strided_copy.h"

namespace fold8::ops {
namespace {

struct Pads {
  std::array<std::int64_t, Shape::kMaxRank> begin{}, end{};
};

// pads: the numbers of input 1; axes: those of input 3, if given.
Result<Pads> pads_of(const std::vector<std::int64_t>& pads,
                     const std::optional<std::vector<std::int64_t>>& axes, int rank) {
  const std::size_t n = axes ? axes->size() : static_cast<std::size_t>(rank);
  if (pads.size() != 2 * n)
    return invalid_model("input 1 holds " + std::to_string(pads.size()) + " pads, expected " +
                         std::to_string(2 * n));
  Pads p;
  for (std::size_t i = 0; i < n; ++i) {
    FOLD8_TRY(const int a, checked_axis(axes ? (*axes)[i] : static_cast<std::int64_t>(i), rank));
    p.begin[static_cast<std::size_t>(a)] = pads[i];
    p.end[static_cast<std::size_t>(a)] = pads[i + n];
  }
  return p;
}

std::optional<std::vector<std::int64_t>> numbers(const InferContext& c, std::size_t i) {
  const auto k = c.ints(i);
  if (!k || !k->all_known()) return std::nullopt;
  std::vector<std::int64_t> v;
  for (Dim d : k->values) v.push_back(d.value());
  return v;
}

// Where position i of the output reads in an input of `n`; n >= 1.
std::int64_t source(graph::Pad::Mode mode, std::int64_t i, std::int64_t n) {
  if (i >= 0 && i < n) return i;
  if (mode == graph::Pad::Mode::edge) return std::clamp<std::int64_t>(i, 0, n - 1);
  if (mode == graph::Pad::Mode::wrap) return ((i % n) + n) % n;
  if (n == 1) return 0;
  const std::int64_t period = 2 * (n - 1), r = ((i % period) + period) % period;
  return r < n ? r : period - r;
}

// Fills `n` elements of `size` bytes with one of them.
void fill(std::byte* dst, std::size_t n, std::size_t size, const std::byte* value) {
  if (size == 1) {
    std::memset(dst, std::to_integer<int>(*value), n);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) std::memcpy(dst + i * size, value, size);
}

Result<StepPtr> prepare_constant(const PrepareContext& c, const Pads& pads) {
  const TensorType& x = c.type(0);
  const TensorType& y = c.out(0);
  const Strides from = strides_of(x), to = strides_of(y);
  std::int64_t extents[Shape::kMaxRank], src = 0, dst = 0;
  for (int a = 0; a < x.shape.rank(); ++a) {
    const auto i = static_cast<std::size_t>(a);
    const std::int64_t first = std::max<std::int64_t>(0, -pads.begin[i]);
    const std::int64_t last = x.shape.extent(a) - std::max<std::int64_t>(0, -pads.end[i]);
    extents[a] = std::max<std::int64_t>(0, last - first);
    if (extents[a] == 0) continue;
    src += first * from[i];
    dst += std::max<std::int64_t>(0, pads.begin[i]) * to[i];
  }
  const auto r = static_cast<std::size_t>(x.shape.rank());
  const std::size_t size = size_of(x.dtype);
  const CopyPlan plan = make_copy_plan({extents, r}, {from.data(), r}, {to.data(), r}, size);
  std::array<std::byte, 8> zero{};
  if (x.quant && x.quant->is_per_tensor()) zero[0] = static_cast<std::byte>(x.quant->zero_point());
  const std::size_t total = count(y);
  const auto src_bytes = static_cast<std::size_t>(src) * size,
             dst_bytes = static_cast<std::size_t>(dst) * size;
  return make_step([=](const RunContext& run) {
    const auto* given = run.inputs.size() > 2 ? in<std::byte>(run, 2) : nullptr;
    const std::byte* value = given ? given : zero.data();
    auto* y0 = out<std::byte>(run, 0);
    parallel(run, total, grain_for(1), [&](std::size_t b, std::size_t e, std::size_t) {
      fill(y0 + b * size, e - b, size, value);
    });
    run_copy(run, plan, in<std::byte>(run, 0) + src_bytes, y0 + dst_bytes);
    return ok_status();
  });
}

struct Gathered {
  int rank = 0;
  std::size_t size = 1;
  std::int64_t stride[Shape::kMaxRank] = {};  // of x along the output's memory axes
  std::vector<std::int64_t> index[Shape::kMaxRank];
};

std::byte* gather_axes(const Gathered& g, int axis, const std::byte* src, std::byte* dst) {
  for (std::int64_t i : g.index[axis]) {
    const std::byte* from = src + i * g.stride[axis] * static_cast<std::int64_t>(g.size);
    if (axis < g.rank - 1) {
      dst = gather_axes(g, axis + 1, from, dst);
    } else {
      std::memcpy(dst, from, g.size);
      dst += g.size;
    }
  }
  return dst;
}

Result<StepPtr> prepare_gathered(graph::Pad::Mode mode, const PrepareContext& c, const Pads& pads) {
  const TensorType& x = c.type(0);
  const TensorType& y = c.out(0);
  Gathered g;
  g.rank = x.shape.rank();
  g.size = size_of(x.dtype);
  const Strides from = strides_of(x);
  const auto order = memory_axes(g.rank, y.layout);
  for (int k = 0; k < g.rank; ++k) {
    const int a = order[static_cast<std::size_t>(k)];
    if (y.shape.extent(a) > (1 << 26))
      return unsupported("padding an axis to " + std::to_string(y.shape.extent(a)) + " elements");
    g.stride[k] = from[static_cast<std::size_t>(a)];
    for (std::int64_t i = 0; i < y.shape.extent(a); ++i)
      g.index[k].push_back(
          source(mode, i - pads.begin[static_cast<std::size_t>(a)], x.shape.extent(a)));
  }
  return make_step([g = std::move(g)](const RunContext& run) {
    if (g.rank == 0)
      std::memcpy(run.outputs[0], run.inputs[0], g.size);
    else
      gather_axes(g, 0, in<std::byte>(run, 0), out<std::byte>(run, 0));
    return ok_status();
  });
}

}  // namespace

Status infer_op(const graph::Pad& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 4));
  FOLD8_CHECK_OK(expect_index(c, 1));
  if (c.has(2) && c.type(2).dtype != c.type(0).dtype)
    return bad_input(c, 2, "a value of input 0's type");
  if (c.has(2) && c.shape(2).known() && c.shape(2).count() != 1)
    return bad_input(c, 2, "one element");
  const Shape& x = c.shape(0);
  Shape y = x;
  const auto pads = numbers(c, 1);
  const auto axes = numbers(c, 3);
  if (!pads || (c.has(3) && !axes)) {
    const auto k = c.ints(1);
    for (int a = 0; a < x.rank(); ++a) {
      // Elements computed from symbols: an axis whose two pads are known can still be told.
      const auto i = static_cast<std::size_t>(a), r = static_cast<std::size_t>(x.rank());
      y[a] = k && !c.has(3) && k->values.size() == 2 * r ? x[a] + k->values[i] + k->values[i + r]
                                                         : Dim::unknown();
    }
    set_like(c, 0, 0, y);
    return ok_status();
  }
  FOLD8_TRY(const Pads p, pads_of(*pads, axes, x.rank()));
  for (int a = 0; a < x.rank(); ++a) {
    const auto i = static_cast<std::size_t>(a);
    y[a] = x[a] + Dim(p.begin[i]) + Dim(p.end[i]);
    if (y[a].known() && y[a].value() < 0)
      return invalid_model("pads crop more than axis " + std::to_string(a) + " has: input 0 is " +
                           describe(c.type(0)));
    const bool grows = p.begin[i] > 0 || p.end[i] > 0;
    if (op.mode != graph::Pad::Mode::constant && grows && x[a].known() && x[a].value() == 0)
      return bad_input(c, 0, "a non-empty axis " + std::to_string(a) + " to pad from");
  }
  set_like(c, 0, 0, y);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Pad& op, const PrepareContext& c) {
  const auto numbers = c.ints(1);
  const auto axes = c.ints(3);
  if (!numbers || (c.has(3) && !axes))
    return internal_error("the pads are not known when the step is prepared");
  FOLD8_TRY(const Pads pads, pads_of(*numbers, axes, c.type(0).shape.rank()));
  if (op.mode == graph::Pad::Mode::constant) return prepare_constant(c, pads);
  return prepare_gathered(op.mode, c, pads);
}

}  // namespace fold8::ops
