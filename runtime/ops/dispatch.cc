// From graph::Op to the operator's own file.
#include "runtime/ops/adapter.h"
#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

// Extents of every operand are sane: none negative, products far from overflow.
Status check_shape(const Shape& s, const char* what, std::size_t index) {
  const auto named = [&] {
    return what + std::to_string(index) + " has the shape " + to_string(s);
  };
  std::int64_t known = 1;
  bool zero = false;
  for (Dim d : s.dims()) {
    if (!d.known()) continue;
    if (d.value() < 0) return invalid_model(named());
    zero |= d.value() == 0;
    if (!zero && (__builtin_mul_overflow(known, d.value(), &known) || known > kMostElements))
      return unsupported(named() + ", more elements than fold8 can hold");
  }
  return ok_status();
}

Result<StepPtr> prepare_native(const graph::Op& op, const PrepareContext& c) {
  return std::visit([&](const auto& o) { return prepare_op(o, c); }, op);
}

// Operators whose other outputs make sense alone.
bool first_output_is_optional(const graph::Op& op) {
  using namespace graph;
  if (const auto* p = std::get_if<Pool>(&op)) return p->kind == PoolKind::max;
  if (const auto* q = std::get_if<DynamicQuantize>(&op)) return q->onnx;
  return std::holds_alternative<Split>(op) || std::holds_alternative<TopK>(op);
}

}  // namespace

Status infer(const graph::Op& op, InferContext& c) {
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    if (c.has(i)) FOLD8_CHECK_OK(check_shape(c.shape(i), "input ", i));
  for (auto& o : c.outputs) {
    o.ints.reset();
    o.bound.reset();
  }
  FOLD8_CHECK_OK(std::visit([&](const auto& o) { return infer_op(o, c); }, op));
  for (std::size_t o = 0; o < c.outputs.size(); ++o)
    FOLD8_CHECK_OK(check_shape(c.outputs[o].type.shape, "output ", o));
  return ok_status();
}

Result<StepPtr> prepare(const graph::Op& op, const PrepareContext& c) {
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    if (c.has(i) && !c.type(i).shape.elements())
      return internal_error("input " + std::to_string(i) + " is " + describe(c.type(i)) +
                            " when the step is prepared");
  bool any = false;
  for (std::size_t o = 0; o < c.outputs.size(); ++o) {
    any |= c.wants(o);
    if (c.wants(o) && !c.out(o).shape.elements() && !std::holds_alternative<graph::NonZero>(op))
      return internal_error("output " + std::to_string(o) + " is " + describe(c.out(o)) +
                            " when the step is prepared");
  }
  const bool control = std::holds_alternative<graph::If>(op) ||
                       std::holds_alternative<graph::Loop>(op) ||
                       std::holds_alternative<graph::Scan>(op);
  if (control) return prepare_native(op, c);
  if (!any) return make_step([](const RunContext&) { return ok_status(); });
  if (!c.wants(0) && !first_output_is_optional(op))
    return unsupported("operator '" + std::string(graph::name(op)) +
                       "' whose first output nobody reads");
  return prepare_adapted(op, c, native_types(op, c), prepare_native);
}

}  // namespace fold8::ops
