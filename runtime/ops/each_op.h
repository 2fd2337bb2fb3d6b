// infer_op() and prepare_op() of every alternative of graph::Op, defined in the operator's own
// file. prepare_op() sees only types the operator runs natively (native_types.h); the dispatcher
// wraps the rest.
#pragma once

#include "runtime/ops/common.h"

namespace fold8::ops {

#define FOLD8_DECLARE_OP(name)                                           \
  [[gnu::cold]] Status infer_op(const graph::name& op, InferContext& c); \
  [[gnu::cold]] Result<StepPtr> prepare_op(const graph::name& op, const PrepareContext& c);

FOLD8_DECLARE_OP(Unary)
FOLD8_DECLARE_OP(Binary)
FOLD8_DECLARE_OP(Where)
FOLD8_DECLARE_OP(Affine)
FOLD8_DECLARE_OP(Cast)
FOLD8_DECLARE_OP(Identity)
FOLD8_DECLARE_OP(Linear)
FOLD8_DECLARE_OP(MatMul)
FOLD8_DECLARE_OP(Conv)
FOLD8_DECLARE_OP(Pool)
FOLD8_DECLARE_OP(Resize)
FOLD8_DECLARE_OP(BatchNorm)
FOLD8_DECLARE_OP(Norm)
FOLD8_DECLARE_OP(Lrn)
FOLD8_DECLARE_OP(Softmax)
FOLD8_DECLARE_OP(Reduce)
FOLD8_DECLARE_OP(ArgReduce)
FOLD8_DECLARE_OP(CumSum)
FOLD8_DECLARE_OP(TopK)
FOLD8_DECLARE_OP(Reshape)
FOLD8_DECLARE_OP(Flatten)
FOLD8_DECLARE_OP(Squeeze)
FOLD8_DECLARE_OP(Unsqueeze)
FOLD8_DECLARE_OP(Transpose)
FOLD8_DECLARE_OP(Concat)
FOLD8_DECLARE_OP(Split)
FOLD8_DECLARE_OP(Slice)
FOLD8_DECLARE_OP(Pad)
FOLD8_DECLARE_OP(Expand)
FOLD8_DECLARE_OP(Tile)
FOLD8_DECLARE_OP(Gather)
FOLD8_DECLARE_OP(GatherElements)
FOLD8_DECLARE_OP(GatherND)
FOLD8_DECLARE_OP(ScatterElements)
FOLD8_DECLARE_OP(ScatterND)
FOLD8_DECLARE_OP(DepthToSpace)
FOLD8_DECLARE_OP(SpaceToDepth)
FOLD8_DECLARE_OP(Trilu)
FOLD8_DECLARE_OP(OneHot)
FOLD8_DECLARE_OP(ShapeOf)
FOLD8_DECLARE_OP(SizeOf)
FOLD8_DECLARE_OP(ConstantOfShape)
FOLD8_DECLARE_OP(Range)
FOLD8_DECLARE_OP(NonZero)
FOLD8_DECLARE_OP(Einsum)
FOLD8_DECLARE_OP(Quantize)
FOLD8_DECLARE_OP(Dequantize)
FOLD8_DECLARE_OP(DynamicQuantize)
FOLD8_DECLARE_OP(Lookup)
FOLD8_DECLARE_OP(Relayout)
FOLD8_DECLARE_OP(Attention)
FOLD8_DECLARE_OP(Rotary)
FOLD8_DECLARE_OP(If)
FOLD8_DECLARE_OP(Loop)
FOLD8_DECLARE_OP(Scan)

#undef FOLD8_DECLARE_OP

}  // namespace fold8::ops
