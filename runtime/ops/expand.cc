// ONNX Expand (broadcast to a shape) and Tile (repeat along each axis).
#include "runtime/ops/each_op.h"
#include "runtime/ops/strided_copy.h"

namespace fold8::ops {

Status infer_op(const graph::Expand&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 2));
  FOLD8_CHECK_OK(expect_index(c, 1));
  if (c.shape(1).rank() != 1) return bad_input(c, 1, "a shape of rank 1");
  Shape wanted;
  if (const auto k = c.ints(1)) {
    FOLD8_CHECK_OK(expect_rank_fits(static_cast<int>(k->values.size())));
    wanted = Shape(std::span<const Dim>(k->values));
  } else {
    if (!c.shape(1)[0].known())
      return unsupported("the rank of the output is not known: input 1 is " + describe(c.type(1)));
    FOLD8_CHECK_OK(
        expect_rank_fits(static_cast<int>(std::min<std::int64_t>(c.shape(1).extent(0), 99))));
    wanted.resize(static_cast<int>(c.shape(1).extent(0)));
  }
  for (Dim d : wanted.dims())
    if (d.known() && d.value() < 0)
      return invalid_model("the shape to expand to is " + to_string(wanted));
  const auto y = broadcast(c.shape(0), wanted);
  if (!y) return bad_input(c, 0, "a shape that expands to " + to_string(wanted));
  set_like(c, 0, 0, *y);
  const auto k = known(c, 0);
  if (k && k->size() == 1 && y->rank() <= 1 && y->known() && y->count() <= KnownInts::kMaxInts)
    set_known(c,
              pick(*k, std::vector<std::size_t>(static_cast<std::size_t>(y->count()), 0), false));
  else if (k && y->rank() == 1 && y->known() && static_cast<std::size_t>(y->count()) == k->size())
    set_known(c, *k);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Expand&, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  const TensorType& y = c.out(0);
  const Strides from = broadcast_strides(x, y.shape), to = strides_of(y);
  std::int64_t extents[Shape::kMaxRank];
  for (int a = 0; a < y.shape.rank(); ++a) extents[a] = y.shape.extent(a);
  const auto r = static_cast<std::size_t>(y.shape.rank());
  const CopyPlan plan =
      make_copy_plan({extents, r}, {from.data(), r}, {to.data(), r}, size_of(x.dtype));
  return make_step([plan](const RunContext& run) {
    run_copy(run, plan, run.inputs[0], run.outputs[0]);
    return ok_status();
  });
}

Status infer_op(const graph::Tile&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 2));
  FOLD8_CHECK_OK(expect_index(c, 1));
  const Shape& x = c.shape(0);
  if (c.shape(1).rank() != 1) return bad_input(c, 1, "rank 1");
  Shape y;
  y.resize(x.rank());
  if (const auto k = c.ints(1)) {
    if (static_cast<int>(k->values.size()) != x.rank())
      return bad_input(c, 1, std::to_string(x.rank()) + " repeats, one an axis");
    for (int a = 0; a < x.rank(); ++a) {
      const Dim r = k->values[static_cast<std::size_t>(a)];
      if (r.known() && r.value() < 0)
        return invalid_model("repeats of axis " + std::to_string(a) + " are " +
                             std::to_string(r.value()));
      y[a] = x[a] * r;
    }
  }
  set_like(c, 0, 0, y);
  const auto k = known(c, 0);
  if (k && y.rank() == 1 && y.known() && y.count() <= KnownInts::kMaxInts && k->size() > 0) {
    std::vector<std::size_t> index;
    for (std::int64_t i = 0; i < y.count(); ++i)
      index.push_back(static_cast<std::size_t>(i) % k->size());
    set_known(c, pick(*k, index, false));
  }
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Tile&, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  const TensorType& y = c.out(0);
  const Strides from = strides_of(x), to = strides_of(y);
  std::vector<std::int64_t> extents, src, dst;
  for (int a = 0; a < x.shape.rank(); ++a) {
    const auto i = static_cast<std::size_t>(a);
    const std::int64_t n = x.shape.extent(a);
    extents.insert(extents.end(), {n > 0 ? y.shape.extent(a) / n : 0, n});
    src.insert(src.end(), {0, from[i]});
    dst.insert(dst.end(), {n * to[i], to[i]});
  }
  const CopyPlan plan = make_copy_plan(extents, src, dst, size_of(x.dtype));
  return make_step([plan](const RunContext& run) {
    run_copy(run, plan, run.inputs[0], run.outputs[0]);
    return ok_status();
  });
}

}  // namespace fold8::ops
