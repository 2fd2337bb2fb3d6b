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

ops::InferContext make_context(const graph::Node& n, const std::vector<Facts>& facts) {
  ops::InferContext c;
  for (graph::ValueId v : n.inputs) {
    ops::InferContext::Operand operand;
    if (v != graph::kNoValue) {
      const Facts& f = facts[at(v)];
      operand.type = &f.type;
      operand.ints = f.ints && f.data == nullptr ? &*f.ints : nullptr;
      operand.constant = f.type.layout == Layout::plain ? f.data : nullptr;
    }
    c.inputs.push_back(operand);
  }
  for (graph::ValueId v : n.outputs) {
    ops::InferContext::Output output;
    output.wanted = v != graph::kNoValue;
    if (output.wanted) {
      output.type = facts[at(v)].type;
      output.typed = facts[at(v)].has_type;
    }
    c.outputs.push_back(std::move(output));
  }
  return c;
}

}  // namespace

std::vector<Facts> initial_facts(const graph::Graph& g) {
  std::vector<Facts> facts(at(g.value_count()));
  for (graph::ValueId v = 0; v < g.value_count(); ++v) facts[at(v)] = initial_facts(g, v);
  return facts;
}

Facts initial_facts(const graph::Graph& g, graph::ValueId v) {
  Facts f;
  f.type = g.type(v);
  f.has_type = g.value(v).has_type;
  if (g.is_constant(v)) f.data = g.value(v).constant->data();
  return f;
}

bool is_control_flow(const graph::Op& op) {
  return std::holds_alternative<graph::If>(op) || std::holds_alternative<graph::Loop>(op) ||
         std::holds_alternative<graph::Scan>(op);
}

std::string describe(const graph::Node& n) {
  return "node '" + n.name + "' (" + graph::display_name(n.op) + ")";
}

Status infer_node(const graph::Graph& g, graph::NodeId id, std::vector<Facts>& facts) {
  const graph::Node& n = g.node(id);
  for (graph::ValueId v : n.inputs)
    if (v != graph::kNoValue && !facts[at(v)].has_type)
      return in_context(describe(n), invalid_model("the type of its operand '" + g.value(v).name +
                                                   "' is not known"));
  ops::InferContext c = make_context(n, facts);
  if (auto s = ops::infer(n.op, c); !s.ok()) return in_context(describe(n), std::move(s).error());
  for (std::size_t o = 0; o < n.outputs.size(); ++o) {
    if (n.outputs[o] == graph::kNoValue) continue;
    Facts& f = facts[at(n.outputs[o])];
    ops::InferContext::Output& out = c.outputs[o];
    if (f.has_type && !out.bound) fill_unknown(out.type.shape, f.type.shape);
    f.type = std::move(out.type);
    f.has_type = true;
    f.ints = std::move(out.ints);
    f.bound = std::move(out.bound);
  }
  return ok_status();
}

}  // namespace fold8::exec
