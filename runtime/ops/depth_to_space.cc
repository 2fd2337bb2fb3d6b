// ONNX DepthToSpace and SpaceToDepth: 4-d tensors, blocks of channels against blocks of pixels. Any
// layouts.
#include "runtime/ops/each_op.h"
#include "runtime/ops/strided_copy.h"

namespace fold8::ops {
namespace {

Status expect_image(const InferContext& c, std::int64_t block) {
  if (c.shape(0).rank() != 4) return bad_input(c, 0, "rank 4");
  if (block < 1 || block > 65536)
    return invalid_model("block " + std::to_string(block) + " is not between 1 and 65536");
  return ok_status();
}

// Both operators move a depth tensor [N, C*b*b, H, W] to or from a space tensor [N, C, H*b, W*b].
Result<StepPtr> prepare_blocks(const PrepareContext& c, const TensorType& depth,
                               const TensorType& space, std::int64_t b, bool crd, bool to_space) {
  const std::int64_t n = space.shape.extent(0), ch = space.shape.extent(1);
  const std::int64_t h = depth.shape.extent(2), w = depth.shape.extent(3);
  const Strides d = strides_of(depth), s = strides_of(space);
  // Axes: n, block row, block column, c, h, w.
  const std::int64_t extents[6] = {n, b, b, ch, h, w};
  const std::int64_t row = crd ? b * d[1] : b * ch * d[1], column = crd ? d[1] : ch * d[1],
                     channel = crd ? b * b * d[1] : d[1];
  const std::int64_t in_depth[6] = {d[0], row, column, channel, d[2], d[3]};
  const std::int64_t in_space[6] = {s[0], s[2], s[3], s[1], b * s[2], b * s[3]};
  const std::size_t size = size_of(c.type(0).dtype);
  const CopyPlan plan = to_space ? make_copy_plan(extents, in_depth, in_space, size)
                                 : make_copy_plan(extents, in_space, in_depth, size);
  return make_step([plan](const RunContext& run) {
    run_copy(run, plan, run.inputs[0], run.outputs[0]);
    return ok_status();
  });
}

}  // namespace

Status infer_op(const graph::DepthToSpace& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  FOLD8_CHECK_OK(expect_image(c, op.block));
  const Shape& x = c.shape(0);
  if (x[1].known() && x[1].value() % (op.block * op.block) != 0)
    return bad_input(c, 0,
                     "channels that are a multiple of " + std::to_string(op.block * op.block));
  set_like(c, 0, 0,
           Shape{x[0], floor_div(x[1], Dim(op.block * op.block)), x[2] * Dim(op.block),
                 x[3] * Dim(op.block)});
  return ok_status();
}

Status infer_op(const graph::SpaceToDepth& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  FOLD8_CHECK_OK(expect_image(c, op.block));
  const Shape& x = c.shape(0);
  for (int a : {2, 3})
    if (x[a].known() && x[a].value() % op.block != 0)
      return bad_input(c, 0,
                       "an extent that is a multiple of " + std::to_string(op.block) + " at axis " +
                           std::to_string(a));
  set_like(c, 0, 0,
           Shape{x[0], x[1] * Dim(op.block * op.block), floor_div(x[2], Dim(op.block)),
                 floor_div(x[3], Dim(op.block))});
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::DepthToSpace& op, const PrepareContext& c) {
  return prepare_blocks(c, c.type(0), c.out(0), op.block, op.crd, true);
}
Result<StepPtr> prepare_op(const graph::SpaceToDepth& op, const PrepareContext& c) {
  return prepare_blocks(c, c.out(0), c.type(0), op.block, false, false);
}

}  // namespace fold8::ops
