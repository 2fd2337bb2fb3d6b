// Prepared operators of one segment.
#include <list>

#include "runtime/exec/bind.h"
#include "runtime/exec/nested.h"
#include "runtime/exec/states.h"

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

// Every operand that planning knows is a constant of the graph: what prepare() makes of it may be
// kept.
bool only_constants(const Binding& b, const graph::Node& n) {
  for (graph::ValueId v : n.inputs)
    if (v != graph::kNoValue && b.plan.facts[v].data != nullptr && !b.info.g.is_constant(v))
      return false;
  return true;
}

// Before anything of that size is allocated. Outputs of control flow are checked by their bodies.
Status check_sizes(const Binding& b, const graph::Node& n) {
  for (graph::ValueId v : n.outputs) {
    if (v == graph::kNoValue) continue;
    const Facts& f = b.plan.facts[v];
    const auto bytes = f.bytes;
    if (!bytes || *bytes > b.options.memory_limit)
      return invalid_argument("tensor '" + b.info.g.value(v).name + "' would be " +
                              std::string(name(f.type.dtype)) + to_string(planned_shape(f)) +
                              ", more than the limit of " + megabytes(b.options.memory_limit) +
                              "; run smaller inputs");
  }
  return ok_status();
}

}  // namespace

Status prepare_operator(Binding& b, const graph::Node& n, PlannedStep& step) {
  std::list<TensorType> bounded;  // stay put
  ops::PrepareContext& c = b.context;
  c.inputs.clear();
  c.outputs.clear();
  c.kernels = b.options.kernels;
  c.threads = b.options.pool != nullptr ? b.options.pool->threads() : 1;
  c.memo = only_constants(b, n) ? &b.info.memos[static_cast<std::size_t>(step.node)] : nullptr;
  const auto add = [&](graph::ValueId v) {
    ops::PrepareContext::Operand operand;
    if (v == graph::kNoValue) return operand;
    const Facts& f = b.plan.facts[v];
    operand.type = &b.plan.facts.type(v);
    if (f.bound && !f.type.shape.known()) {
      operand.type = &bounded.emplace_back(f.type);
      bounded.back().shape = *f.bound;
    }
    operand.constant = f.data;
    operand.ints = f.data == nullptr ? f.ints.get() : nullptr;
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

bool writes_nothing(const Binding& b, const PlannedStep& step) {
  for (graph::ValueId v : step.outputs) {
    if (v == graph::kNoValue) continue;
    if (b.plan.dynamic[at(v)]) return false;
    if (b.plan.facts[v].bytes.value_or(1) > 0) return false;
  }
  return true;
}

const Shape& planned_shape(const Facts& f) {
  return f.bound && !f.type.shape.known() ? *f.bound : f.type.shape;
}

std::string megabytes(std::size_t bytes) { return std::to_string((bytes >> 20) + 1) + " MB"; }

Status prepare_step(Binding& b, graph::NodeId id) {
  const graph::Node& n = b.info.g.node(id);
  PlannedStep step;
  step.node = id;
  step.inputs = n.inputs;
  step.outputs = n.outputs;
  for (graph::ValueId v : n.outputs) {
    if (v == graph::kNoValue) continue;
    step.reports_shapes |= b.plan.dynamic[at(v)];
    step.appends |= b.options.states != nullptr && b.options.states->in_place(v);
  }
  if (is_control_flow(n.op)) {
    FOLD8_CHECK_OK(prepare_control(b, id, step));
  } else {
    FOLD8_CHECK_OK(check_sizes(b, n));
    step.idle = writes_nothing(b, step);
    if (!step.idle) FOLD8_CHECK_OK(prepare_operator(b, n, step));
  }
  for (const auto list : {step.inputs, step.outputs})
    for (graph::ValueId v : list)
      if (v != graph::kNoValue) step.bytes += b.plan.facts[v].bytes.value_or(0);
  b.segment.steps.push_back(std::move(step));
  return ok_status();
}

}  // namespace fold8::exec
