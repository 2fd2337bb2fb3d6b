// y = x. The plan aliases it; run on its own it copies (and changes the layout if the types differ
// in it).
#include "runtime/ops/each_op.h"
#include "runtime/ops/strided_copy.h"

namespace fold8::ops {

Status infer_op(const graph::Identity&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  set_like(c, 0, 0, c.shape(0));
  if (auto k = known(c, 0)) set_known(c, std::move(*k));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Identity&, const PrepareContext& c) {
  return prepare_copy(c.type(0), c.out(0));
}

}  // namespace fold8::ops
