// If, Loop, Scan: held, printed and verified, not yet run.
#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

Error refused(std::string_view op) {
  return unsupported("operator '" + std::string(op) +
                     "' with a body that depends on data cannot be run; export the model "
                     "without control flow (constant conditions are folded at convert time)");
}

}  // namespace

Status infer_op(const graph::If& op, InferContext&) { return refused(op.kName); }
Status infer_op(const graph::Loop& op, InferContext&) { return refused(op.kName); }
Status infer_op(const graph::Scan& op, InferContext&) { return refused(op.kName); }
Result<StepPtr> prepare_op(const graph::If& op, const PrepareContext&) { return refused(op.kName); }
Result<StepPtr> prepare_op(const graph::Loop& op, const PrepareContext&) {
  return refused(op.kName);
}
Result<StepPtr> prepare_op(const graph::Scan& op, const PrepareContext&) {
  return refused(op.kName);
}

}  // namespace fold8::ops
