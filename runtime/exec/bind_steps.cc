// Prepared operators of one segment.
#include "runtime/exec/bind.h"
#include "runtime/exec/nested.h"

namespace fold8::exec {
namespace {

std::size_t at(graph::ValueId v) { return static_cast<std::size_t>(v); }

Status prepare_control(Binding& b, graph::NodeId id, PlannedStep& step) {
  auto& owned = (*b.options.controls)[id];
  if (owned == nullptr) {
    FOLD8_TRY(owned, make_control_step(b.info.g.node(id), b.options));
  }
  step.control = owned.get();
  return ok_status();
}

Status prepare_with_engine(const graph::Op& op, const ops::PrepareContext& c, const Engine* engine,
                           PlannedStep& step) {
  if (engine != nullptr) {
    FOLD8_TRY(step.step, engine->prepare(op, c));
    if (step.step != nullptr) {
      step.engine = engine->name();
      return ok_status();
    }
  }
  FOLD8_TRY(step.step, ops::prepare(op, c));
  return ok_status();
}

Status prepare_operator(Binding& b, const graph::Node& n, PlannedStep& step) {
  std::vector<TensorType> types;  // stay put: reserved
  types.reserve(n.inputs.size() + n.outputs.size());
  ops::PrepareContext c;
  c.kernels = b.options.kernels;
  c.threads = b.options.pool != nullptr ? b.options.pool->threads() : 1;
  const auto add = [&](graph::ValueId v) {
    ops::PrepareContext::Operand operand;
    if (v == graph::kNoValue) return operand;
    const Facts& f = b.plan.facts[at(v)];
    types.push_back(planned_type(f));
    operand.type = &types.back();
    operand.constant = f.data;
    operand.ints = f.ints && f.data == nullptr ? &*f.ints : nullptr;
    return operand;
  };
  for (graph::ValueId v : n.inputs) c.inputs.push_back(add(v));
  for (graph::ValueId v : n.outputs) {
    c.outputs.push_back(add(v));
    c.outputs.back().constant = nullptr;
  }
  auto status = prepare_with_engine(n.op, c, b.options.engine, step);
  if (!status.ok()) return in_context(describe(n), std::move(status).error());
  return status;
}

// Nothing to write: such a step is not run.
bool all_empty(const Binding& b, const PlannedStep& step) {
  for (graph::ValueId v : step.outputs) {
    if (v == graph::kNoValue) continue;
    if (b.plan.dynamic[at(v)]) return false;
    if (b.plan.facts[at(v)].type.shape.count() > 0) return false;
  }
  return true;
}

// Before anything of that size is allocated. Outputs of control flow are checked by their bodies.
Status check_sizes(const Binding& b, const graph::Node& n) {
  for (graph::ValueId v : n.outputs) {
    if (v == graph::kNoValue) continue;
    const TensorType t = planned_type(b.plan.facts[at(v)]);
    const auto bytes = bytes_of(t);
    if (!bytes || *bytes > b.options.memory_limit)
      return invalid_argument("tensor '" + b.info.g.value(v).name + "' would be " +
                              std::string(name(t.dtype)) + to_string(t.shape) +
                              ", more than the limit of " + megabytes(b.options.memory_limit) +
                              "; run smaller inputs");
  }
  return ok_status();
}

}  // namespace

TensorType planned_type(const Facts& f) {
  TensorType t = f.type;
  if (f.bound && !t.shape.known()) t.shape = *f.bound;
  return t;
}

std::string megabytes(std::size_t bytes) { return std::to_string((bytes >> 20) + 1) + " MB"; }

Status prepare_step(Binding& b, graph::NodeId id) {
  const graph::Node& n = b.info.g.node(id);
  PlannedStep step;
  step.node = id;
  step.inputs = n.inputs;
  step.outputs = n.outputs;
  for (graph::ValueId v : n.outputs)
    step.reports_shapes |= v != graph::kNoValue && b.plan.dynamic[at(v)];
  if (is_control_flow(n.op)) {
    FOLD8_CHECK_OK(prepare_control(b, id, step));
  } else {
    FOLD8_CHECK_OK(check_sizes(b, n));
    step.idle = all_empty(b, step);
    if (!step.idle) FOLD8_CHECK_OK(prepare_operator(b, n, step));
  }
  for (const auto* list : {&step.inputs, &step.outputs})
    for (graph::ValueId v : *list)
      if (v != graph::kNoValue)
        step.bytes += bytes_of(planned_type(b.plan.facts[at(v)])).value_or(0);
  b.segment.steps.push_back(std::move(step));
  return ok_status();
}

}  // namespace fold8::exec
