#include "runtime/exec/facts.h"

#include <algorithm>

namespace fold8::exec {
namespace {

std::size_t at(graph::ValueId v) { return static_cast<std::size_t>(v); }

// Extents that inference could not tell, from the declared shape.
void fill_unknown(Shape& inferred, const Shape& declared) {
  if (inferred.rank() != declared.rank()) return;
  for (int a = 0; a < inferred.rank(); ++a)
    if (!inferred[a].known() && (declared[a].known() || declared[a].is_symbol()) &&
        !inferred[a].is_symbol())
      inferred[a] = declared[a];
}

// Types of outputs are moved into the context: an error ends the plan.
void fill_context(const graph::Node& n, FactsTable& facts, ops::InferContext& c) {
  c.inputs.clear();
  c.outputs.clear();
  c.inputs.reserve(n.inputs.size());
  c.outputs.reserve(n.outputs.size());
  for (graph::ValueId v : n.inputs) {
    ops::InferContext::Operand operand;
    if (v != graph::kNoValue) {
      const Facts& f = facts[v];
      operand.type = &facts.type(v);
      // Bytes that were read say more than what was known of them before.
      operand.ints = f.data == nullptr || (f.ints && f.ints->all_known()) ? f.ints.get() : nullptr;
      operand.constant = f.type.layout == Layout::plain ? f.data : nullptr;
    }
    c.inputs.push_back(operand);
  }
  for (graph::ValueId v : n.outputs) {
    ops::InferContext::Output& output = c.outputs.emplace_back();
    output.wanted = v != graph::kNoValue;
    if (!output.wanted) continue;
    Facts& f = facts.edit(v);
    output.typed = f.has_type;
    output.type = std::move(f.type);
  }
}

}  // namespace

ConstantFacts::ConstantFacts(const graph::Graph& graph) : g(graph), slot(at(graph.value_count())) {
  std::int32_t activations = 0;
  for (graph::ValueId v = 0; v < g.value_count(); ++v) {
    if (!g.is_constant(v)) {
      slot[at(v)] = activations++;
      continue;
    }
    slot[at(v)] = -1 - static_cast<std::int32_t>(constants.size());
    Facts& f = constants.emplace_back();
    const TensorType& t = g.type(v);
    f.type = {t.dtype, t.shape, std::nullopt, t.layout};
    f.has_type = g.value(v).has_type;
    f.data = g.value(v).constant->data();
    f.count_bytes();
  }
}

FactsTable::FactsTable(const ConstantFacts& constants) : constants_(&constants) {
  own_.reserve(constants.slot.size() - constants.constants.size());
  for (graph::ValueId v = 0; v < constants.g.value_count(); ++v)
    if (constants.slot[at(v)] >= 0)
      own_.push_back({.type = graph().type(v), .has_type = graph().value(v).has_type});
}

void FactsTable::reset(graph::ValueId v) {
  edit(v) = {.type = graph().type(v), .has_type = graph().value(v).has_type};
}

void Facts::count_bytes() {
  const Shape& shape = bound && !type.shape.known() ? *bound : type.shape;
  const auto n = shape.elements();
  std::size_t product = 0;
  bytes = std::nullopt;
  if (n && !__builtin_mul_overflow(static_cast<std::size_t>(*n), size_of(type.dtype), &product))
    bytes = product;
}

bool is_control_flow(const graph::Op& op) {
  return std::holds_alternative<graph::If>(op) || std::holds_alternative<graph::Loop>(op) ||
         std::holds_alternative<graph::Scan>(op);
}

std::string describe(const graph::Node& n) {
  return "node '" + n.name + "' (" + graph::display_name(n.op) + ")";
}

Status infer_node(graph::NodeId id, FactsTable& facts, ops::InferContext& c) {
  const graph::Graph& g = facts.graph();
  const graph::Node& n = g.node(id);
  for (graph::ValueId v : n.inputs)
    if (v != graph::kNoValue && !facts[v].has_type)
      return in_context(describe(n), invalid_model("the type of its operand '" + g.value(v).name +
                                                   "' is not known"));
  fill_context(n, facts, c);
  if (auto s = ops::infer(n.op, c); !s.ok()) return in_context(describe(n), std::move(s).error());
  for (std::size_t o = 0; o < n.outputs.size(); ++o) {
    if (n.outputs[o] == graph::kNoValue) continue;
    Facts& f = facts.edit(n.outputs[o]);
    ops::InferContext::Output& out = c.outputs[o];
    if (f.has_type && !out.bound) fill_unknown(out.type.shape, g.type(n.outputs[o]).shape);
    f.type = std::move(out.type);
    f.has_type = true;
    if (!out.ints)
      f.ints = nullptr;
    else if (f.ints)
      *f.ints = std::move(*out.ints);
    else
      f.ints = std::make_unique<ops::KnownInts>(std::move(*out.ints));
    f.bound = out.bound ? std::make_unique<Shape>(*out.bound) : nullptr;
    f.count_bytes();
  }
  return ok_status();
}

}  // namespace fold8::exec
