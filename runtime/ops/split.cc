// ONNX Split: sizes from the attribute, input 1, or equal parts (the last one smaller).
#include "runtime/ops/each_op.h"
#include "runtime/ops/strided_copy.h"

namespace fold8::ops {
namespace {

// Extents of the parts along the axis, as far as known.
Result<Dims> part_sizes(const graph::Split& op, const InferContext& c, Dim whole) {
  const std::size_t parts = c.outputs.size();
  Dims sizes(parts);
  if (!op.sizes.empty()) {
    if (op.sizes.size() != parts)
      return invalid_model(std::to_string(op.sizes.size()) + " sizes are given for " +
                           std::to_string(parts) + " outputs");
    sizes.assign(op.sizes.begin(), op.sizes.end());
  } else if (c.has(1)) {
    const auto k = c.ints(1);
    if (!k) return sizes;
    if (k->values.size() != parts)
      return bad_input(c, 1, std::to_string(parts) + " sizes, one an output");
    sizes = k->values;
  } else if (whole.known()) {
    const auto n = static_cast<std::int64_t>(parts);
    const std::int64_t each = (whole.value() + n - 1) / n;
    for (std::int64_t i = 0, left = whole.value(); i < n; ++i, left -= std::min(each, left))
      sizes[static_cast<std::size_t>(i)] = std::min(each, left);
    return sizes;
  } else {
    if (parts == 1) sizes[0] = whole;
    return sizes;
  }
  Dim sum(0);
  for (Dim d : sizes) {
    if (d.known() && d.value() < 0)
      return invalid_model("split size " + std::to_string(d.value()) + " is negative");
    sum = sum + d;
  }
  if (differ(sum, whole))
    return invalid_model("split sizes add up to " + std::to_string(sum.value()) +
                         ", the axis has extent " + std::to_string(whole.value()));
  return sizes;
}

}  // namespace

Status infer_op(const graph::Split& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 2, SIZE_MAX));
  if (c.has(1)) FOLD8_CHECK_OK(expect_index(c, 1));
  const Shape& x = c.shape(0);
  FOLD8_TRY(const int axis, checked_axis(op.axis, x.rank()));
  FOLD8_TRY(const auto sizes, part_sizes(op, c, x[axis]));
  const auto k = known(c, 0);
  std::size_t at = 0;
  bool at_known = true;
  for (std::size_t o = 0; o < sizes.size(); ++o) {
    Shape y = x;
    y[axis] = sizes[o];
    set_like(c, o, 0, y);
    if (!sizes[o].known()) at_known = false;
    if (!k || !at_known) continue;
    std::vector<std::size_t> index;
    for (std::int64_t i = 0; i < sizes[o].value() && at < k->size(); ++i) index.push_back(at++);
    set_known(c, pick(*k, index, false), o);
  }
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Split& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  const int rank = x.shape.rank();
  FOLD8_TRY(const int axis, checked_axis(op.axis, rank));
  const Strides from = strides_of(x);
  const auto r = static_cast<std::size_t>(rank);
  struct Piece {
    CopyPlan copy;
    std::size_t offset;
  };
  std::vector<Piece> pieces;
  // Outputs that nobody wants have no type here; their extent is what is left over, so sizes come
  // from the same rule.
  InferContext ic;
  for (const auto& i : c.inputs) ic.inputs.push_back({i.type, i.ints, i.constant});
  ic.outputs.resize(c.outputs.size());
  FOLD8_TRY(const auto sizes, part_sizes(op, ic, x.shape[axis]));
  std::int64_t at = 0;
  for (std::size_t o = 0; o < c.outputs.size(); ++o) {
    if (!sizes[o].known())
      return internal_error("split sizes are not known when the step is prepared");
    Piece p{{},
            static_cast<std::size_t>(at * from[static_cast<std::size_t>(axis)]) * size_of(x.dtype)};
    at += sizes[o].value();
    if (c.wants(o)) {
      const TensorType& y = c.out(o);
      const Strides to = strides_of(y);
      std::int64_t extents[Shape::kMaxRank];
      for (int a = 0; a < rank; ++a) extents[a] = y.shape.extent(a);
      p.copy = make_copy_plan({extents, r}, {from.data(), r}, {to.data(), r}, size_of(x.dtype));
    }
    pieces.push_back(p);
  }
  return make_step([pieces = std::move(pieces)](const RunContext& run) {
    for (std::size_t o = 0; o < pieces.size(); ++o)
      if (run.outputs[o] != nullptr)
        run_copy(run, pieces[o].copy,
                 static_cast<const std::byte*>(run.inputs[0]) + pieces[o].offset, run.outputs[o]);
    return ok_status();
  });
}

}  // namespace fold8::ops
