// y = activation(fma(x, scale[c], shift[c])), c = index along `axis` (kernels/binary.h: affine).
#include "runtime/ops/channel_affine.h"
#include "runtime/ops/each_op.h"

namespace fold8::ops {

Status infer_op(const graph::Affine& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 3, 3));
  const Shape& x = c.shape(0);
  FOLD8_TRY(const int axis, checked_axis(op.axis, x.rank()));
  if (!c.type(0).quant) FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::f32}));
  for (std::size_t i : {1, 2}) {
    FOLD8_CHECK_OK(expect_dtype(c, i, {DType::f32}));
    if (c.shape(i).rank() != 1 || differ(x[axis], c.shape(i)[0]))
      return bad_input(
          c, i,
          "[" + (x[axis].known() ? std::to_string(x[axis].value()) : std::string("channels")) +
              "]");
  }
  c.set(0, DType::f32, x);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Affine& op, const PrepareContext& c) {
  FOLD8_TRY(const int axis, checked_axis(op.axis, c.type(0).shape.rank()));
  ChannelAffine a = channel_affine(c, axis);
  a.args.activation = op.activation;
  a.args.act_a = op.a;
  a.args.act_b = op.b;
  return make_step([a](const RunContext& run) {
    a.run(run, in<float>(run, 1), in<float>(run, 2));
    return ok_status();
  });
}

}  // namespace fold8::ops
