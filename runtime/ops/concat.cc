// ONNX Concat along an axis. u8/s8 inputs whose params differ from the output's go through a
// 256-entry table.
#include "runtime/ops/each_op.h"
#include "runtime/ops/requantize_map.h"
#include "runtime/ops/strided_copy.h"

namespace fold8::ops {

Status infer_op(const graph::Concat& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, SIZE_MAX));
  Shape y = c.shape(0);
  FOLD8_TRY(const int axis, checked_axis(op.axis, y.rank()));
  for (std::size_t i = 1; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return invalid_model("input " + std::to_string(i) + " is missing");
    const Shape& x = c.shape(i);
    if (c.type(i).dtype != c.type(0).dtype)
      return bad_input(c, i,
                       "elements of type " + std::string(name(c.type(0).dtype)) + " as input 0");
    if (x.rank() != y.rank())
      return bad_input(c, i, "rank " + std::to_string(y.rank()) + " as input 0");
    for (int a = 0; a < x.rank(); ++a) {
      if (a == axis) continue;
      if (differ(x[a], y[a]))
        return bad_input(c, i,
                         "extent " + std::to_string(y[a].value()) + " at axis " +
                             std::to_string(a) + " as input 0");
      if (!y[a].known() && (x[a].known() || (!y[a].is_symbol() && x[a].is_symbol()))) y[a] = x[a];
    }
    y[axis] = y[axis] + x[axis];
  }
  set_like(c, 0, 0, y);
  if (y.rank() != 1) return ok_status();
  KnownInts all;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const auto k = known(c, i);
    if (!k || (i > 0 && k->real != all.real)) return ok_status();
    all.real = k->real;
    all.values.insert(all.values.end(), k->values.begin(), k->values.end());
    all.reals.insert(all.reals.end(), k->reals.begin(), k->reals.end());
    if (all.size() > KnownInts::kMaxInts) return ok_status();
  }
  set_known(c, std::move(all));
  return ok_status();
}

namespace {

struct Piece {
  CopyPlan copy;
  std::size_t offset = 0;            // bytes into the output
  std::optional<RequantizeMap> map;  // else bytes are copied
};

}  // namespace

Result<StepPtr> prepare_op(const graph::Concat& op, const PrepareContext& c) {
  const TensorType& y = c.out(0);
  const int rank = y.shape.rank();
  FOLD8_TRY(const int axis, checked_axis(op.axis, rank));
  const auto r = static_cast<std::size_t>(rank);
  const Strides to = strides_of(y);
  KeptVector<Piece> pieces;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const TensorType& x = c.type(i);
    Strides from = strides_of(x);
    std::int64_t extents[Shape::kMaxRank];
    for (int a = 0; a < rank; ++a) extents[a] = x.shape.extent(a);
    Piece p;
    p.copy = make_copy_plan({extents, r}, {from.data(), r}, {to.data(), r}, size_of(x.dtype));
    p.offset = static_cast<std::size_t>(at * to[static_cast<std::size_t>(axis)]) * size_of(x.dtype);
    FOLD8_TRY(p.map, requantize_map(x, y));
    at += x.shape.extent(axis);
    pieces.push_back(std::move(p));
  }
  return make_step([pieces = std::move(pieces)](const RunContext& run) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Piece& p = pieces[i];
      if (i == 0 && run.inputs[0] == run.outputs[0]) continue;  // appended in place
      std::byte* dst = static_cast<std::byte*>(run.outputs[0]) + p.offset;
      if (p.map)
        run_mapped_copy(run, p.copy, *p.map, run.inputs[i], dst);
      else
        run_copy(run, p.copy, run.inputs[i], dst);
    }
    return ok_status();
  });
}

}  // namespace fold8::ops
